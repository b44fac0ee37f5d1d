"""What tests of resumable language-model requests need: short words for requests, and a look into the real engine.

Texts are compared where the model counts on: there the next token is so likely that the rounding of another batch or
another path through the caches cannot change it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import trio

from duplex_trio.stages.port import UNLIMITED, Stage, StageOutput, StageRequest, StageStream
from duplex_trio.stages.units import (
    ChatMessage,
    ChatPrompt,
    GenerationParams,
    PromptUpdate,
    SegmentEnd,
    TextDelta,
)
from duplex_trio.stages.vllm import VllmWorker
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing.keep_loaded import KeepLoaded

if TYPE_CHECKING:
    import pytest


class Engine:
    """What a real engine did, read from its own scheduler.

    Args:
        worker: the language-model worker of the tests, loaded.
    """

    def __init__(self, worker: StageWorker) -> None:
        assert isinstance(worker, KeepLoaded)
        inner = worker._inner
        assert isinstance(inner, VllmWorker)
        self.worker = inner
        self.computed: Counter[str] = Counter()
        self.most_together = 0

    @property
    def scheduler(self) -> Any:
        """vLLM's scheduler."""
        return self.worker._engine.engine_core.engine_core.scheduler

    @property
    def live(self) -> int:
        """How many requests the engine knows, waiting ones too."""
        return len(self.scheduler.requests)

    def count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Count from now on, in `computed`, how many tokens the engine computes for each of its requests."""
        schedule = self.scheduler.schedule

        def counted(*args: Any) -> Any:
            output = schedule(*args)
            self.computed.update(output.num_scheduled_tokens)
            self.most_together = max(self.most_together, len(output.num_scheduled_tokens))
            return output

        monkeypatch.setattr(self.scheduler, "schedule", counted)


def open_request(
    stage: Stage, request_id: str = "a", *, window: int = UNLIMITED, **params: Any
) -> StageStream:
    """Open a resumable greedy request whose segments have three tokens, unless told otherwise."""
    given = {"temperature": 0.0, "max_tokens": 3, "ignore_eos": True} | params
    return stage.open(
        StageRequest(request_id=request_id, resumable=True, params=GenerationParams(**given), window=window)
    )


def count(first: int, last: int) -> PromptUpdate:
    """An update that counts: `count(3, 5)` reads "3, 4, 5," and the model goes on with `numbers(6, 7, ...)`."""
    return PromptUpdate(text=f"{first}," + numbers(*range(first + 1, last + 1)))


def numbers(*values: int) -> str:
    """What counting on sounds like; a number of two digits has four tokens, the comma and the space counted."""
    return "".join(f" {value}," for value in values)


async def segment(stream: StageStream) -> tuple[str, TextDelta]:
    """The text of the next segment, and its last delta."""
    text = ""
    while True:
        try:
            output = await stream.outputs.receive()
        except trio.EndOfChannel:
            raise AssertionError(stream.failure) from None
        text += output.data.text
        if output.finished or isinstance(output.data, SegmentEnd):
            assert output.finished != isinstance(output.data, SegmentEnd)
            return text, output.data


async def ending(stream: StageStream) -> SegmentEnd:
    """The end of the next segment, of a request that stays."""
    _, last = await segment(stream)
    assert isinstance(last, SegmentEnd)
    return last


async def code_of_failure(stream: StageStream) -> str:
    """Read until the request fails, and tell the code."""
    [_ async for _ in stream.outputs]
    assert stream.failure is not None
    return stream.failure.code


async def ask(stage: Stage, request_id: str, *messages: ChatMessage, max_tokens: int) -> list[StageOutput]:
    """Let an ordinary request answer, with as many tokens as told."""
    params = GenerationParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)
    stream = stage.open(StageRequest(request_id=request_id, params=params))
    stream.submit_nowait(ChatPrompt(messages=messages))
    outputs = [output async for output in stream.outputs]
    assert stream.failure is None, stream.failure
    return outputs


def said(role: Any, content: str) -> ChatMessage:
    """A message."""
    return ChatMessage(role=role, content=content)
