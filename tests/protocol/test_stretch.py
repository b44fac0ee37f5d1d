"""Speech at another speed: its length, its pitch, its loudness, and no trace of how it was cut."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex_trio.protocol.realtime.stretch import TimeStretcher

SPEEDS = [0.25, 0.5, 0.8, 1.1, 1.25, 1.5]
RATES_HZ = [8000, 16_000, 22_050, 24_000, 48_000]
Pcm = npt.NDArray[np.float32]


def tone(rate_hz: int, seconds: float = 1.0, hz: float = 220.0) -> Pcm:
    time_s = np.arange(round(rate_hz * seconds)) / rate_hz
    return (0.5 * np.sin(2 * np.pi * hz * time_s)).astype(np.float32)


def stretched(sound: Pcm, rate_hz: int, speed: float) -> Pcm:
    stretcher = TimeStretcher(rate_hz, speed)
    return np.concatenate([stretcher.feed(sound), stretcher.flush()])


@pytest.mark.slow
@pytest.mark.parametrize("rate_hz", RATES_HZ)
@pytest.mark.parametrize("speed", SPEEDS)
def test_length_pitch_and_loudness(rate_hz: int, speed: float) -> None:
    """To the sample, to half a hertz in 220, and to one per cent."""
    made = stretched(tone(rate_hz), rate_hz, speed)
    assert len(made) == round(rate_hz / speed)
    spectrum = np.abs(np.fft.rfft(made * np.hanning(len(made)), 8 * len(made)))
    assert np.argmax(spectrum) * rate_hz / (8 * len(made)) == pytest.approx(220.0, abs=0.5)
    inner = made[rate_hz // 20 : -rate_hz // 20]
    assert np.sqrt(np.mean(inner**2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.01)
    assert np.abs(made).max() < 0.55


@pytest.mark.slow
@given(st.lists(st.integers(0, 4000), max_size=10), st.sampled_from(SPEEDS))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_no_way_to_cut_a_sound_changes_it(sizes: list[int], speed: float) -> None:
    sound = np.random.default_rng(len(sizes)).uniform(-0.5, 0.5, sum(sizes)).astype(np.float32)
    stretcher, at, pieces = TimeStretcher(16_000, speed), 0, []
    for size in sizes:
        pieces.append(stretcher.feed(sound[at : at + size]))
        at += size
    cut = np.concatenate([*pieces, stretcher.flush()])
    np.testing.assert_array_equal(cut, stretched(sound, 16_000, speed))
    assert len(cut) == round(len(sound) / speed)
    again = np.concatenate([stretcher.feed(sound), stretcher.flush()])
    np.testing.assert_array_equal(again, cut)


@pytest.mark.parametrize("n", [0, 1, 5, 100, 287, 288, 289, 700])
def test_a_sound_shorter_than_a_piece_is_all_there(n: int) -> None:
    sound = np.full(n, 0.25, dtype=np.float32)
    made = stretched(sound, 24_000, 0.5)
    assert len(made) == 2 * n
    if n > 600:
        assert np.abs(made[:n] - 0.25).max() < 0.01


def test_speed_one_leaves_sound_as_it_is() -> None:
    sound = tone(24_000)
    stretcher = TimeStretcher(24_000, 1.0)
    assert stretcher.feed(sound) is sound
    assert len(stretcher.flush()) == 0


@pytest.mark.slow
def test_sound_comes_soon_and_nothing_grows() -> None:
    """A minute in pieces of 20 ms: never more than 60 ms behind, and no more than that held."""
    stretcher, given_s, made_s = TimeStretcher(16_000, 1.25), 0.0, 0.0
    piece = tone(16_000, 0.02)
    for _ in range(3000):
        made_s += len(stretcher.feed(piece)) / 16_000
        given_s += 0.02
        assert given_s / 1.25 - made_s < 0.06
        assert len(stretcher._held) < 0.1 * 16_000


def test_a_reset_forgets_everything() -> None:
    stretcher = TimeStretcher(16_000, 0.5)
    fresh = stretched(tone(16_000), 16_000, 0.5)
    stretcher.feed(tone(16_000, hz=500.0))
    stretcher.reset()
    np.testing.assert_array_equal(np.concatenate([stretcher.feed(tone(16_000)), stretcher.flush()]), fresh)
