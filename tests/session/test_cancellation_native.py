"""As `test_cancellation`, for a model that owns its turns: anything may happen between any two steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.native import NativePipeline, NativePlugin
from duplex_trio.pipelines.requests import RequestView, StageForward
from duplex_trio.plugin.resumable import UnitInput
from duplex_trio.protocol.duplex import (
    BargeIn,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioTranscriptDelta,
    UpdateSession,
)
from duplex_trio.testing import Talker, check_stream, finish, open_session, open_talker, scripted_omni
from duplex_trio.testing.steps import acting_at

CHUNK_MS = 250
STRIDES = pytest.mark.parametrize("stride", [41, pytest.param(5, marks=pytest.mark.slow)])
"""Every so manyth step is tried; 1 tries them all."""
ANSWER = "one two three"
INTERRUPTIBLE = {"turn_detection": {"type": "server_vad"}}


def pipeline() -> NativePipeline:
    return NativePipeline(answer=ANSWER)


async def sound(talker: Talker, loud_ms: int, quiet_ms: int) -> None:
    for milliseconds, loud in ((loud_ms, True), (quiet_ms, False)):
        for _ in range(milliseconds // CHUNK_MS):
            talker.append(CHUNK_MS, loud=loud)
            await trio.sleep(CHUNK_MS / 1000)


async def hold(talker: Talker) -> None:
    """Speak and listen, interrupt, update, and let a silent client be answered."""
    await sound(talker, 1500, 2500)
    await sound(talker, 1000, 0)
    talker.send(UpdateSession(patch={"instructions": "Be brief."}))
    await trio.sleep(6.0)


def check_words(talker: Talker) -> None:
    """Each answer is made of its own epoch's words: all of them, or a beginning of them if it was cut."""
    for done in talker.heard.of(ResponseDone):
        deltas = [
            event.delta
            for event in talker.heard.of(ResponseOutputAudioTranscriptDelta)
            if event.response_id == done.response.id
        ]
        assert ANSWER.startswith("".join(deltas))
        assert done.response.status != "completed" or "".join(deltas) == ANSWER


async def steps_of_the_conversation() -> int:
    async with scripted_omni(pipeline=pipeline()) as omni:
        talker = await open_talker(omni, patch=INTERRUPTIBLE)
        with acting_at(0, lambda: None) as counter:
            await hold(talker)
        await finish(omni, talker)
    assert talker.heard.of(ResponseDone)
    return counter.steps


ACTIONS: dict[str, Callable[[Talker], None]] = {
    "barge_in": lambda talker: talker.send(BargeIn()),
    "cancel": lambda talker: talker.send(CancelResponse()),
    "clear_output": lambda talker: talker.send(ClearOutputAudio()),
    "clear_input": lambda talker: talker.send(ClearInput()),
}


@STRIDES
@pytest.mark.parametrize("name", ACTIONS)
async def test_a_command_at_any_step(autojump_clock: MockClock, name: str, stride: int) -> None:
    """What it cuts is cut in order, nothing of the old epoch begins a response, and the model answers again."""
    for step in range(1 + list(ACTIONS).index(name), await steps_of_the_conversation(), stride):
        async with scripted_omni(pipeline=pipeline()) as omni:
            talker = await open_talker(omni, patch=INTERRUPTIBLE)
            with acting_at(step, lambda talker=talker: ACTIONS[name](talker)):  # type: ignore[misc]
                await hold(talker)
            count = len(talker.heard.of(ResponseDone))
            await sound(talker, 2000, 8000)
            statuses = [done.response.status for done in talker.heard.of(ResponseDone)[count:]]
            assert "completed" in statuses
            check_words(talker)
            await finish(omni, talker)


@STRIDES
@pytest.mark.parametrize("how", ["close", "lost"])
async def test_an_end_at_any_step(autojump_clock: MockClock, how: str, stride: int) -> None:
    """Closed or lost, the request is let go of and the response in progress is done."""
    for step in range(1 + len(how), await steps_of_the_conversation(), stride):
        async with scripted_omni(pipeline=pipeline()) as omni:
            talker = await open_talker(omni, patch=INTERRUPTIBLE)

            def end(talker: Talker = talker) -> None:
                talker.heard.broken = how == "lost"
                if how == "close":
                    talker.handle.close("over")

            with acting_at(step, end):
                await hold(talker)
            await finish(omni, talker)
            check_words(talker)
            if how == "close":
                check_stream(talker.heard.events, ended=True)
                assert len(talker.heard.of(ResponseDone)) == len(talker.heard.of(ResponseCreated))


class Requests(NativePlugin):
    """Keeps the requests that its units went to."""

    def __init__(self) -> None:
        super().__init__()
        self.used: set[tuple[int, str]] = set()

    def plan_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        self.used.add((request.epoch, request.request_id))
        return super().plan_append(unit, request)


@pytest.mark.parametrize("step", range(1, 12))
async def test_an_epoch_begins_one_request(autojump_clock: MockClock, step: int) -> None:
    """An appender that has a unit in its hands when its epoch ends begins none for the next one."""
    model = pipeline()
    model.plugin = requests = Requests()
    async with open_session(pipeline=model) as talker:
        with acting_at(step, lambda: talker.handle._control.cancel("turn_detected")):
            talker.append(1100, loud=True)
            await trio.sleep(1.0)
        talker.append(1000, loud=True)
        await trio.sleep(1.0)
        epochs = [epoch for epoch, _ in requests.used]
        assert len(epochs) == len(set(epochs))
