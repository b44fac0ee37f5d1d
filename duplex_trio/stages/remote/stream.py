"""One request on a `RemoteChatStage`. What becomes of it is decided by the stage's task for it, in `run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from duplex_trio.stages.port import OutputSink, StageRequest
from duplex_trio.stages.thread_stream import ThreadStream
from duplex_trio.stages.units import ChatPrompt
from duplex_trio.stages.vllm_segments import Segments
from duplex_trio.stages.worker import UnitRefused

if TYPE_CHECKING:
    from duplex_trio.stages.remote.run import RemoteChatStage


class RemoteStream(ThreadStream):
    """One request; see `StageStream`. Both of its sides are on the Trio thread.

    Attributes:
        scope: holds the task that asks the engine for it.
    """

    def __init__(self, stage: RemoteChatStage, request: StageRequest, sink: OutputSink | None) -> None:
        super().__init__(stage, request, sink)
        self.scope = trio.CancelScope()
        self._segments = Segments(resumable=False)
        self._refusal: UnitRefused | None = None
        self._news = trio.Event()

    @property
    def over(self) -> bool:
        """Whether nothing is delivered any more."""
        return self.aborted or self.released.is_set()

    def offer(self, unit: Any, final: bool) -> None:
        """A unit arrived; what is wrong with it the task finds when it looks."""
        try:
            if self.request.resumable:
                raise UnitRefused("unsupported", "a remote language model has no resumable requests")
            self._segments.offer(unit, final, trio.current_time())
        except UnitRefused as refusal:
            self._refusal = self._refusal or refusal
        self.tell()

    def tell(self) -> None:
        """Something changed that the task may wait for."""
        self._news.set()

    async def wait_prompt(self) -> ChatPrompt | None:
        """Wait for the prompt; None if the request ends without one.

        Raises:
            UnitRefused: what came is none.
        """
        while not self._segments.ready and not self._segments.over:
            self.refuse_units()
            await self._wait_news()
        self.refuse_units()
        if not self._segments.ready:
            return None
        prompt = self._segments.take().unit
        self._segments.begin(())
        assert isinstance(prompt, ChatPrompt)
        return prompt

    async def wait_window(self) -> None:
        """Wait until the consumer has room for another output.

        Raises:
            UnitRefused: a unit came that cannot be.
        """
        self.refuse_units()
        while not self.window_open:
            await self._wait_news()
            self.refuse_units()

    def refuse_units(self) -> None:
        """Raise what was wrong with a unit, if anything was.

        Raises:
            UnitRefused: see there.
        """
        if self._refusal is not None:
            raise self._refusal

    async def _wait_news(self) -> None:
        self._news = trio.Event()
        await self._news.wait()
