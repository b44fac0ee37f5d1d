"""What one session measures about itself, and the lines that it writes about it.

Others tell when something happens, with the time where they know it; here it becomes counters, histograms, the
figures of a response and a line in the log. Nothing here waits or decides.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog
import trio

from duplex_trio.session.counters import SessionCounters
from duplex_trio.session.state.egress_queue import MediaEntry
from duplex_trio.session.state.interruption import Interruption, InterruptionLedger
from duplex_trio.session.state.response import Response
from duplex_trio.session.state.unit_clock import UnitAnswered
from duplex_trio.tracing import NO_SESSION_TRACE, ResponseEnding, SessionTrace

BARGE_INS = ("turn_detected", "barge_in")
"""Reasons of a cancellation that mean that the user wants to be heard."""
DECODES_PER_SAMPLE = 16
"""Commands of which one is timed if it is an append: two looks at the clock are a tenth of what a short one costs."""


class SessionFigures:
    """The figures of one session.

    Args:
        counters: what is counted and measured.
        log: takes the lines.
        trace: is told of responses and what happens in them.

    Attributes:
        received_s: when the command came that is being carried out; None while none is.
    """

    def __init__(
        self, counters: SessionCounters, log: structlog.stdlib.BoundLogger, trace: SessionTrace
    ) -> None:
        self.counters = counters
        self._trace = trace
        self.received_s: float | None = None
        self._log = log
        self._interruptions = InterruptionLedger()

    # ------------------------------------------------------------------ cancellations

    def cancelling(self, response: Response | None, since_s: float | None, dropped_ms: float) -> None:
        """An epoch is about to end with its response.

        Args:
            response: the active response.
            since_s: when the cause arrived; None when nobody waits for the cancellation.
            dropped_ms: sound that is thrown away.
        """
        self.counters.discarded_audio_ms += dropped_ms
        if response is not None:
            response.figures.discarded_audio_ms += dropped_ms
            if since_s is not None:
                response.figures.barge_in_decide_ms = (trio.current_time() - since_s) * 1000

    def epoch_ended(
        self,
        *,
        epoch: int,
        by_speech: bool,
        since_s: float | None,
        decided_s: float,
        requests: Iterable[str],
        writing: bool,
    ) -> None:
        """An epoch has ended at `decided_s`; see `InterruptionLedger.begin`."""
        if since_s is None:
            return
        made = self._interruptions.begin(
            epoch=epoch,
            by_speech=by_speech,
            received_s=since_s,
            now_s=decided_s,
            requests=requests,
            writing=writing,
        )
        counters = self.counters
        decided = counters.barge_in_decide_speech_ms if by_speech else counters.barge_in_decide_ms
        decided.observe(made.decide_ms)
        self._note_silence([made] if made.silence_ms is not None else [])
        self._tell_settled()

    def request_released(self, request_id: str) -> None:
        """The stages have let go of a request."""
        for one in self._interruptions.released(request_id, trio.current_time()):
            assert one.abort_ms is not None
            self.counters.barge_in_abort_ms.observe(one.abort_ms)
        self._tell_settled()

    def _note_silence(self, silent: Iterable[Interruption]) -> None:
        for one in silent:
            assert one.silence_ms is not None
            self.counters.barge_in_silence_ms.observe(one.silence_ms)

    def _tell_settled(self) -> None:
        for one in self._interruptions.take_settled():
            assert one.silence_ms is not None
            self._log.info(
                "barge_in.settled",
                epoch=one.epoch,
                by_speech=one.by_speech,
                decide_ms=round(one.decide_ms, 3),
                silence_ms=round(one.silence_ms, 3),
                abort_ms=None if one.abort_ms is None else round(one.abort_ms, 3),
            )

    # ------------------------------------------------------------------ media and model

    def media_written(self, entry: MediaEntry) -> None:
        """Media was handed to the socket."""
        now_s = trio.current_time()
        self.counters.egress_queue_age_ms.observe((now_s - entry.queued_s) * 1000)
        self._note_silence(self._interruptions.sound_written(entry.epoch, now_s))
        self._tell_settled()

    def media_stale(self, entry: MediaEntry) -> None:
        """Media came when its epoch was over."""
        self.counters.stale_outputs += 1
        self.counters.discarded_audio_ms += entry.duration_ms

    def unit_answered(self, answered: UnitAnswered, response: Response | None) -> None:
        """A model that owns its turns has answered a unit."""
        self.counters.unit_latency_ms.observe(answered.latency_ms)
        self.counters.unit_deadline_misses += answered.missed
        if response is not None:
            response.figures.note_unit(answered)

    def first_sound(self, response: Response) -> None:
        """The first sound of a response leaves for the client."""
        self._trace.event("first_audio", trio.current_time(), {}, response_id=response.response_id)

    def user_said(self, item_id: str, text: str) -> None:
        """What an item of the user says is known."""
        self._trace.event("user_said", trio.current_time(), {"item_id": item_id, "text": text})

    # ------------------------------------------------------------------ lines

    def response_created(self, response: Response, *, prepared: bool) -> None:
        """A response begins; `prepared` if its turn began ahead of the end of the user's speech."""
        self._log.info("response.created", response_id=response.response_id, prepared=prepared)
        self._trace.response_begun(
            response.response_id,
            epoch=response.epoch,
            turn_id=response.turn_id,
            prepared=prepared,
            speaks=response.speaks,
            at_s=trio.current_time(),
        )

    def function_called(self, name: str, call_id: str | None, response: Response | None = None) -> None:
        """The model wants a function called, in a response or between two."""
        self._log.info("function.called", name=name)
        told = {"gen_ai.tool.name": name} | ({} if call_id is None else {"gen_ai.tool.call.id": call_id})
        response_id = None if response is None else response.response_id
        self._trace.event("function_call", trio.current_time(), told, response_id=response_id)

    def response_done(self, response: Response, status: str, **more: str) -> None:
        """A response has ended: its one line, with how long it was awaited and what was sent of it."""
        metrics, figures = response.request_metrics, response.figures
        first_audio_ms = None
        if metrics is not None:
            first_audio_ms = metrics.speech_end_to_first_audio_ms or metrics.ttfp_ms
        (self._log.warning if status == "failed" else self._log.info)(
            "response.done",
            response_id=response.response_id,
            status=status,
            ttft_ms=None if metrics is None else metrics.ttft_ms,
            first_audio_ms=first_audio_ms,
            sound_ms=round(response.cursor.sent_ms),
            discarded_ms=round(figures.discarded_audio_ms),
            units=figures.units,
            unit_misses=figures.unit_deadline_misses,
            **more,
        )
        if self._trace is not NO_SESSION_TRACE:
            self._trace_end(response, status, first_audio_ms, **more)

    def _trace_end(
        self,
        response: Response,
        status: str,
        first_audio_ms: float | None,
        *,
        reason: str | None = None,
        code: str | None = None,
        message: str | None = None,  # may quote what somebody said
    ) -> None:
        now_s, response_id = trio.current_time(), response.response_id
        usage, figures = response.usage, response.figures
        told = {
            "first_audio_ms": first_audio_ms,
            "barge_in_decide_ms": figures.barge_in_decide_ms,
            "sound_ms": response.cursor.sent_ms,
            "discarded_ms": figures.discarded_audio_ms,
        }
        if reason in BARGE_INS:
            self._trace.event("barge_in", now_s, {"reason": reason}, response_id=response_id)
        self._trace.response_ended(
            response_id,
            ResponseEnding(
                status=status,
                at_s=now_s,
                reason=reason,
                code=code,
                finish_reason=response.finish_reason if status == "completed" else None,
                usage={}
                if usage is None
                else {
                    "input": usage.input_tokens,
                    "cached": usage.input_token_details.cached_tokens,
                    "output": usage.output_tokens,
                },
                figures={name: round(value, 3) for name, value in told.items() if value is not None},
                text=response.sent_text,
                spells=() if response.spells is None else response.spells.take(),
            ),
        )
