from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex_trio.clients import PlaybackCursor
from duplex_trio.clients.events import parse_event
from duplex_trio.clients.playback import PlaybackAck, PlayedSpan

Step = Callable[[PlaybackCursor], object]


def add(ms: float, at_s: float, response_id: str = "r") -> Step:
    return lambda cursor: cursor.add(response_id, ms, at_s, item_id=f"item_{response_id}")


def cut(at_s: float, response_id: str | None = None) -> Step:
    return lambda cursor: cursor.cut(at_s, response_id)


def finish(response_id: str = "r") -> Step:
    return lambda cursor: cursor.finish(response_id)


@pytest.mark.parametrize(
    ("steps", "played"),
    [
        ([], {5: 0}),
        ([add(100, 1)], {0.5: 0, 1: 0, 1.05: 50, 1.1: 100, 9: 100}),
        ([add(100, 1), add(100, 1)], {1.05: 50, 1.15: 150, 9: 200}),
        # A late chunk leaves a gap in which nothing is played.
        ([add(100, 1), add(100, 2)], {1.5: 100, 2.05: 150, 9: 200}),
        ([add(100, 1), cut(1.04)], {1.02: 20, 1.04: 40, 9: 40}),
        # What arrives after the cut is not played, nor is what was waiting.
        ([add(100, 1), add(100, 1), cut(1.15), add(100, 1.2)], {9: 150}),
        # An answer waits for the one before it.
        ([add(1000, 1, "a"), add(100, 1.5)], {1.9: 0, 2.05: 50, 9: 100}),
        ([add(1000, 1, "a"), add(100, 1.5), cut(1.6, "a")], {2.05: 50, 9: 100}),
        ([add(100, 1), cut(1.05, "other")], {9: 100}),
        ([add(100, 1), finish(), cut(1.2)], {9: 100}),
        ([add(0, 1), add(-5, 1)], {9: 0}),
    ],
)
def test_played_ms_follows_the_clock_and_stops_at_a_cut(
    steps: list[Step], played: dict[float, float]
) -> None:
    cursor = PlaybackCursor()
    for step in steps:
        step(cursor)
    assert {at_s: cursor.played_ms("r", at_s) for at_s in played} == pytest.approx(played)


def test_a_device_plays_later_than_sound_arrives() -> None:
    cursor = PlaybackCursor(latency_s=0.5)
    cursor.add("r", 100, 1)
    assert cursor.spans("r") == [PlayedSpan(1.5, 1.6, 0)]


def test_acknowledgments_are_the_first_the_last_and_some_between() -> None:
    cursor = PlaybackCursor(acknowledge_every_ms=200)
    cursor.add("r", 500.4, 0, item_id="item_r")
    cursor.finish("r")
    told = {ms: [ack.played_ms for ack in cursor.acknowledgments(ms / 1000)] for ms in range(0, 700, 20)}
    assert {ms: values for ms, values in told.items() if values} == {
        20: [20],
        220: [220],
        420: [420],
        520: [501],
    }


def test_a_cut_is_acknowledged_once_with_what_was_heard() -> None:
    cursor = PlaybackCursor()
    cursor.add("r", 1000, 0, item_id="item_r")
    assert list(cursor.acknowledgments(0.1)) == [PlaybackAck("r", "item_r", 100)]
    cursor.cut(0.15)
    assert list(cursor.acknowledgments(0.16)) == [PlaybackAck("r", "item_r", 150)]
    assert list(cursor.acknowledgments(5)) == []


def test_an_answer_without_sound_is_over_and_not_acknowledged() -> None:
    cursor = PlaybackCursor()
    assert not cursor.over("r", 1)
    cursor.add("r", 0, 0)
    cursor.finish("r")
    assert cursor.over("r", 0)
    assert list(cursor.acknowledgments(9)) == []


@pytest.mark.parametrize(
    "ending",
    [
        {"type": "response.done", "response": {"id": "r", "status": "cancelled"}},
        {"type": "output_audio_buffer.cleared", "response_id": "r"},
        {"type": "output_audio_buffer.cleared", "response_id": None},
    ],
)
def test_events_drive_the_cursor(ending: dict[str, object]) -> None:
    cursor = PlaybackCursor()
    delta = {"type": "response.output_audio.delta", "response_id": "r", "item_id": "i", "delta": "AAAAAA=="}
    cursor.observe(parse_event(delta | {"sample_rate_hz": 2}, received_at_s=1))
    assert cursor.length_ms("r") == 1000
    cursor.observe(parse_event(ending, received_at_s=1.25))
    assert cursor.played_ms("r", 9) == pytest.approx(250)
    assert cursor.cut_s("r") == 1.25
    assert cursor.over("r", 1.25)


def test_old_answers_are_forgotten_once_they_are_settled() -> None:
    """A session may go on for days. One that is still made is remembered, however old it is."""
    cursor = PlaybackCursor(answers_max=2)
    cursor.add("going on", 1000, 0)
    told = []
    for number in range(10):
        name, now_s = f"r{number}", 1.0 + number
        cursor.add(name, 100, now_s)
        cursor.finish(name)
        told += [(ack.response_id, ack.played_ms) for ack in cursor.acknowledgments(now_s + 0.5)]
    assert told == [("going on", 1000), *((f"r{number}", 100) for number in range(10))]
    remembered = [name for name in ("going on", "r0", "r7", "r8", "r9") if cursor.spans(name)]
    assert remembered == ["going on", "r9"]
    assert cursor.played_ms("going on", 99) == 1000
    assert cursor.played_ms("r0", 99) == 0


arrivals = st.lists(
    st.tuples(st.sampled_from("ab"), st.floats(0, 500), st.floats(0, 0.5)), min_size=1, max_size=12
)


@settings(max_examples=60)
@given(arrivals, st.floats(0, 8), st.lists(st.floats(0, 12), min_size=1, max_size=10))
def test_acknowledged_never_shrinks_and_never_exceeds_what_arrived(
    chunks: list[tuple[str, float, float]], cut_s: float, polls: list[float]
) -> None:
    cursor = PlaybackCursor()
    now_s = 0.0
    for response_id, duration_ms, pause_s in chunks:
        now_s += pause_s
        cursor.add(response_id, duration_ms, now_s)
    cursor.cut(max(now_s, cut_s))
    told: dict[str, int] = {}
    for at_s in sorted(now_s + poll for poll in polls):
        for ack in cursor.acknowledgments(at_s):
            assert ack.played_ms > told.get(ack.response_id, 0)
            assert ack.played_ms <= cursor.length_ms(ack.response_id) + 1e-6
            told[ack.response_id] = ack.played_ms
    spans = sorted(
        (span for name in "ab" for span in cursor.spans(name)), key=lambda span: (span.start_s, span.end_s)
    )
    assert all(earlier.end_s <= later.start_s + 1e-9 for earlier, later in pairwise(spans))
