"""The blocking half of a voice-activity stage: frames of many speakers, scored together.

One request carries all speakers. A `VadBatch` holds the next frames of some of them; their first frames are
scored in one call, then their second ones, and so on, because a frame builds on what the same speaker said
before and on nothing else. A speaker begins with its first frames and ends when a batch names it as gone, or
with the request.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.units import VAD_FRAME_SAMPLES, Pcm, VadBatch, VadScores
from duplex_trio.stages.worker import SerialWorker

Frames = npt.NDArray[np.float32]
"""One frame of each of n speakers, shape (n, 512)."""
Scores = npt.NDArray[np.float32]
"""Their speech probabilities, shape (n,)."""


class VadWorker(SerialWorker):
    """Turns `VadBatch` into `VadScores`. Subclasses implement `load`, `new_speaker` and `score`."""

    @abstractmethod
    def new_speaker(self) -> Any:
        """What is kept of one speaker from frame to frame, before the first one."""

    @abstractmethod
    def score(self, speakers: Sequence[Any], frames: Frames) -> Scores:
        """Score one frame of each speaker, and bring what is kept of the speakers forward."""

    def new_state(self, request: StageRequest) -> dict[int, Any]:
        """The speakers of a request, by number."""
        return {}

    def process(self, request: StageRequest, state: dict[int, Any], unit: VadBatch) -> Iterator[VadScores]:
        """Score a batch.

        Raises:
            ValueError: the sound of a speaker is not one-dimensional with a multiple of 512 samples.
        """
        for number in unit.gone:
            state.pop(number, None)
        speakers, sounds = [], []
        for number, pcm in unit.frames.items():
            sounds.append(_framed(pcm))
            if number not in state:
                state[number] = self.new_speaker()
            speakers.append(state[number])
        yield VadScores(self._score_all(speakers, sounds))

    def _score_all(self, speakers: Sequence[Any], sounds: Sequence[Frames]) -> list[Scores]:
        scores = [np.empty(len(sound), np.float32) for sound in sounds]
        turn = 0
        while going := [index for index, sound in enumerate(sounds) if len(sound) > turn]:
            frames = np.stack([sounds[index][turn] for index in going])
            for index, score in zip(going, self.score([speakers[i] for i in going], frames), strict=True):
                scores[index][turn] = score
            turn += 1
        return scores


def _framed(pcm: Pcm) -> Frames:
    if pcm.ndim != 1 or pcm.size % VAD_FRAME_SAMPLES:
        raise ValueError(
            f"voice activity takes whole frames of {VAD_FRAME_SAMPLES} samples, got shape {pcm.shape}"
        )
    return pcm.reshape(-1, VAD_FRAME_SAMPLES)
