"""Transcripts of speech that goes on, shown as far as two in a row agree.

One request on the recognition stage for the life of the session, one job in flight, so that a slow stage
makes transcripts rarer and not later. They are a courtesy: whatever fails here turns them off and nothing
else. Only a stage that died is asked again, a while later.
"""

from __future__ import annotations

import trio

from duplex_trio.pipelines.requests import StageForward
from duplex_trio.session.core import SessionCore
from duplex_trio.session.state.agreement import LocalAgreement
from duplex_trio.session.state.input import input_item_id, transcript_delta
from duplex_trio.stages.errors import StageDeadError
from duplex_trio.stages.port import OutputSink, StageFailed, StageOutput, StageStream
from duplex_trio.stages.units import Pcm


class PartialTranscripts(OutputSink):
    """Transcripts of speech that goes on: one request on the recognition stage, one job in flight."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._stream: StageStream | None = None
        self._agreement = LocalAgreement()
        self._in_flight = False
        self._item_id: str | None = None
        self._last_position = 0
        self._off = core.state.capabilities.partial_transcript_interval_ms <= 0

    def maybe_request(self, begin: int, position: int) -> None:
        """Ask for a transcript of [begin, position) if enough new sound has come since the last one."""
        state = self._core.state
        interval = state.capabilities.partial_transcript_interval_ms * state.timeline.sample_rate_hz // 1000
        if self._off or self._in_flight or position - max(self._last_position, begin) < interval:
            return
        forward = self._plan(state.timeline.read(begin, position))
        if forward is None:
            self._off = True
            return
        try:
            if self._stream is None:
                self._stream = self._core.port.open_listener(state.session_id, forward.stage_id, self)
            self._stream.submit_nowait(forward.unit)
        except StageDeadError:
            self._stream, self._last_position = None, position
            return
        except trio.BrokenResourceError:
            self._off = True
            return
        self._in_flight = True
        self._item_id = input_item_id(state)
        self._last_position = position
        self._core.counters.partial_transcripts += 1

    def _plan(self, pcm: Pcm) -> StageForward | None:
        try:
            return self._core.plugin.plan_partial(pcm, self._core.state.config.spoken_language)
        except Exception:
            self._core.log.exception("partial_transcripts.hook_failed")
            return None

    def deliver(self, output: StageOutput | StageFailed) -> None:
        """A transcript arrived; what two in a row agree on is shown."""
        self._in_flight = False
        if isinstance(output, StageFailed):
            self._stream = None
            if output.code == "engine_dead":
                return
            self._off = True
            self._core.log.warning("partial_transcripts.off", code=output.code, message=output.message)
            return
        state = self._core.state
        text = self._core.plugin.partial_transcript(output)
        if text is None or not state.speech_open or self._item_id != state.input_item_id:
            return
        new = self._agreement.update(text)
        if new and self._item_id is not None and not self._core.closing:
            self._core.emit(transcript_delta(state, self._item_id, new))

    def reset(self) -> None:
        """Other speech begins."""
        self._agreement.reset()
        self._last_position = 0

    def close(self) -> None:
        """End the request."""
        if self._stream is not None:
            self._stream.abort()
