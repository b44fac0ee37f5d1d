"""The door to sound for everything above the protocol that knows no more of the wire: samples, rates, speed."""

from __future__ import annotations

from duplex_trio.protocol.realtime.audio import AudioOutputEncoder, StreamResampler
from duplex_trio.protocol.realtime.formats import AudioFormat
from duplex_trio.protocol.realtime.pcm import Pcm, clean, float_from_pcm16, pcm16_bytes, resample
from duplex_trio.protocol.realtime.stretch import TimeStretcher
from duplex_trio.protocol.realtime.wav import read_wav, write_wav

__all__ = [
    "AudioFormat",
    "AudioOutputEncoder",
    "Pcm",
    "StreamResampler",
    "TimeStretcher",
    "clean",
    "float_from_pcm16",
    "pcm16_bytes",
    "read_wav",
    "resample",
    "write_wav",
]
