"""Steps of a program that stages and connections take: what goes wrong, and what ends."""

from __future__ import annotations

from attrs import frozen

from duplex_trio.engine import JournalGapError
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.testing.program.scene import Scene, Step


@frozen
class Slow(Step):
    """A stage takes so long for each step from now on."""

    stage: int
    step_s: float

    async def play(self, scene: Scene) -> None:
        """Change its pace."""
        scene.stages[self.stage % len(scene.stages)].step_s = self.step_s


@frozen
class Stick(Step):
    """A stage takes no more units."""

    stage: int

    async def play(self, scene: Scene) -> None:
        """Hold it."""
        scene.stages[self.stage % len(scene.stages)].hold()
        scene.endings.add("request_cleanup")  # a model that owns its turns does not outlive a timeout


@frozen
class Unstick(Step):
    """All stages take units again."""

    async def play(self, scene: Scene) -> None:
        """Let go of them."""
        for stage in scene.stages:
            stage.let_go()


@frozen
class Kill(Step):
    """A runtime dies; another one takes its place a while later."""

    stage: int

    async def play(self, scene: Scene) -> None:
        """Kill it."""
        living = [stage for stage in scene.stages if stage.alive]
        if living:
            living[self.stage % len(living)].kill()


@frozen
class Fail(Step):
    """Units of the session fail at a stage from now on."""

    stage: int

    async def play(self, scene: Scene) -> None:
        """Doom the session."""
        scene.doom.owner = scene.talker.handle.session_id
        scene.doom.stage_id = self.stage % len(scene.omni.pipeline.stages)
        scene.endings.add("request_cleanup")


@frozen
class Heal(Step):
    """Units do not fail any more."""

    async def play(self, scene: Scene) -> None:
        """Lift the doom."""
        scene.doom.owner = None


@frozen
class Stall(Step):
    """The client stops reading."""

    async def play(self, scene: Scene) -> None:
        """Let writes hang."""
        scene.talker.heard.stalled = True
        scene.endings |= {_end_of_absence(scene), "slow_reader"}


@frozen
class Break(Step):
    """The connection is gone, as whoever writes to it finds out."""

    async def play(self, scene: Scene) -> None:
        """Let writes fail."""
        scene.talker.heard.broken = True
        scene.endings.add(_end_of_absence(scene))


@frozen
class Leave(Step):
    """The connection is gone, as whoever reads from it finds out at once."""

    async def play(self, scene: Scene) -> None:
        """Report it."""
        scene.endings.add(_end_of_absence(scene))
        scene.talker.lose()


@frozen
class Return(Step):
    """The client comes back over a new connection, also if the old one works."""

    async def play(self, scene: Scene) -> None:
        """Resume; a session that has ended meanwhile, or that cannot be resumed, refuses."""
        resumable = scene.open and scene.talker.handle.resumable
        refused: str | None = None
        try:
            scene.talker.resume()
        except RealtimeError as error:
            refused = error.code
        except JournalGapError:
            return
        expected = (None,) if resumable else ("session_closed", "unsupported_session_resume")
        assert refused in expected, f"a client that comes back is told {refused}"


def _end_of_absence(scene: Scene) -> str:
    return "disconnect_grace_expired" if scene.talker.handle.resumable else "disconnect"


@frozen
class Close(Step):
    """The server closes the session."""

    async def play(self, scene: Scene) -> None:
        """Close it."""
        scene.endings.add("over")
        scene.talker.handle.close("over")
