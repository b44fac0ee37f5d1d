"""Playback cursors and the estimate of a real-time player."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.session.state.playback import PlaybackCursor, PlaybackFigures, PlayoutClock


def cursor(generated_ms: float = 2000.0, sent_ms: float = 1000.0) -> PlaybackCursor:
    made = PlaybackCursor()
    made.generate(generated_ms)
    made.send(sent_ms)
    return made


def test_made_and_sent_sound_adds_up() -> None:
    """Durations are cumulative; the total is what was made, even while less of it was sent."""
    made = cursor()
    made.generate(500.0)
    made.send(250.0)
    assert made.figures() == PlaybackFigures(2500.0, 1250.0, 0.0, 0.0)
    assert made.total_ms == 2500.0
    assert made.unheard


def test_acknowledgements_only_grow() -> None:
    """An older acknowledgement that arrives late changes nothing."""
    made = cursor()
    made.acknowledge(600.0)
    made.acknowledge(400.0)
    assert (made.played_ms, made.committed_ms) == (600.0, 600.0)
    made.acknowledge(700.0, 650.0)
    assert (made.played_ms, made.committed_ms) == (700.0, 650.0)
    made.acknowledge(1000.0)
    assert not made.unheard


def test_sound_that_was_not_sent_was_not_heard() -> None:
    """An acknowledgement beyond what was sent counts as heard up to there, and further once that is sent."""
    made = cursor(sent_ms=300.0)
    made.acknowledge(5000.0)
    assert made.heard_ms == 300.0
    made.send(200.0)
    assert made.heard_ms == 500.0


def test_a_hard_truncate_outlives_a_larger_acknowledgement() -> None:
    """What the client cut off stays unheard, whatever is acknowledged later."""
    made = cursor()
    made.acknowledge(900.0)
    made.truncate(400.0)
    assert made.committed_ms == 400.0
    made.acknowledge(1000.0)
    assert made.committed_ms == 400.0
    assert made.heard_ms == 400.0


def test_the_lowest_truncate_stands() -> None:
    """A second truncate can shorten further but not lengthen."""
    made = cursor()
    made.truncate(400.0)
    made.truncate(700.0)
    assert made.committed_ms == 400.0
    made.truncate(100.0)
    assert made.committed_ms == 100.0


@pytest.mark.parametrize(
    ("asked_ms", "kept_ms"), [(-50.0, 0.0), (0.0, 0.0), (1500.0, 1500.0), (9000.0, 2000.0)]
)
def test_a_truncate_is_clamped_to_the_sound(asked_ms: float, kept_ms: float) -> None:
    """A position before the beginning or behind the end means the beginning or the end."""
    made = cursor()
    made.truncate(asked_ms)
    assert made.committed_ms == kept_ms


_steps = st.lists(
    st.tuples(st.sampled_from(["generate", "send", "acknowledge", "truncate"]), st.floats(0, 3000)),
    max_size=20,
)


@given(_steps)
def test_positions_fall_only_by_a_truncate(steps: list[tuple[str, float]]) -> None:
    """Through any sequence no figure falls, but the committed one when it is truncated, and a cap holds."""
    made = PlaybackCursor()
    for name, value in steps:
        before = made.figures()
        getattr(made, name)(value)
        after = made.figures()
        assert after.generated_ms >= before.generated_ms
        assert after.sent_ms >= before.sent_ms
        assert after.played_ms >= before.played_ms
        assert name == "truncate" or after.committed_ms >= before.committed_ms
        assert made.hard_cap_ms is None or after.committed_ms <= made.hard_cap_ms
        assert made.heard_ms <= made.sent_ms


def test_the_player_plays_what_it_gets_without_gaps() -> None:
    """Sound sent ahead is played after what waits; the lead shrinks with time and never below zero."""
    clock = PlayoutClock()
    assert clock.ahead_ms(5.0) == 0.0
    clock.send(300.0, now_s=10.0)
    clock.send(200.0, now_s=10.1)
    assert clock.ahead_ms(10.1) == pytest.approx(400.0)
    assert clock.ahead_ms(10.5) == pytest.approx(0.0)
    assert clock.ahead_ms(12.0) == 0.0


def test_a_player_that_ran_dry_starts_anew() -> None:
    """After a gap, new sound begins at its arrival and not where the old sound ended."""
    clock = PlayoutClock()
    clock.send(100.0, now_s=0.0)
    clock.send(500.0, now_s=3.0)
    assert clock.play_end_s == pytest.approx(3.5)


def test_a_cleared_player_holds_nothing() -> None:
    """After a clear nothing is ahead, and the next sound starts at once."""
    clock = PlayoutClock()
    clock.send(5000.0, now_s=1.0)
    clock.clear()
    assert clock.ahead_ms(1.0) == 0.0
    clock.send(100.0, now_s=1.0)
    assert clock.play_end_s == pytest.approx(1.1)
