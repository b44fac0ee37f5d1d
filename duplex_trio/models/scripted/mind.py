"""The scripted stage that hears a whole turn and writes its answer, one word a step.

It holds each request's words and nothing else; what a turn is made of comes in one unit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from attrs import define, frozen

from duplex_trio.models.scripted.script import Asked, Script
from duplex_trio.models.scripted.workers import ASR_RATE_HZ, SPEECH_RMS
from duplex_trio.stages.port import StageFailed, StageOutput, StageRequest
from duplex_trio.stages.units import ChatMessage, ChatPrompt, GenerationParams, Pcm
from duplex_trio.stages.worker import StageWorker, WorkerContext


@frozen(eq=False, kw_only=True)
class MindTurn:
    """Input of the stage: the sound of a turn, or None, and the conversation before it.

    Without `respond` the sound is only heard. `tools` are names of functions; who says one has it called.
    `seen` is how many pictures there are; the answer says so.
    """

    pcm: Pcm | None
    messages: Sequence[ChatMessage]
    respond: bool = True
    tools: frozenset[str] = frozenset()
    seen: int = 0


@frozen(kw_only=True)
class MindStep:
    """Output of the stage: what it heard, the function that it wants called, or the next word.

    `last` comes with the last of them.
    """

    heard: str | None = None
    call: str | None = None
    word: str = ""
    last: bool = False


@define(eq=False)
class _Thought:
    owner: str
    turn: MindTurn | None = None
    words: deque[str] | None = None


class MindWorker(StageWorker):
    """The stage. All requests take a step in turn.

    Args:
        script: what is heard and said.
    """

    name = "mind"

    def __init__(self, script: Script) -> None:
        self._script = script
        self._thoughts: dict[str, _Thought] = {}

    def load(self) -> None:
        """Nothing to load."""

    def open(self, request: StageRequest, context: WorkerContext) -> None:
        """Remember whose request it is."""
        self._thoughts[request.request_id] = _Thought(request.owner)

    def submit(self, request_id: str, unit: MindTurn, final: bool, context: WorkerContext) -> None:
        """Note the turn."""
        self._thoughts[request_id].turn = unit

    def abort(self, request_ids: Sequence[str]) -> None:
        """Forget requests."""
        for request_id in request_ids:
            self._thoughts.pop(request_id, None)

    def step(self, context: WorkerContext) -> bool:
        """Hear the turns that came, and write a word of every other answer."""
        for request_id, thought in list(self._thoughts.items()):
            if thought.turn is not None:
                self._hear(request_id, thought, thought.turn, context)
            elif thought.words is not None:
                self._write(request_id, thought.words, context)
        return any(thought.turn or thought.words is not None for thought in self._thoughts.values())

    def _hear(self, request_id: str, thought: _Thought, turn: MindTurn, context: WorkerContext) -> None:
        thought.turn = None
        said = turn.messages[-1].content if turn.messages else ""
        if turn.pcm is not None:
            said = self._words_of(thought.owner, turn.pcm)
            ends = not turn.respond or not said
            step = MindStep(heard=said, last=ends)
            context.emit(StageOutput(request_id=request_id, data=step, finished=ends))
            if ends:
                del self._thoughts[request_id]
                return
        messages = (
            turn.messages if turn.pcm is None else (*turn.messages, ChatMessage(role="user", content=said))
        )
        self._script.asked.append(Asked(ChatPrompt(messages=messages), GenerationParams()))
        if said in turn.tools:
            del self._thoughts[request_id]
            step = MindStep(call=said, last=True)
            context.emit(StageOutput(request_id=request_id, data=step, finished=True))
            return
        if said in self._script.fail_on:
            del self._thoughts[request_id]
            message = f"scripted failure at {said!r}"
            context.emit(StageFailed(request_id=request_id, code="engine_error", message=message))
            return
        words = self._script.answer(said).split()
        if turn.seen:
            words += ["seeing", str(turn.seen), "pictures"]
        thought.words = deque(words or [""])

    def _words_of(self, owner: str, pcm: Pcm) -> str:
        loud = len(pcm) > 0 and float(np.sqrt(np.mean(pcm * pcm))) >= SPEECH_RMS / 4
        return self._script.hear(owner, len(pcm) / ASR_RATE_HZ, partial=False) if loud else ""

    def _write(self, request_id: str, words: deque[str], context: WorkerContext) -> None:
        word = words.popleft()
        step = MindStep(word=word, last=not words)
        if not words:
            del self._thoughts[request_id]
        context.emit(StageOutput(request_id=request_id, data=step, finished=step.last))
