"""What waits to be sent to a client: two lanes, bounded, filtered by epoch.

The *control* lane goes first and is never dropped. The *media* lane holds the deltas of the active response
in order, each tagged with the epoch that made it, and ends with a marker at which the response's closing
events are made. Raising the epoch removes older media at once, and `pop` looks again, because a producer that
was already resumed by "there is room" may put one more item after the change.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field, frozen

from duplex_trio.deploy import SessionLimits
from duplex_trio.pipelines.results import FunctionCallArguments, FunctionCallBegin, FunctionCallEnd
from duplex_trio.protocol.duplex import DuplexEvent


class EgressOverflowError(Exception):
    """The control lane is full: the client has stopped reading."""


@define(eq=False, kw_only=True)
class MediaEntry:
    """One item of the media lane: an event, or a step of a call whose events are made as it leaves.

    With neither it marks the end of its response. `queued_s` is when it was put there.
    """

    epoch: int
    response_id: str
    event: DuplexEvent | None = None
    step: FunctionCallBegin | FunctionCallArguments | FunctionCallEnd | None = None
    duration_ms: float = 0.0
    size_bytes: int = 0
    queued_s: float = 0.0


@frozen(kw_only=True)
class EgressWaiting:
    """What waits for one client: its media in bytes, for how long the oldest of it has, and events ahead of it."""

    media_bytes: int
    oldest_s: float
    events: int


@define
class EgressQueue:
    """Both lanes of one session."""

    limits: SessionLimits = field(factory=SessionLimits)
    epoch: int = 0
    media_ms: float = 0.0
    media_bytes: int = 0
    dropped_ms_total: float = 0.0
    control_peak: int = 0
    _control: deque[DuplexEvent] = field(factory=deque)
    _media: deque[MediaEntry] = field(factory=deque)

    def put_control(self, event: DuplexEvent) -> None:
        """Queue an event ahead of all media.

        Raises:
            EgressOverflowError: as many events as may wait do so already.
        """
        if len(self._control) >= self.limits.control_events_max:
            raise EgressOverflowError(f"{self.limits.control_events_max} events wait for the client")
        self._control.append(event)
        self.control_peak = max(self.control_peak, len(self._control))

    @property
    def control_waiting(self) -> int:
        """Control events that wait."""
        return len(self._control)

    def put_last(self, event: DuplexEvent) -> None:
        """Queue the event after which nothing comes, whatever waits already."""
        self._control.append(event)

    def waiting(self, now_s: float) -> EgressWaiting:
        """What waits, for metrics."""
        return EgressWaiting(
            media_bytes=self.media_bytes,
            oldest_s=now_s - self._media[0].queued_s if self._media else 0.0,
            events=len(self._control),
        )

    @property
    def media_has_room(self) -> bool:
        """Whether a producer may put another media entry. An entry of any size fits into an empty lane."""
        limits = self.limits
        return self.media_ms < limits.media_ms_max and self.media_bytes < limits.media_bytes_max

    def put_media(self, entry: MediaEntry) -> bool:
        """Queue media in order; false if it is of an older epoch, and then it is dropped."""
        if entry.epoch < self.epoch:
            self.dropped_ms_total += entry.duration_ms
            return False
        self._media.append(entry)
        self.media_ms += entry.duration_ms
        self.media_bytes += entry.size_bytes
        return True

    def raise_epoch(self, epoch: int) -> float:
        """Drop all media of older epochs and return how many milliseconds of sound that was."""
        self.epoch = epoch
        kept = deque(entry for entry in self._media if entry.epoch >= epoch)
        dropped_ms = self.media_ms - sum(entry.duration_ms for entry in kept)
        self._media = kept
        self.media_ms = sum(entry.duration_ms for entry in kept)
        self.media_bytes = sum(entry.size_bytes for entry in kept)
        self.dropped_ms_total += dropped_ms
        return dropped_ms

    def drop_response(self, response_id: str) -> None:
        """Drop the media of one response, whatever its epoch: it ended by other means than its marker."""
        kept = deque(entry for entry in self._media if entry.response_id != response_id)
        self.dropped_ms_total += self.media_ms - sum(entry.duration_ms for entry in kept)
        self._media = kept
        self.media_ms = sum(entry.duration_ms for entry in kept)
        self.media_bytes = sum(entry.size_bytes for entry in kept)

    def pop_control(self) -> DuplexEvent | None:
        """Take the next control event."""
        return self._control.popleft() if self._control else None

    def peek_media(self) -> MediaEntry | None:
        """The next media entry of the current epoch, left in place; stale ones on the way are dropped."""
        while self._media and self._media[0].epoch < self.epoch:
            self.dropped_ms_total += self._take_media().duration_ms
        return self._media[0] if self._media else None

    def pop_media(self) -> MediaEntry:
        """Take the entry that `peek_media` showed."""
        return self._take_media()

    def __len__(self) -> int:
        return len(self._control) + len(self._media)

    def _take_media(self) -> MediaEntry:
        entry = self._media.popleft()
        self.media_ms = max(0.0, self.media_ms - entry.duration_ms)
        self.media_bytes = max(0, self.media_bytes - entry.size_bytes)
        return entry
