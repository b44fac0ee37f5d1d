"""The client's side of play-out: how much of which answer has been heard, and what to acknowledge.

A loudspeaker plays what arrives in order of arrival and without gaps of its own making: a chunk begins when
it arrives or when the one before it is over, whichever is later. With that rule arrival times and lengths are
all it takes to say what has been played at any moment, so nothing in here needs a clock or a device; times
are seconds on the caller's clock.

An answer that is cut stops at that moment: what was not played is forgotten and later chunks of it are
ignored.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator

from attrs import define, field, frozen

from duplex_trio.clients.events import AudioDelta, OutputAudioCleared, ResponseDone, ServerEvent

ROUNDING_MS = 1e-6
"""What differences of times in seconds may be short of a whole millisecond by."""
ANSWERS_KEPT = 256
"""Answers that are remembered; a minute of sound in pieces of 100 ms takes about 80 kB."""


@frozen
class PlayedSpan:
    """A stretch of an answer as it was (or will be) heard: from `start_s` to `end_s`, beginning `offset_ms`
    into it."""

    start_s: float
    end_s: float
    offset_ms: float


@frozen
class PlaybackAck:
    """Values of one `playback.ack`. `played_ms` is whole; of an answer heard to its end it covers the last
    fraction."""

    response_id: str
    item_id: str | None
    played_ms: int


@define
class _Track:
    response_id: str
    item_id: str | None = None
    spans: list[PlayedSpan] = field(factory=list)
    length_ms: float = 0.0
    finished: bool = False
    cut_s: float | None = None
    acknowledged_ms: int = 0

    def played_ms(self, now_s: float) -> float:
        begun = bisect_right(self.spans, now_s, key=lambda span: span.start_s)
        if not begun:
            return 0.0
        span = self.spans[begun - 1]
        return span.offset_ms + (min(now_s, span.end_s) - span.start_s) * 1000

    @property
    def end_s(self) -> float:
        return self.spans[-1].end_s if self.spans else -math.inf


class PlaybackCursor:
    """Play-out of one session.

    Args:
        acknowledge_every_ms: how much of an answer must have been played since its last acknowledgment for
            another one; its first and its last moment are acknowledged at once.
        latency_s: how long sound takes from its arrival to the ear, for a real device.
        answers_max: how many answers are remembered; of more, the oldest is forgotten once it has been heard or
            cut and that was acknowledged. `math.inf` remembers all.

    Attributes:
        latency_s: as above; may be changed, and then holds for what arrives from there on.
    """

    def __init__(
        self,
        *,
        acknowledge_every_ms: float = 200,
        latency_s: float = 0.0,
        answers_max: float = ANSWERS_KEPT,
    ) -> None:
        self._every_ms = acknowledge_every_ms
        self._answers_max = answers_max
        self.latency_s = latency_s
        self._tracks: dict[str, _Track] = {}
        self._unsettled: dict[str, _Track] = {}
        self._settled_until_s = -math.inf

    def observe(self, event: ServerEvent) -> None:
        """Account for one event of the session, at the time when it was received."""
        now_s, response_id = event.received_at_s, event.response_id
        match event:
            case AudioDelta() if response_id is not None:
                self.add(response_id, event.duration_ms, now_s, item_id=event.item_id)
            case ResponseDone() if response_id is not None:
                if event.status == "cancelled":
                    self.cut(now_s, response_id)
                self.finish(response_id)
            case OutputAudioCleared():
                self.cut(now_s, response_id)

    def add(self, response_id: str, duration_ms: float, now_s: float, *, item_id: str | None = None) -> None:
        """A chunk arrived."""
        track = self._tracks.get(response_id)
        if track is None:
            track = self._tracks[response_id] = self._unsettled[response_id] = _Track(response_id)
        track.item_id = item_id or track.item_id
        if track.cut_s is not None or duration_ms <= 0:
            return
        start_s = max(now_s + self.latency_s, self._free_s())
        track.spans.append(PlayedSpan(start_s, start_s + duration_ms / 1000, track.length_ms))
        track.length_ms += duration_ms

    def finish(self, response_id: str) -> None:
        """No chunk of this answer follows."""
        if response_id in self._tracks:
            self._tracks[response_id].finished = True

    def cut(self, now_s: float, response_id: str | None = None) -> None:
        """Stop an answer, or all of them, now. One that has been heard to its end is not changed."""
        for track in self._unsettled.values():
            if response_id not in (None, track.response_id) or track.cut_s is not None:
                continue
            if track.finished and track.end_s <= now_s:
                continue
            track.cut_s = now_s
            track.spans = [_until(span, now_s) for span in track.spans if span.start_s < now_s]

    def played_ms(self, response_id: str, now_s: float) -> float:
        """How much of an answer has been heard, from its beginning."""
        track = self._tracks.get(response_id)
        return 0.0 if track is None else track.played_ms(now_s)

    def length_ms(self, response_id: str) -> float:
        """How much of an answer has arrived before it was cut."""
        track = self._tracks.get(response_id)
        return 0.0 if track is None else track.length_ms

    def cut_s(self, response_id: str) -> float | None:
        """When an answer was cut, if it was."""
        track = self._tracks.get(response_id)
        return None if track is None else track.cut_s

    def spans(self, response_id: str) -> list[PlayedSpan]:
        """When which part of an answer is heard, as known now."""
        track = self._tracks.get(response_id)
        return [] if track is None else list(track.spans)

    def playing(self, now_s: float) -> bool:
        """Whether there is sound that has not been played yet."""
        return self._free_s() > now_s

    def over(self, response_id: str, now_s: float) -> bool:
        """Whether an answer is complete and has been heard to its end, or was cut."""
        track = self._tracks.get(response_id)
        return track is not None and (track.cut_s is not None or (track.finished and track.end_s <= now_s))

    @property
    def pending(self) -> bool:
        """Whether there is something to acknowledge, now or later, of what has arrived."""
        return bool(self._unsettled)

    def acknowledgments(self, now_s: float) -> Iterator[PlaybackAck]:
        """What to tell the server now; each value is given once."""
        for track in list(self._unsettled.values()):
            over = self.over(track.response_id, now_s)
            whole = over and track.cut_s is None
            played = math.ceil(track.length_ms) if whole else math.floor(track.played_ms(now_s) + ROUNDING_MS)
            if over:
                self._settle(track)
            step = 1 if over or track.acknowledged_ms == 0 else self._every_ms
            if played - track.acknowledged_ms >= step:
                track.acknowledged_ms = played
                yield PlaybackAck(track.response_id, track.item_id, played)

    def _settle(self, track: _Track) -> None:
        del self._unsettled[track.response_id]
        self._settled_until_s = max(self._settled_until_s, track.end_s)
        if len(self._tracks) > self._answers_max:
            del self._tracks[next(name for name in self._tracks if name not in self._unsettled)]

    def _free_s(self) -> float:
        return max([self._settled_until_s, *(track.end_s for track in self._unsettled.values())])


def _until(span: PlayedSpan, end_s: float) -> PlayedSpan:
    return PlayedSpan(span.start_s, min(span.end_s, end_s), span.offset_ms)
