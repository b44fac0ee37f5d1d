"""Sound and pictures as a client hands them over: data URLs, and WAV files of 16-bit mono sound."""

from __future__ import annotations

import wave
from os import PathLike
from pathlib import Path

import pybase64

from duplex_trio.clients.files import load_wav
from duplex_trio.protocol.duplex.audio import pcm16_bytes, wav_bytes

REFERENCE_RATE_HZ = 16_000
"""What models that imitate a voice listen to it at (models-minicpmo.md)."""


def audio_data_url(data: bytes, media_type: str = "audio/wav") -> str:
    """A sound file's bytes as a data URL (wire.md 9.5)."""
    return _data_url(data, media_type)


def reference_audio_data_url(path: str | PathLike[str]) -> str:
    """A recording of a voice to imitate, any WAV file, as `SessionConfig.ref_audio` takes it: a WAV file of 16-bit
    mono sound at 16 kHz (wire.md 9.5).

    Raises:
        ValueError: the file is missing, is no WAV file that can be read, or holds no sound.
    """
    return audio_data_url(wav_bytes(pcm16_bytes(load_wav(path, REFERENCE_RATE_HZ)), REFERENCE_RATE_HZ))


def image_data_url(data: bytes, media_type: str = "image/jpeg") -> str:
    """A picture file's bytes as a data URL (wire.md 9.5)."""
    return _data_url(data, media_type)


def read_pcm16_wav(path: str | PathLike[str], sample_rate_hz: int) -> bytes:
    """The samples of a WAV file that is 16-bit mono at exactly this rate, as little-endian pcm16.

    `load_wav` reads any WAV file, and resamples it.

    Raises:
        ValueError: it is missing, is no such file, or has another rate.
    """
    try:
        with wave.open(str(path), "rb") as file:
            found = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            pcm = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        reason = str(error) or "it is cut short"
        raise ValueError(f"{path}: not a WAV file of 16-bit samples: {reason}") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    if found != (1, 2, sample_rate_hz):
        channels, width, rate_hz = found
        raise ValueError(
            f"{path}: {channels} channels of {8 * width} bits at {rate_hz} Hz, "
            f"not 1 of 16 bits at {sample_rate_hz} Hz"
        )
    return pcm


def write_pcm16_wav(path: str | PathLike[str], pcm: bytes, sample_rate_hz: int) -> None:
    """Write little-endian pcm16 as a mono WAV file.

    Raises:
        ValueError: the bytes are no whole samples, or the rate is not positive.
    """
    if len(pcm) % 2:
        raise ValueError(f"{len(pcm)} bytes are no whole 16-bit samples")
    if sample_rate_hz <= 0:
        raise ValueError(f"sample_rate_hz must be positive, not {sample_rate_hz}")
    Path(path).write_bytes(wav_bytes(pcm, sample_rate_hz))


def _data_url(data: bytes, media_type: str) -> str:
    return f"data:{media_type};base64,{pybase64.b64encode(data).decode()}"
