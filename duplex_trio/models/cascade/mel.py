"""Whisper's log-mel spectrogram, in numpy.

Owns the filter bank and the transform; how much sound goes into a window is the recogniser's business.

The definition is that of `whisper/audio.py` (openai/whisper): a periodic Hann window of 400 samples every
160, centred with reflected ends, the last column dropped; power spectrum; mel filters; log10 with a floor of
1e-10; clamped to 8 below the maximum; then (x + 4) / 4. The filters are those of
`librosa.filters.mel(sr=16000, n_fft=400)`: triangles on M. Slaney's Auditory Toolbox scale (linear up to 1000
Hz with 200/3 Hz a mel, then logarithmic with 27 mels to a factor of 6.4), each scaled to unit area.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duplex_trio.stages.units import Pcm

SAMPLE_RATE_HZ = 16000
WINDOW_SAMPLES = 400
HOP_SAMPLES = 160

_LINEAR_HZ_PER_MEL = 200.0 / 3.0
_LOG_START_HZ = 1000.0
_LOG_START_MEL = _LOG_START_HZ / _LINEAR_HZ_PER_MEL
_LOG_STEP = np.log(6.4) / 27.0

Features = npt.NDArray[np.float32]
"""Log-mel features, shape (bands, frames), one frame for each 10 ms."""


class LogMel:
    """The transform for a number of mel bands (80, or 128 for Whisper's third large model)."""

    def __init__(self, bands: int) -> None:
        self._filters = mel_filters(bands)
        angle = 2.0 * np.pi * np.arange(WINDOW_SAMPLES) / WINDOW_SAMPLES
        self._window = (0.5 - 0.5 * np.cos(angle)).astype(np.float32)

    def __call__(self, pcm: Pcm, frames: int) -> Features:
        """Features of 16 kHz sound, padded with silence or cut to `frames` frames, shape (bands, frames)."""
        samples = frames * HOP_SAMPLES
        sound = np.zeros(samples, np.float32)
        sound[: pcm.size] = pcm[:samples]
        padded = np.pad(sound, WINDOW_SAMPLES // 2, mode="reflect")
        strips = np.lib.stride_tricks.sliding_window_view(padded, WINDOW_SAMPLES)[::HOP_SAMPLES][:frames]
        spectrum = np.fft.rfft(strips * self._window, axis=1)
        power = spectrum.real**2 + spectrum.imag**2
        mel = self._filters @ power.T.astype(np.float32)
        log = np.log10(np.maximum(mel, 1e-10))
        log = np.maximum(log, log.max() - 8.0)
        return np.ascontiguousarray((log + 4.0) / 4.0, np.float32)


def mel_filters(bands: int) -> npt.NDArray[np.float32]:
    """The filter bank, shape (bands, 201): a row of weights over the FFT bins for each band."""
    bins_hz = np.fft.rfftfreq(WINDOW_SAMPLES, 1.0 / SAMPLE_RATE_HZ)
    top_mel = _LOG_START_MEL + np.log(SAMPLE_RATE_HZ / 2 / _LOG_START_HZ) / _LOG_STEP
    edges_hz = _mel_to_hz(np.linspace(0.0, top_mel, bands + 2))
    low, centre, high = edges_hz[:-2, None], edges_hz[1:-1, None], edges_hz[2:, None]
    rising = (bins_hz - low) / (centre - low)
    falling = (high - bins_hz) / (high - centre)
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    weights: npt.NDArray[np.float32] = (triangles * (2.0 / (high - low))).astype(np.float32)
    return weights


def _mel_to_hz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    linear = mel * _LINEAR_HZ_PER_MEL
    logarithmic = _LOG_START_HZ * np.exp(_LOG_STEP * (mel - _LOG_START_MEL))
    return np.where(mel < _LOG_START_MEL, linear, logarithmic)
