"""PCM arithmetic without state: 16-bit samples and floats, rates, chunks. Streams are in `audio.py`.

One scale serves both ways: a 16-bit sample s is the float s / 32768, so that every 16-bit sample survives a
round trip.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import soxr

Pcm = npt.NDArray[np.float32]
"""Mono samples in [-1, 1], shape (n,)."""

_SCALE = np.float32(32768)
_REASON = 16.0


def clean(pcm: npt.NDArray[np.floating]) -> Pcm:
    """Return the sound as float32 if it is in reason; else a copy clipped to [-1, 1] in which a NaN is silence.

    A broken sample of a model's must not become a crash, nor spread through a resampler.
    """
    samples: Pcm = np.asarray(pcm, dtype=np.float32)
    # A NaN anywhere makes either extreme a NaN, which compares false. A little over full scale is normal.
    if samples.min(initial=0.0) >= -_REASON and samples.max(initial=0.0) <= _REASON:
        return samples
    clipped = samples.clip(-1.0, 1.0)
    clipped[np.isnan(clipped)] = 0.0
    return clipped


def pcm16_samples(pcm: npt.NDArray[np.floating]) -> npt.NDArray[np.int16]:
    """Return float samples as 16-bit ones: x * 32768 rounded to nearest even, clipped to [-32768, 32767]."""
    scaled = clean(pcm) * _SCALE
    np.rint(scaled, out=scaled)
    np.maximum(scaled, -32768.0, out=scaled)
    np.minimum(scaled, 32767.0, out=scaled)
    return scaled.astype("<i2")


def pcm16_bytes(pcm: npt.NDArray[np.floating]) -> bytes:
    """Return float samples as 16-bit little-endian bytes, two per sample."""
    return pcm16_samples(pcm).tobytes()


def float_from_pcm16(data: bytes | bytearray | memoryview) -> Pcm:
    """Return 16-bit little-endian bytes as floats in [-1, 1), shape (len / 2,). ValueError if odd."""
    samples = np.frombuffer(data, dtype="<i2")
    floats: Pcm = np.multiply(samples, np.float32(1 / 32768), dtype=np.float32)
    return floats


def resample(pcm: Pcm, from_hz: int, to_hz: int) -> Pcm:
    """Return a whole sound at another rate (soxr HQ, linear phase, no time shift), shape about n * to / from.

    For sound that arrives in pieces use a stream of `audio.py`: resampling piece by piece leaves a click at
    each seam.
    """
    if from_hz == to_hz:
        return pcm
    resampled: Pcm = soxr.resample(np.asarray(pcm, dtype=np.float32), from_hz, to_hz, quality="HQ")
    return resampled


def split_chunks(pcm: Pcm, sample_rate_hz: int, chunk_ms: int) -> Iterator[Pcm]:
    """Yield consecutive views of `chunk_ms` milliseconds each; the last one may be shorter.

    The boundaries are those of the exact time grid, so chunks of a rate like 22050 Hz differ by at most one
    sample and never drift. Raises ValueError unless `chunk_ms` is at least 1 and holds a sample.
    """
    if chunk_ms < 1 or chunk_ms * sample_rate_hz < 1000:
        raise ValueError(f"a chunk of {chunk_ms} ms at {sample_rate_hz} Hz holds no sample")
    start = 0
    index = 1
    while start < len(pcm):
        end = index * chunk_ms * sample_rate_hz // 1000
        yield pcm[start:end]
        start = end
        index += 1
