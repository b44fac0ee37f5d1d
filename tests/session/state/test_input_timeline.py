"""The user's sound as one line of samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.session.state.input_timeline import BYTES_PER_SAMPLE, InputTimeline
from duplex_trio.stages.units import Pcm


def ramp(begin: int, end: int) -> Pcm:
    """Samples that say their own position."""
    return np.arange(begin, end, dtype=np.float32)


def line(*lengths: int, bytes_max: int = 1 << 20) -> InputTimeline:
    """A timeline with one append of each length, one second apart."""
    timeline = InputTimeline(16_000, bytes_max)
    for index, length in enumerate(lengths):
        timeline.append(ramp(timeline.end, timeline.end + length), float(index))
    return timeline


def test_reads_cross_appends() -> None:
    """A range may begin and end inside any append; the result is a copy of exactly these samples."""
    timeline = line(10, 5, 20)
    assert timeline.read(7, 18).tolist() == list(range(7, 18))
    assert timeline.read(2, 4).tolist() == [2, 3]
    copy = timeline.read(2, 4)
    copy[:] = -1
    assert timeline.read(2, 4).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("begin", "end", "expected"), [(-5, 3, 3), (30, 99, 5), (35, 40, 0), (9, 9, 0), (9, 4, 0)]
)
def test_reads_beyond_the_line_give_what_is_held(begin: int, end: int, expected: int) -> None:
    """A range that reaches outside gives the part inside, possibly nothing."""
    assert len(line(35).read(begin, end)) == expected


def test_a_commit_leaves_what_came_later() -> None:
    """Sound behind the committed end stays, at its old positions."""
    timeline = line(10, 10)
    timeline.commit(13)
    assert (timeline.start, timeline.end, timeline.committed) == (13, 20, 13)
    assert timeline.read(0, 20).tolist() == list(range(13, 20))
    assert timeline.held_bytes == 7 * BYTES_PER_SAMPLE


def test_a_commit_behind_the_last_one_takes_nothing() -> None:
    """A commit whose sound another commit took already changes nothing."""
    timeline = line(20)
    timeline.commit(15)
    timeline.commit(10)
    assert (timeline.start, timeline.committed) == (15, 15)


def test_a_trim_drops_whole_appends_only() -> None:
    """Trimming keeps the append that the position lies in, and does not count as a commit."""
    timeline = line(10, 10, 10)
    timeline.trim(25)
    assert (timeline.start, timeline.committed) == (20, 0)
    assert timeline.read(0, 30).tolist() == list(range(20, 30))


def test_a_clear_keeps_the_positions() -> None:
    """After a clear the line is empty but goes on counting where it was."""
    timeline = line(10)
    timeline.clear()
    assert (timeline.start, timeline.end, timeline.committed) == (10, 10, 10)
    timeline.append(ramp(10, 14), 9.0)
    assert timeline.read(0, 99).tolist() == [10, 11, 12, 13]


def test_a_full_line_refuses_sound_and_stays_as_it_was() -> None:
    """An append beyond the bound is refused as `input_backpressure` naming `audio`; nothing of it is kept."""
    timeline = line(100, bytes_max=120 * BYTES_PER_SAMPLE)
    with pytest.raises(RealtimeError) as caught:
        timeline.require_room(21)
    assert (caught.value.code, caught.value.param) == ("input_backpressure", "audio")
    assert (timeline.start, timeline.end, timeline.held_bytes) == (0, 100, 400)
    timeline.require_room(20)
    timeline.append(ramp(100, 120), 5.0)
    assert timeline.end == 120


def test_the_rest_of_taken_sound_always_fits() -> None:
    """What a resampler held back is taken even by a full line, for its sound was admitted before."""
    timeline = line(100, bytes_max=100 * BYTES_PER_SAMPLE)
    timeline.append(ramp(100, 110), 5.0)
    assert timeline.end == 110


def test_commits_and_trims_make_room() -> None:
    """The bound is on what is held, not on what was ever appended."""
    timeline = line(100, bytes_max=100 * BYTES_PER_SAMPLE)
    timeline.commit(60)
    timeline.append(ramp(100, 160), 5.0)
    assert timeline.held_bytes == 400


def test_arrivals_are_known_by_position() -> None:
    """A sample arrived with the append that brought it; positions nobody has seen have no time."""
    timeline = line(10, 10)
    assert [timeline.arrival_s(at) for at in (1, 10, 11, 20)] == [0.0, 0.0, 1.0, 1.0]
    assert timeline.arrival_s(21) is None
    timeline.commit(20)
    assert timeline.arrival_s(11) == 1.0


def test_positions_in_milliseconds_count_from_the_beginning() -> None:
    """16 samples are a millisecond, whatever was committed in between."""
    timeline = line(32_000)
    timeline.commit(32_000)
    assert timeline.position_ms(24_000) == 1500


_steps = st.lists(
    st.tuples(st.sampled_from(["append", "commit", "trim", "clear"]), st.integers(0, 60)), max_size=30
)


@given(_steps, st.integers(0, 200), st.integers(0, 200))
def test_behaves_as_a_plain_list(steps: list[tuple[str, int]], begin: int, end: int) -> None:
    """Any sequence of operations leaves what a list of all samples with a moving start would hold."""
    timeline = InputTimeline(16_000, 1 << 20)
    samples: list[float] = []
    start = 0
    for name, value in steps:
        if name == "append":
            timeline.append(ramp(len(samples), len(samples) + value), 0.0)
            samples += [float(at) for at in range(len(samples), len(samples) + value)]
        elif name == "commit":
            timeline.commit(value)
            start = max(start, min(value, len(samples)))
        elif name == "trim":
            timeline.trim(value)
            assert start <= timeline.start <= max(start, value)
            start = timeline.start
        else:
            timeline.clear()
            start = len(samples)
        assert (timeline.start, timeline.end) == (start, len(samples))
        assert timeline.held_bytes == (len(samples) - start) * BYTES_PER_SAMPLE
        assert timeline.committed <= start
    assert timeline.read(begin, end).tolist() == samples[max(begin, start) : max(end, start)]
