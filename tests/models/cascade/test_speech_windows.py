"""Cutting long sound at quiet points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.models.cascade.speech_windows import split_at_quiet
from duplex_trio.testing.speech import noise, silence


@pytest.mark.parametrize("seconds", [0.0, 1.0, 10.0])
def test_what_fits_is_one_piece(seconds: float) -> None:
    sound = noise(seconds)
    pieces = split_at_quiet(sound, 16000, longest_s=10.0)
    assert len(pieces) == 1
    assert pieces[0] is sound


def test_the_cut_is_in_the_middle_of_the_pause() -> None:
    sound = np.concatenate([noise(7.0), silence(0.4), noise(8.0), silence(0.3), noise(3.0)])
    pieces = split_at_quiet(sound, 16000, longest_s=10.0)
    assert [piece.size / 16000 for piece in pieces] == pytest.approx([7.2, 8.35, 3.15], abs=0.12)


def test_a_pause_too_early_for_the_window_is_not_taken() -> None:
    sound = np.concatenate([noise(2.0), silence(0.5), noise(6.0), noise(0.3, level=0.001), noise(4.0)])
    pieces = split_at_quiet(sound, 16000, longest_s=10.0)
    assert [piece.size / 16000 for piece in pieces] == pytest.approx([8.65, 4.15], abs=0.12)


@given(samples=st.integers(0, 5000), rate_hz=st.sampled_from([10, 100, 1000]), seed=st.integers(0, 9))
def test_nothing_is_lost_and_no_piece_is_too_long(samples: int, rate_hz: int, seed: int) -> None:
    sound = np.random.default_rng(seed).normal(0, 1, samples).astype(np.float32)
    pieces = split_at_quiet(sound, rate_hz, longest_s=1.0)
    assert np.array_equal(np.concatenate(pieces), sound)
    assert max(piece.size for piece in pieces) <= rate_hz
    assert min(piece.size for piece in pieces) > 0 or samples == 0
