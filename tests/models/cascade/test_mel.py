"""Whisper's features: the filter bank and the spectrogram against the reference implementation."""

from __future__ import annotations

import numpy as np
import pytest

from duplex_trio.models.cascade.mel import LogMel, mel_filters
from duplex_trio.testing.speech import noise, silence, tone


@pytest.mark.models
@pytest.mark.parametrize("bands", [80, 128])
def test_features_are_those_of_the_reference(bands: int) -> None:
    from transformers import WhisperFeatureExtractor

    reference = WhisperFeatureExtractor(feature_size=bands)
    assert mel_filters(bands) == pytest.approx(reference.mel_filters.T, abs=1e-7)
    sound = np.concatenate([noise(1.3, level=0.1), tone(0.7), silence(0.5)])
    expected = reference(sound, sampling_rate=16000, return_tensors="np").input_features[0]
    assert LogMel(bands)(sound, 3000) == pytest.approx(expected, abs=1e-4)


def test_every_filter_has_unit_area_and_they_cover_the_band() -> None:
    filters = mel_filters(40)
    assert filters.shape == (40, 201)
    assert filters.sum(axis=1) * 40.0 == pytest.approx(np.ones(40), rel=0.15)
    assert (filters[:, 1:200].sum(axis=0) > 0).all()
    assert (np.diff(filters.argmax(axis=1)) >= 0).all()


def test_a_tone_lights_up_its_band() -> None:
    features = LogMel(80)(tone(1.0, frequency_hz=1000.0), 100)
    band = int(features[:, 50].argmax())
    assert mel_filters(80)[band].argmax() * 40 == pytest.approx(1000, abs=40)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.5, 5.0])
def test_any_length_is_padded_or_cut_to_the_window(seconds: float) -> None:
    features = LogMel(80)(noise(seconds), 200)
    assert features.shape == (80, 200)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
