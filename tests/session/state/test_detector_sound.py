"""The input line as the detector hears it: whole frames at 16 kHz, and where they are on the line."""

from __future__ import annotations

import numpy as np
import pytest
import soxr
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.session.state.detector_sound import DetectorSound
from duplex_trio.session.state.input_timeline import InputTimeline
from duplex_trio.stages.units import Pcm

HELD_BACK = {8_000: 1600}
"""What the resampler keeps to itself, in samples at 16 kHz, where that is more than 400."""


def sweep(samples: int, rate_hz: int) -> Pcm:
    time_s = np.arange(samples) / rate_hz
    return (0.3 * np.sin(2 * np.pi * (200 + 50 * time_s) * time_s)).astype(np.float32)


def line_at(rate_hz: int) -> tuple[InputTimeline, DetectorSound]:
    timeline = InputTimeline(rate_hz, 1 << 26)
    return timeline, DetectorSound(timeline)


@given(st.lists(st.integers(0, 3000), max_size=12), st.lists(st.integers(0, 4), min_size=1, max_size=8))
def test_at_its_own_rate_it_hears_the_line_itself(appends: list[int], takes: list[int]) -> None:
    """Every whole frame once and in order, however much is taken at a time."""
    timeline, sound = line_at(16_000)
    heard = [np.zeros(0, np.float32)]
    for index, samples in enumerate(appends):
        timeline.append(np.arange(timeline.end, timeline.end + samples, dtype=np.float32), 0.0)
        taken = sound.take(takes[index % len(takes)])
        assert len(taken) % 512 == 0
        assert len(taken) // 512 <= takes[index % len(takes)]
        heard.append(taken)
    while sound.frames_waiting:
        heard.append(sound.take(3))
    got = np.concatenate(heard)
    assert len(got) == timeline.end // 512 * 512
    assert np.array_equal(got, np.arange(len(got)))


@pytest.mark.parametrize("rate_hz", [8_000, 22_050, 24_000, 48_000])
@pytest.mark.parametrize("chunk_ms", [20, 37, 1000])
def test_at_another_rate_it_hears_the_whole_resampled(rate_hz: int, chunk_ms: int) -> None:
    """The same as resampling all of it at once, but for the last milliseconds; no seam, no drift."""
    timeline, sound = line_at(rate_hz)
    whole = sweep(rate_hz * 10, rate_hz)
    step, heard = rate_hz * chunk_ms // 1000, []
    for begin in range(0, len(whole), step):
        timeline.append(whole[begin : begin + step], 0.0)
        while sound.frames_waiting:
            heard.append(sound.take(7))
        late = timeline.end * 16_000 // rate_hz - sum(map(len, heard))
        assert late < HELD_BACK.get(rate_hz, 400) + 2 * 512
    got = np.concatenate(heard)
    expected = soxr.resample(whole, rate_hz, 16_000, quality="HQ")
    assert np.abs(got - expected[: len(got)]).max() < 1e-4


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 44_100])
@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=20))
def test_what_came_to_nothing_is_heard_anew(rate_hz: int, steps: list[tuple[int, bool]]) -> None:
    """As often as it happens, positions stay true and nothing is left out."""
    timeline, sound = line_at(rate_hz)
    timeline.append(sweep(rate_hz * 6, rate_hz), 0.0)
    judged = 0
    for frames, lost in steps:
        taken = sound.take(frames)
        if lost:
            sound.rewind(judged)
        else:
            judged += len(taken)
        assert abs(sound.line_position(judged) - judged * rate_hz / 16_000) <= len(steps)
    sound.rewind(judged)
    rest = sum(len(sound.take(9)) for _ in range(sound.frames_waiting))
    late = timeline.end * 16_000 // rate_hz - judged - rest
    assert late + len(steps) >= 0
    assert late < HELD_BACK.get(rate_hz, 400) + 2 * 512


def test_waiting_frames_are_never_waited_for_in_vain() -> None:
    """What the resampler holds back looks like a frame that waits, until it was asked for once."""
    timeline, sound = line_at(24_000)
    timeline.append(sweep(800, 24_000), 0.0)
    assert sound.frames_waiting == 1
    assert len(sound.take(32)) == 0
    assert sound.frames_waiting == 0


def test_what_is_skipped_is_not_heard() -> None:
    """Nothing of it comes back out of the resampler, and positions go on from there."""
    timeline, sound = line_at(24_000)
    timeline.append(np.full(24_000, 0.5, np.float32), 0.0)
    heard = len(sound.take(10))
    sound.skip_to_end(heard)
    assert (sound.frames_waiting, sound.line_position(heard)) == (0, 24_000)
    timeline.append(np.zeros(24_000, np.float32), 0.0)
    assert not sound.take(99).any()
    assert sound.line_position(heard + 16_000) == 48_000


@pytest.mark.parametrize("rate_hz", [16_000, 24_000, 22_050])
def test_positions_do_not_drift(rate_hz: int) -> None:
    """After hours a frame is still found at its place to the sample."""
    _, sound = line_at(rate_hz)
    hours = 5 * 3600
    assert sound.line_position(hours * 16_000) == hours * rate_hz
    assert abs(sound.line_position(512) - 512 * rate_hz / 16_000) < 1
