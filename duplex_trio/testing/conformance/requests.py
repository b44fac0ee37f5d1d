"""A model that declares a processor answers requests by themselves, where nobody knows of sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from duplex_trio.entrypoints.async_omni import AsyncOmni, EndOutput, OmniRequest, Sound, Text
from duplex_trio.stages.inline import InlineStage
from duplex_trio.stages.run import ThreadStage
from duplex_trio.testing.conformance.room import Room
from duplex_trio.testing.run import STEP_S, together
from duplex_trio.testing.talker import CLIENT_RATE_HZ

AT_ONCE = 4


async def requests_are_answered(room: Room) -> None:
    """What is said, or written to a model that does not hear, gets an answer, which comes to its end."""
    async with _answering(room) as omni:
        if omni is not None:
            await _answer(room, omni)


async def requests_go_side_by_side(room: Room) -> None:
    """Several at once are all answered, and none takes another's place."""
    async with _answering(room) as omni:
        if omni is not None:
            await together(*(partial(_answer, room, omni) for _ in range(AT_ONCE)))


async def an_abandoned_request_leaves_nothing(room: Room) -> None:
    """Who turns away from an answer ends the work on it, and the next one is answered."""
    async with _answering(room) as omni:
        if omni is not None:
            with trio.fail_after(room.patience_s):
                async with omni.generate(_request(room, omni)) as answer:
                    async for _ in answer:
                        break
            assert omni.statistics().live_requests == 0, "a request that nobody wants goes on"
            await _answer(room, omni)


@asynccontextmanager
async def _answering(room: Room) -> AsyncIterator[AsyncOmni | None]:
    """An engine of requests with the model; None for one that answers none."""
    pipeline = room.make_pipeline()
    if pipeline.config.processor is None:
        await trio.lowlevel.checkpoint()
        yield None
        return
    factory = ThreadStage if room.threads else partial(InlineStage, step_s=STEP_S)
    async with AsyncOmni(pipeline, warm_up=False, stage_factory=factory).running() as omni:
        yield omni
        assert omni.statistics().live_requests == 0, "stage requests were left behind"


def _request(room: Room, omni: AsyncOmni) -> OmniRequest:
    hears = omni.processor.supports_sound_input
    said = Sound(room.speech, CLIENT_RATE_HZ) if hears else Text("Hello!")
    speaks = any(spec.final_output == "audio" for spec in omni.pipeline.stages)
    return OmniRequest(said, modalities=("text", "audio") if speaks else ("text",))


async def _answer(room: Room, omni: AsyncOmni) -> None:
    request = _request(room, omni)
    with trio.fail_after(room.patience_s):
        async with omni.generate(request) as answer:
            outputs = [output async for output in answer]
    assert isinstance(outputs[-1], EndOutput), "the answer does not come to its end"
    assert any(getattr(output, "text", "") or len(getattr(output, "pcm", ())) for output in outputs), (
        f"{'speech' if request.speaks else 'a text'} was asked for, and nothing came"
    )


CHECKS = (requests_are_answered, requests_go_side_by_side, an_abandoned_request_leaves_nothing)
