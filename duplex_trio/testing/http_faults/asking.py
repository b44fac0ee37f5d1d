"""Asks a stage with a language model, and reads what it answers."""

from __future__ import annotations

from typing import Any

from duplex_trio.stages.port import UNLIMITED, Stage, StageFailed, StageOutput, StageRequest, StageStream
from duplex_trio.stages.units import ChatMessage, ChatPrompt, GenerationParams

PROMPT = ChatPrompt(messages=[ChatMessage(role="user", content="Hello.")])


def ask(
    stage: Stage,
    request_id: str = "a",
    prompt: ChatPrompt = PROMPT,
    *,
    window: int = UNLIMITED,
    **params: Any,
) -> StageStream:
    """Open a request with one prompt; what is more are its `GenerationParams`."""
    request = StageRequest(request_id=request_id, params=GenerationParams(**params), window=window)
    stream = stage.open(request)
    stream.submit_nowait(prompt, final=True)
    return stream


async def outputs_of(stream: StageStream) -> list[StageOutput]:
    """All outputs up to the request's end."""
    return [output async for output in stream.outputs]


async def answer(stream: StageStream) -> str:
    """The text of an answer that came to its end."""
    outputs = await outputs_of(stream)
    assert stream.failure is None, stream.failure
    assert outputs[-1].finished
    return "".join(output.data.text for output in outputs)


async def failure(stream: StageStream) -> StageFailed:
    """The failure of a request that did not."""
    await outputs_of(stream)
    assert stream.failure is not None
    return stream.failure
