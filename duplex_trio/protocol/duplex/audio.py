"""The door to sound and its formats for everything above the protocol: Tier 1 names, nothing added."""

from __future__ import annotations

from duplex_trio.protocol.realtime.audio import (
    AudioInputDecoder,
    AudioOutputEncoder,
    Pcm,
    StreamResampler,
    float_from_pcm16,
    pcm16_bytes,
    read_wav,
    resample,
    split_chunks,
    wav_bytes,
    write_wav,
)
from duplex_trio.protocol.realtime.formats import AudioFormat, parse_format, parse_rate, wire_format

__all__ = [
    "AudioFormat",
    "AudioInputDecoder",
    "AudioOutputEncoder",
    "Pcm",
    "StreamResampler",
    "float_from_pcm16",
    "parse_format",
    "parse_rate",
    "pcm16_bytes",
    "read_wav",
    "resample",
    "split_chunks",
    "wav_bytes",
    "wire_format",
    "write_wav",
]
