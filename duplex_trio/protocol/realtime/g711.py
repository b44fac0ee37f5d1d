"""The two G.711 laws as look-up tables, built once from the segments of ITU-T G.711 (11/88), tables 1 and 2.

Codes are the bytes on the wire (mu-law complemented, A-law with its even bits inverted); samples are 16-bit
PCM.
"""

from __future__ import annotations

from functools import cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

Law = Literal["ulaw", "alaw"]

_ULAW_BIAS: Final = 33
_ULAW_CLIP: Final = 8159
_ALAW_MASK: Final = 0x55
_PCM16_CODES: Final = 1 << 16


@cache
def decode_table(law: Law) -> npt.NDArray[np.int16]:
    """Return the 16-bit sample of each of the 256 codes, shape (256,), read-only."""
    codes = np.arange(256, dtype=np.int64)
    table = (_ulaw_samples(codes) if law == "ulaw" else _alaw_samples(codes)).astype(np.int16)
    table.flags.writeable = False
    return table


@cache
def float_table(law: Law) -> npt.NDArray[np.float32]:
    """Return the sample of each of the 256 codes as a float in [-1, 1), shape (256,), read-only."""
    table = np.multiply(decode_table(law), np.float32(1 / 32768), dtype=np.float32)
    table.flags.writeable = False
    return table


@cache
def encode_table(law: Law) -> npt.NDArray[np.uint8]:
    """Return the code of each 16-bit sample, shape (65536,), indexed by its bits as unsigned; read-only."""
    samples = np.arange(_PCM16_CODES, dtype=np.uint16).view(np.int16).astype(np.int64)
    table = (_ulaw_codes(samples) if law == "ulaw" else _alaw_codes(samples)).astype(np.uint8)
    table.flags.writeable = False
    return table


def encode(pcm16: npt.NDArray[np.int16], law: Law) -> bytes:
    """Compress 16-bit samples to one byte each."""
    return encode_table(law)[pcm16.view(np.uint16)].tobytes()


def decode(data: bytes, law: Law) -> npt.NDArray[np.float32]:
    """Expand bytes to one float sample in [-1, 1) each."""
    return float_table(law)[np.frombuffer(data, dtype=np.uint8)]


def _ulaw_samples(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    bits = codes ^ 0xFF
    segment, step = (bits >> 4) & 7, bits & 15
    magnitude = (((step * 2 + _ULAW_BIAS) << segment) - _ULAW_BIAS) * 4
    return np.asarray(np.where(bits & 0x80, -magnitude, magnitude))


def _alaw_samples(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    bits = codes ^ _ALAW_MASK
    segment, step = (bits >> 4) & 7, bits & 15
    linear = step * 16 + 8
    magnitude = np.where(segment == 0, linear, (linear + 256) << np.maximum(segment - 1, 0))
    return np.asarray(np.where(bits & 0x80, magnitude, -magnitude))


def _ulaw_codes(samples: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    linear = samples >> 2
    biased = np.minimum(np.abs(linear), _ULAW_CLIP) + _ULAW_BIAS
    segment = _top_bit(biased) - 5
    code = np.minimum((segment << 4) | ((biased >> (segment + 1)) & 15), 0x7F)
    masked: npt.NDArray[np.int64] = code ^ np.where(linear < 0, 0x7F, 0xFF)
    return masked


def _alaw_codes(samples: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    linear = samples >> 3
    magnitude = np.where(linear < 0, -linear - 1, linear)
    segment = np.maximum(_top_bit(np.maximum(magnitude, 1)) - 4, 0)
    code = (segment << 4) | ((magnitude >> np.maximum(segment, 1)) & 15)
    masked: npt.NDArray[np.int64] = code ^ np.where(linear < 0, _ALAW_MASK, _ALAW_MASK | 0x80)
    return masked


def _top_bit(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the index of each positive value's highest set bit."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64) - 1
