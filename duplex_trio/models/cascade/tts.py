"""Synthesis by hibari, a small English voice.

Owns the voice, the cut of a clause into sentences and how much silence surrounds each. Making text speakable,
and cutting a reply into clauses, come before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.units import Clause, Pcm, SpeechChunk
from duplex_trio.stages.worker import SerialWorker, UnitRefused

SAMPLE_RATE_HZ = 24000
VOICE = "heart"
"""The one voice inside the package; the package would fetch any other from the network."""
SPEED_MIN, SPEED_MAX = 0.25, 4.0

_BLOCK_SAMPLES = 240
_SILENT_RMS = 5e-4
"""hibari's silence lies below -80 dBFS and its faintest consonants rise above -66 dBFS."""
_LEAD_MS = 20
_SENTENCE_PAUSE_MS = 280
_PHRASE_PAUSE_MS = 150
_WORD_PAUSE_MS = 60
_SENTENCE_ENDS = ".!?\u2026"
_PHRASE_ENDS = ",;:)\u2014\u2013-"
_CLOSING = "\"'\u201d\u2019)]*_ "

_WARM_UP = "Hello, Krzysztof. Is it ready?"
"""Two sentences, and a word outside the lexicon, so that the network for spelling is loaded as well."""


class HibariWorker(SerialWorker):
    """Turns each `Clause` into a `SpeechChunk` at 24 kHz for each of its sentences, as soon as it is made.

    The same text gives the same sound. A clause with nothing to speak in it (punctuation, a script that the
    voice cannot read) yields one chunk of no samples, so that its text still arrives in order.

    Args:
        model_path: a hibari network to use for the voice in place of the packaged one.
        threads: cores that one synthesis may use.
        name: the stage's name in logs and metrics.
    """

    def __init__(self, model_path: Path | None = None, *, threads: int = 1, name: str = "tts") -> None:
        super().__init__()
        self.name = name
        self._model_path = model_path
        self._threads = threads
        self._voice: Any = None

    def load(self) -> None:
        """Load the voice and speak once.

        Raises:
            ImportError: the `hibari` package is not installed.
        """
        import hibari

        path = None if self._model_path is None else str(self._model_path)
        self._voice = hibari.Hibari(voice=VOICE, model=path, threads=self._threads)
        if self._voice.sample_rate != SAMPLE_RATE_HZ:
            raise ValueError(f"the voice speaks at {self._voice.sample_rate} Hz, not at {SAMPLE_RATE_HZ} Hz")
        for sentence in self._voice.split_sentences(_WARM_UP):
            self._speak(sentence, 1.0)

    def close(self) -> None:
        """Release the voice."""
        self._voice = None

    def process(self, request: StageRequest, state: None, unit: Clause) -> Iterator[SpeechChunk]:
        """Speak one clause.

        Raises:
            UnitRefused: `invalid_value`, another voice than `heart`, or a speed outside 0.25 to 4.
        """
        if unit.voice not in (None, VOICE):
            raise UnitRefused("invalid_value", f"there is no voice {unit.voice!r}; this model has {VOICE!r}")
        if not SPEED_MIN <= unit.speed <= SPEED_MAX:
            raise UnitRefused(
                "invalid_value", f"speed {unit.speed} is not between {SPEED_MIN} and {SPEED_MAX}"
            )
        for sentence in self._voice.split_sentences(unit.text) or [unit.text]:
            yield self._speak(sentence, unit.speed)

    def _speak(self, sentence: str, speed: float) -> SpeechChunk:
        pcm = np.zeros(0, np.float32)
        if any(character.isalnum() for character in sentence):
            parts = [part for part in self._voice.stream(sentence, speed=speed, seed=0) if part.size]
            if parts:
                pcm = trim_silence(np.concatenate(parts), pause_ms(sentence) / speed)
        return SpeechChunk(pcm=pcm, sample_rate_hz=SAMPLE_RATE_HZ, text=sentence)


def pause_ms(text: str) -> int:
    """How long the voice pauses after this text.

    Longest after a sentence, short where a clause was cut at a word.
    """
    last = text.rstrip(_CLOSING)[-1:]
    if last and last in _SENTENCE_ENDS:
        return _SENTENCE_PAUSE_MS
    if last and last in _PHRASE_ENDS:
        return _PHRASE_PAUSE_MS
    return _WORD_PAUSE_MS


def trim_silence(pcm: Pcm, trailing_ms: float) -> Pcm:
    """Shorten the silence before speech to 20 ms and that after it to at most `trailing_ms`; sound at 24 kHz.

    Every millisecond before the first sound of a reply is one that its listener waits. Sound that is silent
    throughout is returned empty.
    """
    blocks = np.pad(pcm, (0, -pcm.size % _BLOCK_SAMPLES)).reshape(-1, _BLOCK_SAMPLES)
    voiced = np.flatnonzero(np.square(blocks).mean(axis=1) >= _SILENT_RMS**2)
    if not voiced.size:
        return pcm[:0]
    start = int(voiced[0]) * _BLOCK_SAMPLES - _LEAD_MS * SAMPLE_RATE_HZ // 1000
    end = int(voiced[-1] + 1) * _BLOCK_SAMPLES + int(trailing_ms * SAMPLE_RATE_HZ / 1000)
    return pcm[max(0, start) : end]
