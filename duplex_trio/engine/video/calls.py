"""The stages of a model of video, as its plugin asks them: from threads, one unit at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import trio

from duplex_trio.engine.orchestrator_base import OrchestratorBase
from duplex_trio.plugin.video.plugin import StageCaller, StageCallError
from duplex_trio.stages.port import StageRequest

NO_ENGINE = ("engine_dead", "the engine is not running")
VIDEO_ENDED = ("video_ended", "the video has ended")


class VideoOrchestrator(OrchestratorBase):
    """Asks single stages, on behalf of videos. What one stage gives goes to no other one, but back to the plugin."""

    _serial = 0
    _live = 0

    @property
    def live_requests(self) -> int:
        """Units whose stages have not given all of their outputs yet."""
        return self._live

    async def ask(self, stage_id: int, unit: Any, *, owner: str) -> Sequence[Any]:
        """Give one unit to a stage and wait for all of its outputs.

        Cancelled, it is taken back from the stage; nobody waits until that has let go of it, for that is as long as
        the stage's own step may take.

        Raises:
            StageCallError: there is no such stage, or it refused, failed or died.
        """
        if not 0 <= stage_id < len(self.stages):
            raise StageCallError("engine_error", f"the model has no stage {stage_id}")
        self._serial += 1
        request = StageRequest(
            request_id=f"{owner}-{self._serial}", owner=owner, params=self.sampling[stage_id].apply(None)
        )
        self._live += 1
        try:
            stream = self.stages[stage_id].open(request)
            try:
                await stream.submit(unit, final=True)
                outputs = [output.data async for output in stream.outputs]
                failure = stream.failure
            finally:
                stream.abort()
        except trio.BrokenResourceError as error:
            raise StageCallError("engine_dead", f"the stage did not take it: {error}") from error
        finally:
            self._live -= 1
        if failure is not None:
            raise StageCallError(failure.code, failure.message)
        return outputs


class VideoStages(StageCaller):
    """The stages, for one video. Made on the Trio thread, and ended there.

    A call waits on the Trio thread, in the task that waits for the calling thread: when that is cancelled, so is the
    call. It also ends with the video and with the engine, whatever its thread does: none ever waits for nothing.

    Args:
        orchestrator: asks the stages.
        owner: whose video, for logs.
    """

    def __init__(self, orchestrator: VideoOrchestrator, owner: str) -> None:
        self._orchestrator = orchestrator
        self._owner = owner
        self._trio_thread = threading.get_ident()
        self._calls: set[trio.CancelScope] = set()
        self._ended: tuple[str, str] | None = None

    def call(self, stage_id: int, unit: Any) -> Sequence[Any]:
        """Give one unit to a stage and wait for all of its outputs; see `StageCaller`."""
        if threading.get_ident() == self._trio_thread:
            raise RuntimeError(
                "a stage is called from a thread of a video: here everything would wait for itself"
            )
        try:
            return trio.from_thread.run(partial(self._call, stage_id, unit))
        except trio.RunFinishedError as error:
            raise StageCallError(*NO_ENGINE) from error

    def end(self, why: tuple[str, str] = VIDEO_ENDED) -> None:
        """Let every call that waits end with an error, and every later one. Idempotent."""
        if self._ended is None:
            self._ended = why
        for scope in self._calls:
            scope.cancel()

    async def _call(self, stage_id: int, unit: Any) -> Sequence[Any]:
        outputs: Sequence[Any] | None = None
        if self._ended is None:
            with trio.CancelScope() as scope:
                self._calls.add(scope)
                try:
                    outputs = await self._orchestrator.ask(stage_id, unit, owner=self._owner)
                finally:
                    self._calls.discard(scope)
        if outputs is None:
            raise StageCallError(*(self._ended or VIDEO_ENDED))
        return outputs
