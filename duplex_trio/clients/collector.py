"""What a session said, kept with its times, and how long it took.

All times are those at which this client received an event, in milliseconds; what the server measured itself is in
`session_metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from attrs import Factory, define, field, frozen

from duplex_trio.clients.distribution import Distribution, distribution_summary
from duplex_trio.clients.errors import DuplexClientError
from duplex_trio.clients.events import (
    AudioDelta,
    ResponseCreated,
    ResponseDone,
    ServerEvent,
    TextDelta,
    TranscriptDelta,
)
from duplex_trio.clients.fanout import EventStream


@frozen(kw_only=True)
class ResponseTiming:
    """How one answer came, in milliseconds.

    Attributes:
        response_id: the answer.
        ttft_ms: from its beginning (`response.created`) to its first text; None without text.
        ttfp_ms: to its first sound; None without sound.
        audio_generation_ms: from the first piece of sound to the last.
        audio_duration_ms: length of the sound.
        chunk_gaps_ms: between one piece of sound and the next.
        status: its final status, None as long as it goes on.
    """

    response_id: str
    ttft_ms: float | None
    ttfp_ms: float | None
    audio_generation_ms: float
    audio_duration_ms: float
    chunk_gaps_ms: Sequence[float]
    status: str | None

    @property
    def real_time_factor(self) -> float | None:
        """How long the sound took to come, by its length; below 1 it kept up. None for less than two pieces."""
        if not self.chunk_gaps_ms or not self.audio_duration_ms:
            return None
        return self.audio_generation_ms / self.audio_duration_ms


@frozen(kw_only=True)
class TimingSummary:
    """How all answers of a session came; each None where there is nothing to sum up."""

    responses: int
    ttft_ms: Distribution | None
    ttfp_ms: Distribution | None
    audio_generation_ms: Distribution | None
    audio_duration_ms: Distribution | None
    chunk_gaps_ms: Distribution | None


@define
class _Kept:
    created_s: float
    first_text_s: float | None = None
    audio_s: list[float] = Factory(list)
    audio_ms: float = 0.0
    audio: bytearray = Factory(bytearray)
    status: str | None = None
    metrics: Mapping[str, Any] = Factory(dict)


@define
class EventCollector:
    """Keeps the events of a session: for tests, measurements and records of whole conversations.

    ```python
    collector = EventCollector()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collector.collect, client.events())
        ...
    print(collector.global_timing_summary().ttfp_ms)
    ```

    It keeps everything, sound included: a minute of it is 3 MB.

    Attributes:
        events: all events so far, in order; each has its time in `received_at_s`.
        ended_by: what ended the session, if that was not expected.
    """

    events: list[ServerEvent] = Factory(list)
    ended_by: DuplexClientError | None = None
    _responses: dict[str, _Kept] = field(factory=dict, init=False)

    async def collect(self, stream: EventStream) -> None:
        """Take the events of a stream until its session is over, and close it."""
        try:
            with stream:
                async for event in stream:
                    self.observe(event)
        except DuplexClientError as error:
            self.ended_by = error

    def observe(self, event: ServerEvent) -> None:
        """Take one event."""
        self.events.append(event)
        response_id = event.response_id
        if response_id is None or not event.type.startswith("response."):
            return
        if isinstance(event, ResponseCreated):
            self._responses.setdefault(response_id, _Kept(event.received_at_s))
        kept = self._responses.get(response_id)
        if kept is None:
            return
        match event:
            case AudioDelta():
                kept.audio_s.append(event.received_at_s)
                kept.audio_ms += event.duration_ms
                kept.audio += event.audio
            case TextDelta() | TranscriptDelta():
                if kept.first_text_s is None:
                    kept.first_text_s = event.received_at_s
            case ResponseDone():
                kept.status = event.status
                kept.metrics = event.duplex

    @property
    def response_ids(self) -> Sequence[str]:
        """The answers, in order."""
        return tuple(self._responses)

    def audio(self, response_id: str) -> bytes:
        """The sound of an answer, in the encoding of the session's output.

        Raises:
            KeyError: there was no such answer.
        """
        return bytes(self._responses[response_id].audio)

    def timing_summary(self, response_id: str) -> ResponseTiming:
        """How an answer came.

        Raises:
            KeyError: there was no such answer.
        """
        kept = self._responses[response_id]
        gaps = [(later - earlier) * 1000 for earlier, later in pairwise(kept.audio_s)]
        return ResponseTiming(
            response_id=response_id,
            ttft_ms=_since(kept.created_s, kept.first_text_s),
            ttfp_ms=_since(kept.created_s, kept.audio_s[0] if kept.audio_s else None),
            audio_generation_ms=sum(gaps),
            audio_duration_ms=kept.audio_ms,
            chunk_gaps_ms=gaps,
            status=kept.status,
        )

    def global_timing_summary(self) -> TimingSummary:
        """How all answers came."""
        timings = [self.timing_summary(response_id) for response_id in self._responses]
        spoken = [timing for timing in timings if timing.ttfp_ms is not None]
        return TimingSummary(
            responses=len(timings),
            ttft_ms=distribution_summary([one.ttft_ms for one in timings if one.ttft_ms is not None]),
            ttfp_ms=distribution_summary([one.ttfp_ms for one in spoken if one.ttfp_ms is not None]),
            audio_generation_ms=distribution_summary([one.audio_generation_ms for one in spoken]),
            audio_duration_ms=distribution_summary([one.audio_duration_ms for one in spoken]),
            chunk_gaps_ms=distribution_summary([gap for one in spoken for gap in one.chunk_gaps_ms]),
        )

    def session_metrics(self) -> dict[str, Distribution]:
        """What the server measured of its answers (`duplex.request_metrics`), by name; in milliseconds."""
        readings: dict[str, list[float]] = {}
        for kept in self._responses.values():
            figures = kept.metrics.get("request_metrics")
            for name, value in (figures if isinstance(figures, Mapping) else {}).items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    readings.setdefault(name, []).append(float(value))
        found = {name: distribution_summary(values) for name, values in readings.items()}
        return {name: summary for name, summary in found.items() if summary is not None}


def _since(begin_s: float, time_s: float | None) -> float | None:
    return None if time_s is None else (time_s - begin_s) * 1000
