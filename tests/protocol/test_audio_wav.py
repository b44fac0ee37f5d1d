"""WAV files of every kind that is read, and those that are refused."""

from __future__ import annotations

import struct
import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from duplex_trio.protocol.duplex.audio import read_wav, wav_bytes, write_wav
from duplex_trio.protocol.realtime.errors import RealtimeError

RAMP = np.array([0.0, 0.25, -0.25, 0.5, -0.5, -1.0, 127 / 128], dtype=np.float32)
PCM_GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")


def _file(
    tag: int,
    bits: int,
    body: bytes,
    *,
    channels: int = 1,
    rate_hz: int = 16000,
    extra: bytes = b"",
    size: int = -1,
) -> bytes:
    block = channels * bits // 8
    fmt = struct.pack("<HHIIHH", tag, channels, rate_hz, rate_hz * block, block, bits) + extra
    odd = b"LIST" + struct.pack("<I", 3) + b"abc\x00"
    data = b"data" + struct.pack("<I", len(body) if size < 0 else size) + body
    chunks = b"fmt " + struct.pack("<I", len(fmt)) + fmt + odd + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def _integers(bits: int) -> bytes:
    scaled = (RAMP.astype(np.float64) * (1 << (bits - 1))).astype(np.int64)
    if bits == 8:
        return (scaled + 128).astype(np.uint8).tobytes()
    return b"".join(int(value).to_bytes(bits // 8, "little", signed=True) for value in scaled)


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
@pytest.mark.parametrize("extensible", [False, True])
def test_integer_samples_are_read_exactly(bits: int, extensible: bool) -> None:
    extra = struct.pack("<HHIH", 22, bits, 4, 1) + PCM_GUID_TAIL if extensible else b""
    content = _file(0xFFFE if extensible else 1, bits, _integers(bits), extra=extra)
    pcm, rate_hz = read_wav(content)
    assert rate_hz == 16000
    assert pcm.dtype == np.float32
    assert pcm.tolist() == RAMP.tolist()


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("extensible", [False, True])
def test_float_samples_are_read_and_clipped(dtype: str, extensible: bool) -> None:
    samples = np.concatenate([RAMP, [1.5, -7.0]]).astype(dtype)
    bits = samples.itemsize * 8
    extra = struct.pack("<HHIH", 22, bits, 4, 3) + PCM_GUID_TAIL if extensible else b""
    pcm, _ = read_wav(_file(0xFFFE if extensible else 3, bits, samples.tobytes(), extra=extra))
    assert pcm.dtype == np.float32
    assert pcm.tolist() == [*RAMP.tolist(), 1.0, -1.0]


def test_channels_are_averaged() -> None:
    stereo = np.stack([RAMP, np.zeros_like(RAMP)], axis=1)
    body = (stereo * 32768).astype("<i2").tobytes()
    pcm, _ = read_wav(_file(1, 16, body, channels=2))
    assert pcm.tolist() == (RAMP / 2).tolist()


@pytest.mark.parametrize("size", [0xFFFF_FFFF, 10_000])
def test_a_recording_cut_short_ends_with_the_file(size: int) -> None:
    pcm, _ = read_wav(_file(1, 16, _integers(16) + b"\x01", size=size))
    assert pcm.tolist() == RAMP.tolist()


def _nan() -> bytes:
    return np.array([0, np.nan], dtype="<f4").tobytes()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "RIFF"),
        (b"ID3\x04" + bytes(100), "RIFF"),
        (b"RIFF" + bytes(4) + b"WAVE", "no data"),
        (b"RIFF" + bytes(4) + b"WAVEdata" + struct.pack("<I", 2) + b"ab", "before its format"),
        (b"RIFF" + bytes(4) + b"WAVEfmt " + struct.pack("<I", 4) + b"abcd", "cut short"),
        (_file(2, 4, b"abcd"), "neither integer PCM nor float"),
        (_file(7, 8, b"abcd"), "neither integer PCM nor float"),
        (_file(3, 16, b"abcd"), "neither integer PCM nor float"),
        (_file(1, 16, b"", channels=0), "contradicts"),
        (_file(1, 16, b"", rate_hz=0), "contradicts"),
        (_file(0xFFFE, 16, b"abcd"), "extensible"),
        (_file(0xFFFE, 16, b"abcd", extra=bytes(24)), "extensible"),
        (_file(3, 32, _nan()), "not finite"),
    ],
)
def test_other_content_is_refused_with_the_reason(content: bytes, why: str) -> None:
    with pytest.raises(RealtimeError, match=why) as caught:
        read_wav(content)
    assert caught.value.code == "bad_audio"


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_wav(tmp_path / "none.wav")


@pytest.mark.parametrize(
    "channels", [RAMP, [RAMP], [RAMP, RAMP[:3]], [RAMP[:0], RAMP]], ids=["array", "one", "short", "empty"]
)
def test_written_files_are_what_the_standard_library_reads(
    tmp_path: Path, channels: npt.NDArray[np.float32] | list[npt.NDArray[np.float32]]
) -> None:
    path = tmp_path / "out.wav"
    write_wav(path, channels, 22050)
    tracks = channels if isinstance(channels, list) else [channels]
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (len(tracks), 2, 22050)
        assert file.getnframes() == len(RAMP)
        frames = np.frombuffer(file.readframes(99), dtype="<i2").reshape(-1, len(tracks))
    for index, track in enumerate(tracks):
        expected = np.zeros(len(RAMP), dtype=np.int16)
        expected[: len(track)] = track * 32768
        np.testing.assert_array_equal(frames[:, index], expected)
    if len(tracks) == 1:
        pcm, rate_hz = read_wav(path)
        assert (pcm.tolist(), rate_hz) == (RAMP.tolist(), 22050)


def test_the_header_counts_its_samples() -> None:
    content = wav_bytes(b"\x01\x00" * 10, 24000)
    assert len(content) == 64
    assert struct.unpack_from("<I", content, 4)[0] == 56
    assert struct.unpack_from("<I", content, 40)[0] == 20
