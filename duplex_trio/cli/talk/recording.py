"""The conversation as it was heard: the user on the left, the assistant on the right, cut where it was
interrupted."""

from __future__ import annotations

import numpy as np
from attrs import define, field, frozen

from duplex_trio.cli.talk.scenario import FRAME_MS, MICROPHONE_HZ
from duplex_trio.clients.events import AudioDelta, ServerEvent
from duplex_trio.clients.playback import PlaybackCursor
from duplex_trio.protocol.duplex.audio import Pcm, float_from_pcm16, resample

RECORDING_HZ = 24_000
KEPT_S_MAX = 1800.0
"""Sound kept of each side: half an hour, about 170 MB in memory; a longer conversation is recorded up to
there."""
_FADE_SAMPLES = RECORDING_HZ * 5 // 1000
"""A cut in the middle of a wave would click; 5 ms are not heard as a fade."""


@frozen(eq=False)
class Sound:
    """Both sides at `RECORDING_HZ` from the moment the microphone opened, of equal length.

    `unheard` holds what had arrived but was cut, where it would have been played.
    """

    user: Pcm
    assistant: Pcm
    unheard: Pcm


@define
class Recording:
    """Collects the sound of both sides.

    Attributes:
        begin_s: when the microphone opened, on the clock of the events.
    """

    begin_s: float
    _frames: list[Pcm] = field(factory=list)
    _user_samples: int = 0
    _answers: dict[str, list[Pcm]] = field(factory=dict)
    _answer_samples: int = 0

    def microphone(self, frame: Pcm) -> None:
        """Add the microphone's next frame, at `MICROPHONE_HZ`."""
        if self._user_samples < KEPT_S_MAX * MICROPHONE_HZ:
            self._frames.append(frame)
            self._user_samples += len(frame)

    def observe(self, event: ServerEvent) -> None:
        """Keep the sound of an answer's delta."""
        if not isinstance(event, AudioDelta) or event.response_id is None:
            return
        if event.encoding != "pcm16" or event.sample_rate_hz is None or len(event.audio) % 2:
            return
        if self._answer_samples < KEPT_S_MAX * RECORDING_HZ:
            pcm = float_from_pcm16(event.audio)
            pieces = self._answers.setdefault(event.response_id, [])
            pieces.append(resample(pcm, event.sample_rate_hz, RECORDING_HZ))
            self._answer_samples += len(pieces[-1])

    def sound(self, cursor: PlaybackCursor) -> Sound:
        """Lay both sides out in time; `cursor` says when which part of an answer was played."""
        spoken = np.concatenate(self._frames) if self._frames else np.zeros(0, np.float32)
        user = resample(spoken, MICROPHONE_HZ, RECORDING_HZ)
        answers = {name: np.concatenate(pieces) for name, pieces in self._answers.items()}
        length = max([len(user), *(self._end(name, pcm, cursor) for name, pcm in answers.items())])
        assistant, unheard = np.zeros(length, np.float32), np.zeros(length, np.float32)
        for name, pcm in answers.items():
            self._lay(name, pcm, cursor, assistant, unheard)
        return Sound(np.pad(user, (0, length - len(user))), assistant, unheard)

    def loudness(self, cursor: PlaybackCursor, now_s: float, columns: int, step_s: float) -> tuple[Pcm, Pcm]:
        """Loudest sample in each of the last `columns` steps before `now_s`: the user's, the assistant's as
        heard."""
        first_s = now_s - columns * step_s
        user, assistant = np.zeros(columns, np.float32), np.zeros(columns, np.float32)
        frame_s = FRAME_MS / 1000
        for index in range(max(0, int((first_s - self.begin_s) / frame_s)), len(self._frames)):
            column = int((self.begin_s + index * frame_s - first_s) / step_s)
            if 0 <= column < columns:
                user[column] = max(user[column], np.abs(self._frames[index]).max(initial=0))
        for name, pieces in self._answers.items():
            # Spans and pieces belong together one to one as long as nothing was cut; a cut only shortens the
            # spans.
            for span, piece in zip(cursor.spans(name), pieces, strict=False):
                if first_s < span.end_s and span.start_s <= now_s:
                    column = min(columns - 1, max(0, int((span.start_s - first_s) / step_s)))
                    assistant[column] = max(assistant[column], np.abs(piece).max(initial=0))
        return user, assistant

    def _end(self, name: str, pcm: Pcm, cursor: PlaybackCursor) -> int:
        spans = cursor.spans(name)
        if not spans:
            return 0
        last = spans[-1]
        return self._at(last.start_s) + max(0, len(pcm) - _samples(last.offset_ms))

    def _lay(self, name: str, pcm: Pcm, cursor: PlaybackCursor, heard: Pcm, unheard: Pcm) -> None:
        spans = cursor.spans(name)
        for index, span in enumerate(spans):
            last = index + 1 == len(spans)
            begin = _samples(span.offset_ms)
            # Neighbouring spans share a border, so that rounding neither drops a sample nor plays one twice.
            if not last:
                end = _samples(spans[index + 1].offset_ms)
            elif cursor.cut_s(name) is None:
                end = len(pcm)
            else:
                end = begin + self._at(span.end_s) - self._at(span.start_s)
            _add(heard, self._at(span.start_s), pcm[begin:end])
            if last and end < len(pcm):
                cut = self._at(span.start_s) + end - begin
                _fade_out(heard[:cut])
                _add(unheard, cut, pcm[end:])

    def _at(self, time_s: float) -> int:
        return max(0, round((time_s - self.begin_s) * RECORDING_HZ))


def _samples(duration_ms: float) -> int:
    return round(duration_ms * RECORDING_HZ / 1000)


def _fade_out(pcm: Pcm) -> None:
    count = min(_FADE_SAMPLES, len(pcm))
    if count:
        pcm[-count:] *= np.linspace(1, 0, count, dtype=np.float32)


def _add(track: Pcm, at: int, pcm: Pcm) -> None:
    piece = pcm[: max(0, len(track) - at)]
    track[at : at + len(piece)] += piece
