"""What the user says when: a microphone that never stops, in frames of 20 ms.

Pure: `Scenario` is asked for one frame after the other and told how the answers are coming along. The rules:
the first utterance begins after `LEAD_IN_S`. One that barges in begins `barge_in_after_s` after the answer
before it was first heard; the others begin when that answer is over. After the last answer, and between
everything, there is silence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define, field, frozen

from duplex_trio.protocol.duplex.audio import Pcm

MICROPHONE_HZ = 16_000
FRAME_MS = 20
FRAME_SAMPLES = MICROPHONE_HZ * FRAME_MS // 1000
LEAD_IN_S = 0.5
PAUSE_S = 0.6
"""Silence between the end of an answer and the next utterance, and after the last answer."""
_SPEECH_LEVEL = 0.05
"""Sound above this share of a recording's loudest 10 ms counts as speech (-26 dB)."""


@frozen(eq=False)
class Utterance:
    """One recording: `pcm` at `MICROPHONE_HZ`, the name to show, and where in it the speech begins and
    ends."""

    name: str
    pcm: Pcm
    speech_start_s: float
    speech_end_s: float

    @classmethod
    def of(cls, name: str, pcm: Pcm) -> Utterance:
        """Find the speech in a recording by its level."""
        window = MICROPHONE_HZ // 100
        padded = np.pad(pcm, (0, -len(pcm) % window)).reshape(-1, window)
        level = np.sqrt(np.mean(np.square(padded), axis=1))
        loud = np.flatnonzero(level > _SPEECH_LEVEL * level.max())
        first, last = (loud[0], loud[-1] + 1) if len(loud) else (0, len(level))
        end_s = min(last * window, len(pcm)) / MICROPHONE_HZ
        return cls(name, pcm, first * window / MICROPHONE_HZ, end_s)


@frozen
class Said:
    """An utterance as it was said, in seconds since the microphone opened."""

    name: str
    start_s: float
    speech_start_s: float
    speech_end_s: float
    end_s: float


@frozen
class AnswerProgress:
    """How the answer to the utterance that was said last is coming along.

    `first_heard_s` is when its first sound was played, `over_s` since when nothing of it is left to be heard.
    """

    first_heard_s: float | None = None
    over_s: float | None = None


@define
class Scenario:
    """The user's part of one conversation.

    Attributes:
        utterances: what to say, in order.
        barge_in_after_s: how long into the first answer the second utterance begins; `None` waits for its
            end.
        patience_s: how long to wait for an answer to begin after the end of an utterance.
        said: what has been said so far.
        done: whether there is nothing left to say and nothing left to hear.
    """

    utterances: Sequence[Utterance]
    barge_in_after_s: float | None = 1.0
    patience_s: float = 60.0
    said: list[Said] = field(factory=list)
    done: bool = False
    _start_s: float | None = LEAD_IN_S
    _position: int | None = None

    def next_frame(self, now_s: float, progress: AnswerProgress) -> Pcm:
        """The microphone's frame that begins at `now_s`, shape (320,).

        Args:
            now_s: begin of the frame, in seconds since the microphone opened.
            progress: of the answer to the last utterance.
        """
        if self._position is None and self.said:
            self._listen(now_s, progress)
        if self._position is None and self._start_s is not None and now_s >= self._start_s - 1e-9:
            self._begin(now_s)
        if self._position is None:
            return np.zeros(FRAME_SAMPLES, np.float32)
        return self._speak()

    @property
    def speaking(self) -> bool:
        """Whether an utterance is being said right now."""
        return self._position is not None

    def _begin(self, now_s: float) -> None:
        utterance = self.utterances[len(self.said)]
        self.said.append(
            Said(
                name=utterance.name,
                start_s=now_s,
                speech_start_s=now_s + utterance.speech_start_s,
                speech_end_s=now_s + utterance.speech_end_s,
                end_s=now_s + len(utterance.pcm) / MICROPHONE_HZ,
            )
        )
        self._position, self._start_s = 0, None

    def _speak(self) -> Pcm:
        assert self._position is not None
        pcm = self.utterances[len(self.said) - 1].pcm
        frame = pcm[self._position : self._position + FRAME_SAMPLES]
        self._position += FRAME_SAMPLES
        if self._position >= len(pcm):
            self._position = None
        return np.pad(frame, (0, FRAME_SAMPLES - len(frame)))

    def _listen(self, now_s: float, progress: AnswerProgress) -> None:
        ready_s = self._ready_s(progress)
        if ready_s is None:
            waited_s = now_s - self.said[-1].end_s
            if progress.first_heard_s is None and waited_s >= self.patience_s:
                ready_s = now_s
        if ready_s is None:
            return
        if len(self.said) == len(self.utterances):
            self.done = now_s >= ready_s - 1e-9
        else:
            self._start_s = ready_s

    def _ready_s(self, progress: AnswerProgress) -> float | None:
        """When the user may go on, as far as that is known."""
        if len(self.said) == 1 and len(self.utterances) > 1 and self.barge_in_after_s is not None:
            if progress.first_heard_s is not None:
                return progress.first_heard_s + self.barge_in_after_s
            return progress.over_s
        return None if progress.over_s is None else progress.over_s + PAUSE_S
