"""A person with a microphone, as data: what they say becomes sound, and where they say nothing there is silence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from duplex_trio.protocol.sound import Pcm

RATE_HZ = 24_000
FRAME_MS = 20
WORD_MS = 300
"""How long a word of the tone is that stands for speech where no voice speaks."""
LEAST_MS = 600
"""No turn is shorter, so that any detector of speech takes notice."""

Voice = Callable[[str], Pcm]
"""Makes the sound of a text: float32 samples in -1 to 1, mono, at 24 kHz."""


def tone(text: str) -> Pcm:
    """The sound of a text for a model that only hears whether there is sound: 300 ms of a tone for each word."""
    return steady_tone(max(LEAST_MS, WORD_MS * len(text.split())))


def steady_tone(milliseconds: float) -> Pcm:
    """A tone of 200 Hz, as loud as speech."""
    time_s = np.arange(int(RATE_HZ * milliseconds / 1000), dtype=np.float32) / RATE_HZ
    return (0.3 * np.sin(2 * np.pi * 200 * time_s)).astype(np.float32)


class Person:
    """Whoever speaks into the microphone.

    Args:
        voice: makes the sound of what they say.
    """

    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        self._pending: Pcm = np.zeros(0, np.float32)

    @property
    def speaking(self) -> bool:
        """Whether there is something left to be said."""
        return len(self._pending) > 0

    def speak(self, text: str, pcm: Pcm | None = None) -> float:
        """Say something after what is being said; returns how long it is in milliseconds."""
        sound = self._voice(text) if pcm is None else pcm
        sound = np.asarray(sound, np.float32)
        self._pending = np.concatenate([self._pending, sound])
        return len(sound) / RATE_HZ * 1000

    def frame(self) -> Pcm:
        """What the microphone takes up next, 20 ms of it."""
        size = RATE_HZ * FRAME_MS // 1000
        frame, self._pending = self._pending[:size], self._pending[size:]
        return np.pad(frame, (0, size - len(frame)))
