"""The runtimes of the scripted model. Their steps take no time, so they run in a thread or on the loop alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from duplex_trio.models.scripted.script import Asked, Script
from duplex_trio.stages.port import StageFailed, StageOutput, StageRequest
from duplex_trio.stages.units import (
    ChatPrompt,
    Clause,
    GenerationParams,
    Pcm,
    SpeechChunk,
    SpeechSegment,
    TextDelta,
    Transcript,
)
from duplex_trio.stages.vad import Frames, Scores, VadWorker
from duplex_trio.stages.worker import SerialWorker, StageWorker, UnitRefused, WorkerContext

ASR_RATE_HZ, TTS_RATE_HZ = 16_000, 24_000
TONE_HZ = 440
SPEECH_RMS = 0.01
"""Root mean square from which a frame counts as speech."""


class EnergyVad(VadWorker):
    """Calls a frame speech when it is loud."""

    name = "vad"

    def load(self) -> None:
        """Nothing to load."""

    def new_speaker(self) -> None:
        """A frame is judged by itself."""

    def score(self, speakers: Sequence[None], frames: Frames) -> Scores:
        """Score each frame as 0 or 1 by its loudness."""
        rms = np.sqrt(np.mean(frames * frames, axis=1))
        scores: Scores = (rms >= SPEECH_RMS).astype(np.float32)
        return scores


class ScriptedVad(VadWorker):
    """Gives the frames of every speaker the same probabilities, whatever is heard; 0 when they run out.

    Args:
        probabilities: of the first frame, the second one, and so on.
    """

    name = "vad"

    def __init__(self, probabilities: Sequence[float]) -> None:
        super().__init__()
        self._probabilities = tuple(probabilities)

    def load(self) -> None:
        """Nothing to load."""

    def new_speaker(self) -> Iterator[float]:
        """What is still to be played back."""
        return iter(self._probabilities)

    def score(self, speakers: Sequence[Iterator[float]], frames: Frames) -> Scores:
        """The next probability of each speaker."""
        return np.array([next(one, 0.0) for one in speakers], np.float32)


class ScriptedAsr(SerialWorker):
    """Hears what the script says; silence is no words."""

    name = "asr"

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script

    def load(self) -> None:
        """Nothing to load."""

    def process(self, request: StageRequest, state: Any, unit: SpeechSegment) -> Iterable[Transcript]:
        """Give the script's words for a segment with sound in it."""
        duration_s = len(unit.pcm) / ASR_RATE_HZ
        loud = len(unit.pcm) > 0 and float(np.sqrt(np.mean(unit.pcm * unit.pcm))) >= SPEECH_RMS / 4
        text = self._script.hear(request.owner, duration_s, partial=unit.partial) if loud else ""
        return [Transcript(text=text, partial=unit.partial, duration_s=duration_s)]


class ScriptedLlm(StageWorker):
    """Writes the script's answer, a few words a step, all requests in turn."""

    name = "llm"

    def __init__(self, script: Script) -> None:
        self._script = script
        self._params: dict[str, GenerationParams] = {}
        self._waiting: dict[str, list[str]] = {}
        self._tokens: dict[str, tuple[int, int, str]] = {}
        self._stopped: set[str] = set()

    def load(self) -> None:
        """Nothing to load."""

    def open(self, request: StageRequest, context: WorkerContext) -> None:
        """Keep the request's parameters."""
        params = request.params
        self._params[request.request_id] = (
            params if isinstance(params, GenerationParams) else GenerationParams()
        )

    def submit(self, request_id: str, unit: ChatPrompt, final: bool, context: WorkerContext) -> None:
        """Look the answer up; fail where the script says so."""
        params = self._params[request_id]
        self._script.asked.append(Asked(unit, params))
        asked = unit.messages[-1].content
        if asked in self._script.fail_on:
            self._forget(request_id)
            context.emit(
                StageFailed(
                    request_id=request_id, code="engine_error", message=f"scripted failure at {asked!r}"
                )
            )
            return
        answer = self._script.answer(asked)
        kept = _before_stop(answer, params.stop)
        words = kept.split()
        limit = params.max_tokens
        reason = "stop" if limit is None or len(words) <= limit else "length"
        self._waiting[request_id] = words[:limit]
        prompt_tokens = sum(len(message.content.split()) for message in unit.messages)
        self._tokens[request_id] = (prompt_tokens, len(words[:limit]), reason)
        if reason == "stop" and kept != answer:
            self._stopped.add(request_id)

    def abort(self, request_ids: Sequence[str]) -> None:
        """Forget requests."""
        for request_id in request_ids:
            self._forget(request_id)

    def step(self, context: WorkerContext) -> bool:
        """Write the next words of every answer."""
        count = self._script.words_per_step
        for request_id, words in list(self._waiting.items()):
            piece, rest = words[:count], words[count:]
            prompt_tokens, completion_tokens, reason = self._tokens[request_id]
            delta = TextDelta(
                text=" ".join(piece) + (" " if rest else ""),
                finish_reason=None if rest else reason,
                stopped_by_text=not rest and request_id in self._stopped,
                prompt_tokens=prompt_tokens,
                completion_tokens=completion_tokens - len(rest),
            )
            if rest:
                self._waiting[request_id] = rest
            else:
                self._forget(request_id)
            context.emit(StageOutput(request_id=request_id, data=delta, finished=not rest))
        return bool(self._waiting)

    def _forget(self, request_id: str) -> None:
        for table in (self._params, self._waiting, self._tokens):
            table.pop(request_id, None)
        self._stopped.discard(request_id)


class ScriptedTts(SerialWorker):
    """Speaks each word as a tone of the script's length."""

    name = "tts"

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script

    def load(self) -> None:
        """Nothing to load."""

    def step(self, context: WorkerContext) -> bool:
        """Speak the next clause; break where the script says so."""
        word = self._script.dies_speaking
        chosen = self._choose(context) if word is not None else None
        if chosen is not None and word in self._lanes[chosen].units[0][0].text.split():
            raise RuntimeError(f"scripted death at {word!r}")
        return super().step(context)

    def process(self, request: StageRequest, state: Any, unit: Clause) -> Iterable[SpeechChunk]:
        """One tone for each word of the clause; fail where the script says so."""
        words = unit.text.split()
        if self._script.fail_speaking in words:
            raise UnitRefused("engine_error", f"scripted failure at {self._script.fail_speaking!r}")
        pcm = tone(round(len(words) * self._script.word_ms / unit.speed))
        return [SpeechChunk(pcm=pcm, sample_rate_hz=TTS_RATE_HZ, text=unit.text)]


def _before_stop(answer: str, stops: Sequence[str]) -> str:
    """The answer up to the first text that ends it."""
    return answer[: min((answer.find(stop) for stop in stops if stop in answer), default=len(answer))]


def tone(duration_ms: int) -> Pcm:
    """The sound of scripted speech, at `TTS_RATE_HZ`."""
    time_s = np.arange(duration_ms * TTS_RATE_HZ // 1000, dtype=np.float32) / TTS_RATE_HZ
    return (0.2 * np.sin(2 * np.pi * TONE_HZ * time_s)).astype(np.float32)
