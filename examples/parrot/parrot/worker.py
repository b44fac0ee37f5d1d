"""The runtimes: a voice that says sound again at another pitch, and an ear that tells speech by its loudness."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import soxr
from attrs import frozen

from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.units import Pcm, SpeechChunk
from duplex_trio.stages.vad import Frames, Scores, VadWorker
from duplex_trio.stages.worker import SerialWorker

INPUT_RATE_HZ, OUTPUT_RATE_HZ = 16_000, 24_000
CHUNK_S = 0.2
"""Speech goes out in pieces of this length, so that the first one is heard early."""
LOUD_RMS = 0.01


@frozen(eq=False, kw_only=True)
class Heard:
    """Input of the voice: what to say again, mono float32 at `INPUT_RATE_HZ`, and how fast."""

    pcm: Pcm
    speed: float = 1.0


class ParrotVoice(SerialWorker):
    """Says sound again.

    Args:
        pitch: how much higher, and faster with it; 1.0 says it as it was.
    """

    name = "voice"

    def __init__(self, pitch: float) -> None:
        super().__init__()
        self._pitch = pitch

    def load(self) -> None:
        """There are no weights; a first use makes the later ones quick."""
        soxr.resample(np.zeros(INPUT_RATE_HZ, np.float32), INPUT_RATE_HZ, OUTPUT_RATE_HZ)

    def process(self, request: StageRequest, state: Any, unit: Heard) -> Iterator[SpeechChunk]:
        """Say one stretch of sound, piece by piece."""
        said: Pcm = soxr.resample(unit.pcm, INPUT_RATE_HZ * self._pitch * unit.speed, OUTPUT_RATE_HZ)
        step = round(CHUNK_S * OUTPUT_RATE_HZ)
        for begin in range(0, max(1, len(said)), step):
            yield SpeechChunk(pcm=said[begin : begin + step], sample_rate_hz=OUTPUT_RATE_HZ, text="")


class ParrotEar(VadWorker):
    """Takes for speech what is loud."""

    name = "ear"

    def load(self) -> None:
        """Nothing to load."""

    def new_speaker(self) -> None:
        """Each frame is judged by itself."""

    def score(self, speakers: Sequence[None], frames: Frames) -> Scores:
        """1 for each loud frame, else 0."""
        loud: Scores = (np.sqrt(np.mean(frames * frames, axis=1)) >= LOUD_RMS).astype(np.float32)
        return loud
