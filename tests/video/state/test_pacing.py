"""How far generation may run ahead, by the clock and by what the client reports."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.video.state.pacing import REPORT_S, PlaybackPace


def a_pace(lead_s: float | None = 0.5) -> PlaybackPace:
    """At 16 frames a second, so that all times below are exact."""
    return PlaybackPace(fps=16.0, lead_s=lead_s)


def test_nothing_waits_without_pacing() -> None:
    pace = a_pace(None)
    assert pace.wait_s(0, 0.0) == 0
    pace.first_sent(0.0)
    pace.playback(0.0, 0.0)
    assert pace.wait_s(1_000_000, 0.0) == 0


def test_a_chunk_begins_a_lead_before_it_is_due() -> None:
    """The clock runs from the first chunk that was sent."""
    pace = a_pace()
    assert pace.wait_s(0, 90.0) == 0
    pace.first_sent(100.0)
    assert pace.wait_s(8, 100.0) == 0
    assert pace.wait_s(9, 100.0) == 0.0625
    assert pace.wait_s(9, 100.0625) == 0
    assert pace.wait_s(18, 100.0625) == 0.5625
    assert pace.wait_s(18, 200.0) == 0


def test_only_the_first_chunk_starts_the_clock() -> None:
    pace = a_pace(0.0)
    pace.first_sent(1.0)
    pace.first_sent(5.0)
    assert pace.wait_s(16, 1.5) == 0.5


def test_nothing_is_played_before_the_first_chunk_is_sent() -> None:
    """However long that takes."""
    pace = a_pace()
    assert [pace.wait_s(9, now_s) for now_s in (0.0, 1000.0)] == [0.0625, 0.0625]


def test_a_report_counts_instead_of_the_clock() -> None:
    """A client that has fallen behind gets no more than it plays; one that is ahead of the clock gets it earlier."""
    pace = a_pace(0.0)
    pace.first_sent(0.0)
    assert pace.wait_s(32, 10.0) == 0
    pace.playback(1.5, 10.0)
    assert pace.wait_s(32, 10.0) == 0.5
    assert pace.wait_s(32, 10.5) == 0
    pace.playback(2.0, 10.1)
    assert pace.wait_s(32, 10.1) == 0


def test_a_report_is_good_for_a_second() -> None:
    """A player that is paused says nothing more: what it was last told to have got is enough for it."""
    pace = a_pace(0.0)
    assert pace.wait_s(64, 0.0) == 4
    pace.playback(1.0, 5.0)
    assert pace.wait_s(32, 5.0) == REPORT_S
    assert pace.wait_s(32, 6.0) == 0
    assert pace.wait_s(33, 6.0) == math.inf
    assert pace.wait_s(33, 1000.0) == math.inf
    pace.playback(1.0625, 1000.0)
    assert pace.wait_s(33, 1000.0) == REPORT_S


def test_going_back_is_ignored() -> None:
    """Altogether: not even as a sign that the player goes on. Where it was before, it may be again."""
    pace = a_pace(0.0)
    assert pace.wait_s(48, 0.0) == 3
    pace.playback(2.0, 1.0)
    pace.playback(1.9, 1.5)
    assert pace.wait_s(48, 1.5) == 0.5
    pace.playback(2.0, 1.5)
    assert pace.wait_s(48, 1.5) == 1


def test_a_report_of_what_does_not_exist_is_cut() -> None:
    """To what has been generated; it opens no window beyond."""
    pace = a_pace(0.0)
    pace.playback(1e300, 0.0)
    assert pace.wait_s(9, 0.0) == 0.5625
    pace.playback(1e300, 0.0)
    assert pace.wait_s(9, 0.0) == 0
    assert pace.wait_s(18, 0.0) == 0.5625


def test_what_has_been_generated_can_be_reported_as_played_before_the_next_chunk_is_due() -> None:
    pace = a_pace(0.0)
    assert pace.wait_s(0, 0.0) == 0
    pace.generated(9)
    pace.playback(0.5625, 0.0)
    assert pace.wait_s(9, 0.0) == 0


@given(
    fps=st.floats(1, 60),
    lead_s=st.floats(0, 10),
    frame=st.integers(0, 36_000),
    began_s=st.floats(0, 1e6),
    waited_s=st.floats(0, 700),
)
def test_after_the_wait_there_is_none(
    fps: float, lead_s: float, frame: int, began_s: float, waited_s: float
) -> None:
    """But for what floats lose; and it is never longer than the video up to there."""
    pace = PlaybackPace(fps=fps, lead_s=lead_s)
    pace.first_sent(began_s)
    wait_s = pace.wait_s(frame, began_s + waited_s)
    assert 0 <= wait_s <= frame / fps
    assert pace.wait_s(frame, began_s + waited_s + wait_s) == pytest.approx(0, abs=1e-6)
