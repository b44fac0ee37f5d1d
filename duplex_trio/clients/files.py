"""Recordings as a client sends them: WAV files of any rate and channel count as the PCM of a session.

Reading and resampling are the protocol's; this file joins them and says which file was at fault.
"""

from __future__ import annotations

from os import PathLike

from duplex_trio.clients.config import AudioFormat
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.protocol.duplex.audio import Pcm, pcm16_bytes, read_wav, resample


def load_wav(path: str | PathLike[str], sample_rate_hz: int) -> Pcm:
    """Read a WAV file as mono samples in [-1, 1] at a rate.

    Raises:
        ValueError: the file is missing, is no WAV file that can be read, or holds no sound.
    """
    try:
        pcm, rate_hz = read_wav(path)
    except RealtimeError as error:
        raise ValueError(f"{path}: {error.message}") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    # Of a recording that is shorter than one sample of the wanted rate nothing is left either.
    found = resample(pcm, rate_hz, sample_rate_hz) if len(pcm) else pcm
    if not len(found):
        raise ValueError(f"{path}: The file holds no sound.")
    return found


def encode_pcm(pcm: Pcm, audio: AudioFormat) -> bytes:
    """Samples in [-1, 1] as the bytes that `append_audio` takes.

    Raises:
        ValueError: the encoding is not `pcm16` or `pcm_f32le`.
    """
    match audio.encoding:
        case "pcm16":
            return pcm16_bytes(pcm)
        case "pcm_f32le":
            return pcm.astype("<f4").tobytes()
        case other:
            raise ValueError(f"sound cannot be encoded as {other!r} here; use pcm16 or pcm_f32le")
