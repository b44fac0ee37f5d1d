"""Stages that do not take units while they are told so, as one whose runtime hangs."""

from __future__ import annotations

import trio

from duplex_trio.stages.inline import InlineStage
from duplex_trio.stages.run import ThreadStage
from duplex_trio.stages.worker import StageWorker


class HeldStage(ThreadStage):
    """A stage whose `StageStream.submit` waits while the stage is held; what a stage forwards goes on."""

    _let_go: trio.Event | None = None

    def hold(self) -> None:
        """Take no unit from now on."""
        self._let_go = trio.Event()

    def let_go(self) -> None:
        """Take units again."""
        if self._let_go is not None:
            self._let_go.set()

    async def wait_room(self) -> None:
        """Wait until there is room and the stage is not held."""
        if self._let_go is not None:
            await self._let_go.wait()
        await super().wait_room()


class HeldInlineStage(HeldStage, InlineStage):
    """The same on the loop; it can be killed as well."""

    _killed = False

    def kill(self) -> None:
        """Let the runtime break at its next step."""
        self._killed = True
        self.wake()

    def _handle_control(self) -> None:
        if self._killed:
            raise RuntimeError("killed on purpose")
        super()._handle_control()


class HeldStages:
    """Makes the stages of an engine and holds them all.

    Args:
        threads: whether they run in threads.
    """

    def __init__(self, *, threads: bool) -> None:
        self._threads = threads
        self._made: list[HeldStage] = []

    def make(self, worker: StageWorker) -> ThreadStage:
        """Make one stage; a `StageFactory`."""
        stage = HeldStage(worker) if self._threads else HeldInlineStage(worker)
        self._made.append(stage)
        return stage

    def hold(self) -> None:
        """Let no stage take a unit."""
        for stage in self._made:
            stage.hold()

    def let_go(self) -> None:
        """Let all of them take units again."""
        for stage in self._made:
            stage.let_go()
