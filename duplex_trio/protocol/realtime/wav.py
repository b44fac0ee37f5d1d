"""WAV files: reading the kinds that recordings and voice references come in, and writing 16-bit ones.

The standard library's `wave` reads neither float nor WAVE_FORMAT_EXTENSIBLE files; this file reads both.
Rates are left as they are (`audio.resample` changes them).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from attrs import frozen

from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.pcm import Pcm, pcm16_bytes

HEADER_BYTES: Final = 44
"""Size of the header that `wav_bytes` and `write_wav` put before the samples."""

_PCM: Final = 1
_FLOAT: Final = 3
_EXTENSIBLE: Final = 0xFFFE
_SUBFORMAT_TAIL: Final = bytes.fromhex("000000001000800000aa00389b71")
_MAX_BYTES: Final = 0xFFFF_FFFF - HEADER_BYTES


@frozen
class _Layout:
    tag: int
    channels: int
    sample_rate_hz: int
    bits: int

    @property
    def frame_bytes(self) -> int:
        return self.channels * self.bits // 8


def read_wav(source: str | PathLike[str] | bytes) -> tuple[Pcm, int]:
    """Read a WAV file, or the bytes of one, as (mono samples in [-1, 1] of shape (n,), rate in Hz).

    Integers of 8, 16, 24 and 32 bits and floats of 32 and 64 bits are read, plain or WAVE_FORMAT_EXTENSIBLE;
    channels are averaged. A data chunk that is longer than the file (a recording cut short, or a stream of
    unknown length) ends with the file.

    Raises:
        RealtimeError: `bad_audio`, for anything else.
        OSError: the file cannot be read.
    """
    content = source if isinstance(source, bytes) else Path(source).read_bytes()
    if len(content) < 12 or content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise _bad("it does not start as a RIFF WAVE file")
    layout: _Layout | None = None
    for chunk_id, body in _chunks(content):
        if chunk_id == b"fmt ":
            layout = _layout(body)
        elif chunk_id == b"data":
            if layout is None:
                raise _bad("its data comes before its format")
            return _mono(body, layout), layout.sample_rate_hz
    raise _bad("it has no data chunk")


def wav_bytes(pcm16: bytes, sample_rate_hz: int, channels: int = 1) -> bytes:
    """Return 16-bit little-endian samples (interleaved when `channels` > 1) as a complete WAV file.

    Raises:
        ValueError: it would be longer than a WAV file can say, 4 GiB.
    """
    if len(pcm16) > _MAX_BYTES:
        raise ValueError(f"a WAV file holds at most {_MAX_BYTES} bytes of samples, not {len(pcm16)}")
    return _header(len(pcm16), sample_rate_hz, channels) + pcm16


def wav_stream_header(sample_rate_hz: int, channels: int = 1) -> bytes:
    """Return the header of a WAV file of 16-bit samples whose length is not known yet: the longest one."""
    return _header(_MAX_BYTES, sample_rate_hz, channels)


def _header(n_bytes: int, sample_rate_hz: int, channels: int) -> bytes:
    frame_bytes = 2 * channels
    return (
        struct.pack("<4sI4s", b"RIFF", HEADER_BYTES - 8 + n_bytes, b"WAVE")
        + struct.pack(
            "<4sIHHIIHH",
            b"fmt ",
            16,
            _PCM,
            channels,
            sample_rate_hz,
            sample_rate_hz * frame_bytes,
            frame_bytes,
            16,
        )
        + struct.pack("<4sI", b"data", n_bytes)
    )


def write_wav(path: str | PathLike[str], channels: Pcm | Sequence[Pcm], sample_rate_hz: int) -> None:
    """Write floats as a 16-bit WAV file: one array for mono, or a sequence with one array per channel.

    Shorter channels are padded with silence at their end.
    """
    tracks = [channels] if isinstance(channels, np.ndarray) else list(channels)
    frames = np.zeros(
        (max((len(track) for track in tracks), default=0), max(len(tracks), 1)), dtype=np.float32
    )
    for index, track in enumerate(tracks):
        frames[: len(track), index] = track
    Path(path).write_bytes(wav_bytes(pcm16_bytes(frames.ravel()), sample_rate_hz, frames.shape[1]))


def _chunks(content: bytes) -> Iterator[tuple[bytes, memoryview]]:
    view = memoryview(content)
    offset = 12
    while offset + 8 <= len(content):
        size = int.from_bytes(content[offset + 4 : offset + 8], "little")
        yield content[offset : offset + 4], view[offset + 8 : offset + 8 + size]
        offset += 8 + size + size % 2


def _layout(body: memoryview) -> _Layout:
    if len(body) < 16:
        raise _bad("its format chunk is cut short")
    tag, channels, sample_rate_hz, _, block, bits = struct.unpack_from("<HHIIHH", body)
    if tag == _EXTENSIBLE:
        if len(body) < 40 or bytes(body[26:40]) != _SUBFORMAT_TAIL:
            raise _bad("its extensible format is unknown")
        tag = int.from_bytes(body[24:26], "little")
    if (tag, bits) not in {(_PCM, 8), (_PCM, 16), (_PCM, 24), (_PCM, 32), (_FLOAT, 32), (_FLOAT, 64)}:
        raise _bad(f"its samples (format {tag}, {bits} bits) are neither integer PCM nor float")
    layout = _Layout(tag, channels, sample_rate_hz, bits)
    if channels == 0 or sample_rate_hz == 0 or block != layout.frame_bytes:
        raise _bad("its format chunk contradicts itself")
    return layout


def _mono(body: memoryview, layout: _Layout) -> Pcm:
    whole = body[: len(body) - len(body) % layout.frame_bytes]
    samples = _floats(whole, layout)
    if not np.isfinite(samples).all():
        raise _bad("it holds samples that are not finite numbers")
    if layout.channels > 1:
        samples = samples.reshape(-1, layout.channels).mean(axis=1)
    return np.clip(samples, -1.0, 1.0).astype(np.float32)


def _floats(body: memoryview, layout: _Layout) -> npt.NDArray[np.float32] | npt.NDArray[np.float64]:
    if layout.tag == _FLOAT:
        return np.frombuffer(body, dtype="<f4" if layout.bits == 32 else "<f8")
    if layout.bits == 8:
        return np.subtract(np.frombuffer(body, dtype=np.uint8), 128.0, dtype=np.float32) / np.float32(128)
    if layout.bits == 24:
        padded = np.zeros((len(body) // 3, 4), dtype=np.uint8)
        padded[:, 1:] = np.frombuffer(body, dtype=np.uint8).reshape(-1, 3)
        return padded.view("<i4").ravel() / float(1 << 31)
    return np.frombuffer(body, dtype=f"<i{layout.bits // 8}") / float(1 << (layout.bits - 1))


def _bad(why: str) -> RealtimeError:
    return RealtimeError(code="bad_audio", message=f"This is not a WAV file that can be read: {why}.")
