"""The user's sound as one line of samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.session.state.input_timeline import BLOCK_SAMPLES, BYTES_PER_SAMPLE, InputTimeline
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


def test_a_trim_cuts_anywhere() -> None:
    """Also in the middle of an append, and it does not count as a commit."""
    timeline = line(10, 10, 10)
    timeline.trim(25)
    assert (timeline.start, timeline.committed) == (25, 0)
    assert timeline.read(0, 30).tolist() == list(range(25, 30))
    timeline.trim(20)
    assert timeline.start == 25
    timeline.trim(99)
    assert (timeline.start, timeline.end, timeline.committed) == (30, 30, 0)


def test_one_append_of_minutes_is_let_go_bit_by_bit() -> None:
    """What is trimmed of it gives its memory back, whatever was appended together."""
    timeline = line(BLOCK_SAMPLES * 10 + 5)
    for before in range(0, timeline.end, 1000):
        timeline.trim(before)
        blocks = len(timeline._blocks) * BLOCK_SAMPLES
        assert timeline.end - timeline.start <= blocks <= timeline.end - timeline.start + 2 * BLOCK_SAMPLES


@given(st.integers(1, 3 * BLOCK_SAMPLES), st.lists(st.integers(1, 2 * BLOCK_SAMPLES), max_size=6), st.data())
def test_reads_and_cuts_across_blocks(first: int, others: list[int], data: st.DataObject) -> None:
    """Wherever the seams of appends and blocks are."""
    timeline = line(first, *others)
    cut = data.draw(st.integers(0, timeline.end))
    timeline.trim(cut)
    timeline.append(ramp(timeline.end, timeline.end + 700), 0.0)
    begin = data.draw(st.integers(0, timeline.end))
    end = data.draw(st.integers(begin, timeline.end))
    expected = np.arange(max(begin, cut), end, dtype=np.float32)
    assert np.array_equal(timeline.read(begin, end), expected)


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
    timeline = line(400, 400)
    assert [timeline.arrival_s(at) for at in (1, 400, 401, 800)] == [0.0, 0.0, 1.0, 1.0]
    assert timeline.arrival_s(801) is None
    timeline.commit(800)
    assert timeline.arrival_s(401) == 1.0


def test_short_appends_share_an_arrival() -> None:
    """Those that are 20 ms together: a client that sends sample by sample fills no list of times."""
    timeline = line(*[1] * 3200)
    assert len(timeline._arrivals) <= 11
    for at in range(1, 3201):
        arrived_s = timeline.arrival_s(at)
        assert arrived_s is not None
        assert at - 1 <= arrived_s < at + 320


@pytest.mark.parametrize("forget", ["trim", "commit"])
def test_hours_of_sound_leave_nothing_behind(forget: str) -> None:
    """A line that is kept short has few blocks and few times of arrival, however much has passed through it."""
    timeline = InputTimeline(16_000, 1 << 20)
    pcm = np.zeros(8000, np.float32)
    for index in range(3 * 3600 * 2):
        timeline.append(pcm, index / 2)
        if forget == "trim":
            timeline.trim(timeline.end - 32_000)
        elif index % 4 == 0:
            timeline.commit(timeline.end - 100)
    assert timeline.end == 3 * 3600 * 16_000
    assert len(timeline._blocks) <= 6
    assert len(timeline._arrivals) <= 9


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
            start = max(start, min(value, len(samples)))
        else:
            timeline.clear()
            start = len(samples)
        assert (timeline.start, timeline.end) == (start, len(samples))
        assert timeline.held_bytes == (len(samples) - start) * BYTES_PER_SAMPLE
        assert timeline.committed <= start
    assert timeline.read(begin, end).tolist() == samples[max(begin, start) : max(end, start)]
