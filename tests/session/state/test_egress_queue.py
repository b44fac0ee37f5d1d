"""What waits to be sent: two lanes, bounded, without anything of an older epoch."""

from __future__ import annotations

import pytest

from duplex_trio.deploy import SessionLimits
from duplex_trio.protocol.duplex import RateLimitsUpdated
from duplex_trio.session.state.egress_queue import (
    EgressOverflowError,
    EgressQueue,
    MediaEntry,
)

SMALL = SessionLimits(control_events_max=3, media_ms_max=1000.0, media_bytes_max=500)


def media(
    epoch: int = 0, *, response_id: str = "r", duration_ms: float = 100.0, size_bytes: int = 10
) -> MediaEntry:
    return MediaEntry(
        epoch=epoch,
        response_id=response_id,
        event=RateLimitsUpdated(),
        duration_ms=duration_ms,
        size_bytes=size_bytes,
    )


def queue(*entries: MediaEntry) -> EgressQueue:
    made = EgressQueue(SMALL)
    for entry in entries:
        assert made.put_media(entry)
    return made


def test_control_events_leave_in_order_and_then_there_are_none() -> None:
    """First in, first out."""
    made = EgressQueue()
    events = [RateLimitsUpdated(event_id=str(n)) for n in range(3)]
    for event in events:
        made.put_control(event)
    assert [made.pop_control() for _ in range(4)] == [*events, None]
    assert made.control_peak == 3


def test_a_full_control_lane_is_an_overflow() -> None:
    """The event beyond the bound is refused, and those before it stay."""
    made = EgressQueue(SMALL)
    for _ in range(3):
        made.put_control(RateLimitsUpdated())
    with pytest.raises(EgressOverflowError):
        made.put_control(RateLimitsUpdated())
    assert len(made) == 3


def test_media_leaves_in_order_and_is_counted() -> None:
    """Peeking takes nothing; popping gives room back."""
    first, second = media(duration_ms=300.0, size_bytes=7), media(duration_ms=200.0, size_bytes=5)
    made = queue(first, second)
    assert (made.media_ms, made.media_bytes) == (500.0, 12)
    assert made.peek_media() is first
    assert made.pop_media() is first
    assert made.peek_media() is second
    assert (made.media_ms, made.media_bytes) == (200.0, 5)
    made.pop_media()
    assert made.peek_media() is None
    assert (made.media_ms, made.media_bytes, len(made)) == (0.0, 0, 0)


def test_media_has_room_up_to_a_duration_and_a_size() -> None:
    """The lane is full by milliseconds or by bytes, whichever comes first; one entry of any size fits."""
    assert not queue(media(duration_ms=1000.0)).media_has_room
    assert not queue(media(size_bytes=500)).media_has_room
    almost = queue(media(duration_ms=1000.0 - 1, size_bytes=500 - 1))
    assert almost.media_has_room
    almost.pop_media()
    assert almost.put_media(media(duration_ms=10 * 1000.0))


def test_a_raised_epoch_drops_older_media_at_once() -> None:
    """What is of the new epoch stays; the dropped milliseconds are returned and added up."""
    kept = media(2, duration_ms=50.0)
    made = queue(media(0, duration_ms=300.0), media(1, duration_ms=200.0), kept)
    assert made.raise_epoch(2) == 500.0
    assert made.peek_media() is kept
    assert (made.media_ms, made.media_bytes, made.dropped_ms_total) == (50.0, 10, 500.0)


def test_stale_media_is_refused() -> None:
    """A producer that was overtaken by a cancellation is told that its entry was dropped."""
    made = queue()
    made.raise_epoch(1)
    assert not made.put_media(media(0, duration_ms=70.0))
    assert made.put_media(media(1))
    assert made.dropped_ms_total == 70.0
    assert len(made) == 1


def test_a_peek_passes_over_stale_media() -> None:
    """The lane is filtered on the way out too, whoever changed the epoch and however."""
    fresh = media(1)
    made = queue(media(0), media(0), fresh)
    made.epoch = 1
    assert made.peek_media() is fresh
    assert (made.media_ms, made.dropped_ms_total) == (100.0, 200.0)


def test_control_is_not_touched_by_a_raised_epoch() -> None:
    """Control events are never dropped."""
    made = queue(media(0))
    made.put_control(RateLimitsUpdated(event_id="kept"))
    made.raise_epoch(5)
    event = made.pop_control()
    assert event is not None
    assert event.event_id == "kept"


def test_the_media_of_one_response_can_be_dropped() -> None:
    """Only that response's entries go, its end marker with them."""
    marker = MediaEntry(epoch=0, response_id="a")
    other = media(0, response_id="b", duration_ms=40.0)
    made = queue(media(0, response_id="a"), marker, other)
    made.drop_response("a")
    assert made.pop_media() is other
    assert made.peek_media() is None
    assert made.dropped_ms_total == 100.0
