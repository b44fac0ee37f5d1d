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

DECODES_PER_SAMPLE = 16
"""Commands of which one is timed if it is an append: two looks at the clock are a tenth of what a short one costs."""


class SessionFigures:
    """The figures of one session.

    Args:
        counters: what is counted and measured.
        log: takes the lines.

    Attributes:
        received_s: when the command came that is being carried out; None while none is.
    """

    def __init__(self, counters: SessionCounters, log: structlog.stdlib.BoundLogger) -> None:
        self.counters = counters
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

    # ------------------------------------------------------------------ lines

    def response_done(self, response: Response, status: str, **more: object) -> None:
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
