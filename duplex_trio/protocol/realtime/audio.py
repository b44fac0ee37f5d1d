"""Sound between the wire and the models: client bytes in, client bytes out, through stateful resamplers.

A decoder or encoder belongs to one direction of one session and one format; another format or rate needs a
new one. Both make their resampler (73 KiB) at the first sound that needs it. Base64 is the codec's; formats
are `formats.py`'s.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import soxr

from duplex_trio.protocol.realtime import g711
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.formats import AudioFormat
from duplex_trio.protocol.realtime.pcm import (
    Pcm,
    clean,
    float_from_pcm16,
    pcm16_bytes,
    pcm16_samples,
    resample,
    split_chunks,
)
from duplex_trio.protocol.realtime.stretch import TimeStretcher
from duplex_trio.protocol.realtime.wav import HEADER_BYTES, read_wav, wav_bytes, write_wav

__all__ = [
    "HEADER_BYTES",
    "AudioInputDecoder",
    "AudioOutputEncoder",
    "Pcm",
    "StreamResampler",
    "float_from_pcm16",
    "pcm16_bytes",
    "read_wav",
    "resample",
    "split_chunks",
    "wav_bytes",
    "write_wav",
]

_SILENCE: Pcm = np.zeros(0, dtype=np.float32)
_SILENCE.flags.writeable = False


class StreamResampler:
    """Resamples one sound that arrives in pieces; the pieces together give exactly what the whole would give.

    soxr's HQ filter holds back the last milliseconds (about 21 ms at speech rates) until more sound or
    `flush` comes. Equal rates pass through untouched.
    """

    def __init__(self, from_hz: int, to_hz: int) -> None:
        self._from_hz = from_hz
        self._to_hz = to_hz
        self._stream: soxr.ResampleStream | None = None

    def feed(self, pcm: Pcm) -> Pcm:
        """Take the next samples at `from_hz` and return those ready at `to_hz`, possibly none."""
        if self._from_hz == self._to_hz or not len(pcm):
            return pcm
        if self._stream is None:
            self._stream = soxr.ResampleStream(self._from_hz, self._to_hz, 1, dtype="float32", quality="HQ")
        ready: Pcm = self._stream.resample_chunk(pcm)
        return ready

    def flush(self) -> Pcm:
        """End the sound: return what is held back. What is fed next is a new sound."""
        if self._stream is None:
            return _SILENCE
        rest: Pcm = self._stream.resample_chunk(_SILENCE, last=True)
        self.reset()
        return rest

    def reset(self) -> None:
        """Drop what is held back, and the resampler's memory with it."""
        self._stream = None


class AudioInputDecoder:
    """Turns a client's appended bytes into float samples at the model's rate.

    A sample may be split between two appends: its first bytes wait for the rest. Wav is no input format
    (ValueError).
    """

    def __init__(self, format: AudioFormat, target_rate_hz: int) -> None:
        if format.encoding == "wav":
            raise ValueError("wav is not an input format")
        self.format = format
        self.target_rate_hz = target_rate_hz
        self._partial = b""
        self._resampler = StreamResampler(format.sample_rate_hz, target_rate_hz)

    def matches(self, format: AudioFormat) -> bool:
        """Tell whether this decoder decodes `format`; how the client spelled it does not matter."""
        mine = self.format
        return (mine.encoding, mine.sample_rate_hz) == (format.encoding, format.sample_rate_hz)

    def samples_of(self, n_bytes: int) -> int:
        """How many samples at the target rate so many more bytes come to, the last milliseconds included
        that the resampler will hold back.
        """
        whole = (len(self._partial) + n_bytes) // self.format.bytes_per_sample
        return math.ceil(whole * self.target_rate_hz / self.format.sample_rate_hz)

    def feed(self, data: bytes) -> Pcm:
        """Decode appended bytes and return the samples ready at the target rate, possibly none.

        Floats are clipped to [-1, 1]. Raises RealtimeError `bad_audio` (param `audio`) for floats that are
        not finite; the refused bytes leave no trace.
        """
        encoding = self.format.encoding
        if encoding == "g711_ulaw":
            return self._resampler.feed(g711.decode(data, "ulaw"))
        if encoding == "g711_alaw":
            return self._resampler.feed(g711.decode(data, "alaw"))
        joined = self._partial + data if self._partial else data
        whole = len(joined) - len(joined) % self.format.bytes_per_sample
        body = memoryview(joined)[:whole]
        pcm = float_from_pcm16(body) if encoding == "pcm16" else _checked_floats(body)
        self._partial = bytes(joined[whole:])
        return self._resampler.feed(pcm)

    def flush(self, *, keep_partial: bool = False) -> Pcm:
        """Return the samples that the resampler holds back; call it when an utterance is complete.

        A sample's first bytes that still wait are dropped, so that the next utterance starts on a whole
        sample; with `keep_partial` (the client did not end the utterance, its bytes go on) they stay.
        """
        if not keep_partial:
            self._partial = b""
        return self._resampler.flush()

    def reset(self) -> None:
        """Forget all sound taken so far."""
        self._partial = b""
        self._resampler.reset()


class AudioOutputEncoder:
    """Turns a model's float samples into bytes of the client's format, `speed` times as fast.

    With `wav` every non-empty result is a complete WAV file. `pcm_f32le` is no output format (ValueError).
    """

    def __init__(self, format: AudioFormat, source_rate_hz: int, *, speed: float = 1.0) -> None:
        if format.encoding == "pcm_f32le":
            raise ValueError("pcm_f32le is not an output format")
        self.format = format
        self.source_rate_hz = source_rate_hz
        self.speed = speed
        self._stretcher = TimeStretcher(source_rate_hz, speed) if speed != 1.0 else None
        self._resampler = StreamResampler(source_rate_hz, format.sample_rate_hz)

    def matches(self, format: AudioFormat, source_rate_hz: int) -> bool:
        """Tell whether this encoder makes `format` of sound at `source_rate_hz`."""
        mine = self.format
        theirs = (format.encoding, format.sample_rate_hz, source_rate_hz)
        return (mine.encoding, mine.sample_rate_hz, self.source_rate_hz) == theirs

    def feed(self, pcm: npt.NDArray[np.floating]) -> bytes:
        """Encode the next samples and return the bytes ready, possibly none; a NaN is silence."""
        # Before the resampler, where one NaN would spread over everything after it.
        samples = clean(pcm)
        if self._stretcher is not None:
            samples = self._stretcher.feed(samples)
        return self._encode(self._resampler.feed(samples))

    def flush(self) -> bytes:
        """Return the bytes of the samples held back; call it when a response is complete."""
        if self._stretcher is None:
            return self._encode(self._resampler.flush())
        last = self._resampler.feed(self._stretcher.flush())
        return self._encode(np.concatenate([last, self._resampler.flush()]))

    def reset(self) -> None:
        """Forget the sound that is held back; call it when a response is cut off."""
        if self._stretcher is not None:
            self._stretcher.reset()
        self._resampler.reset()

    def _encode(self, pcm: Pcm) -> bytes:
        if not len(pcm):
            return b""
        encoding = self.format.encoding
        if encoding == "g711_ulaw":
            return g711.encode(pcm16_samples(pcm), "ulaw")
        if encoding == "g711_alaw":
            return g711.encode(pcm16_samples(pcm), "alaw")
        data = pcm16_bytes(pcm)
        return wav_bytes(data, self.format.sample_rate_hz) if encoding == "wav" else data


def _checked_floats(body: memoryview) -> Pcm:
    pcm = np.frombuffer(body, dtype="<f4")
    if not np.isfinite(pcm).all():
        raise RealtimeError(
            code="bad_audio", message="Float audio must hold finite numbers only.", param="audio"
        )
    return np.clip(pcm, -1.0, 1.0)
