"""Real speech for tests and demonstrations: what the packaged voice says, and sounds that are no speech.

Sound is 16 kHz, mono, float32. Equal arguments give equal sound.
"""

from __future__ import annotations

import numpy as np
import soxr

from duplex_trio.models.cascade.tts import HibariWorker
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.units import Clause, Pcm

SAMPLE_RATE_HZ = 16000


class Speaker:
    """The packaged voice, saying what tests want to hear.

    Raises:
        ImportError: the `hibari` package is not installed.
    """

    def __init__(self) -> None:
        self._voice = HibariWorker()
        self._voice.load()

    def say(self, text: str) -> Pcm:
        """The sound of `text`, about 20 ms of silence before it and at most 300 ms after it."""
        chunks = list(self._voice.process(StageRequest(request_id="speech"), None, Clause(text=text)))
        pcm = np.concatenate([chunk.pcm for chunk in chunks])
        sound: Pcm = soxr.resample(pcm, chunks[0].sample_rate_hz, SAMPLE_RATE_HZ).astype(np.float32)
        return sound


def silence(seconds: float) -> Pcm:
    """Digital silence."""
    return np.zeros(int(seconds * SAMPLE_RATE_HZ), np.float32)


def noise(seconds: float, *, level: float = 0.01, seed: int = 0) -> Pcm:
    """White noise with the given standard deviation."""
    samples = np.random.default_rng(seed).normal(0.0, level, int(seconds * SAMPLE_RATE_HZ))
    return samples.astype(np.float32)


def tone(seconds: float, *, frequency_hz: float = 440.0, level: float = 0.3) -> Pcm:
    """A sine."""
    time_s = np.arange(int(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    return (level * np.sin(2.0 * np.pi * frequency_hz * time_s)).astype(np.float32)


def melody(seconds: float, *, level: float = 0.2) -> Pcm:
    """A plucked tune: four decaying notes a second with three overtones each."""
    notes_hz = (262, 330, 392, 523, 440, 349, 294, 392)
    beat_s = np.arange(SAMPLE_RATE_HZ // 4) / SAMPLE_RATE_HZ
    beats = [
        sum(np.sin(2.0 * np.pi * note_hz * k * beat_s) / k for k in range(1, 5)) * np.exp(-6.0 * beat_s)
        for note_hz in notes_hz
    ]
    tune = np.tile(np.concatenate(beats), int(seconds / 2) + 1)[: int(seconds * SAMPLE_RATE_HZ)]
    return (level * tune).astype(np.float32)
