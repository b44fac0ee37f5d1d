"""What a model refuses by the generic `RequestRefused` is told as what it refuses by `RealtimeError`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from trio.testing import MockClock

from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.turns_plugin import TurnsPlugin
from duplex_trio.pipelines.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.protocol.duplex import ErrorEvent, RealtimeError, ResponseDone, UpdateSession
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.stages.port import StageOutput
from duplex_trio.testing import open_session

REFUSALS = pytest.mark.parametrize("refusal", [RequestRefused, RealtimeError])


class _Refusing(TurnsPlugin):
    """Refuses by a class of exceptions: what says `plan` as it plans, what says `forward` once it is written."""

    def __init__(self, refusal: type[RequestRefused]) -> None:
        self._refusal = refusal

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        if turn.conversation[-1].content == "plan":
            raise self._refusal("context_length_exceeded", "too long")
        return super().plan_turn(turn)

    def forward(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[StageForward]:
        if request.state.turn.conversation[-1].content == "forward":
            raise self._refusal("context_length_exceeded", "too long")
        return super().forward(stage_id, output, request)

    def check_tools(self, tools: Sequence[Mapping[str, Any]], param: str) -> None:
        if tools:
            raise self._refusal("invalid_value", "no such function", param=f"{param}[0].name")


class _Pipeline(TurnsPipeline):
    def __init__(self, refusal: type[RequestRefused]) -> None:
        super().__init__(script=Script())
        self._refusal = refusal

    def build_plugin(self) -> TurnsPlugin:
        return _Refusing(self._refusal)


@REFUSALS
@pytest.mark.parametrize("said", ["plan", "forward"])
async def test_a_refused_turn_fails_by_its_code(
    autojump_clock: MockClock, refusal: type[RequestRefused], said: str
) -> None:
    """And the session goes on."""
    async with open_session(pipeline=_Pipeline(refusal)) as talker:
        talker.write(said)
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "failed"
        details = done.response.status_details
        assert details is not None
        assert details.error is not None
        assert (details.error.code, details.error.message) == ("context_length_exceeded", "too long")
        talker.write("hello")
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"


@REFUSALS
async def test_a_refused_update_names_its_field(
    autojump_clock: MockClock, refusal: type[RequestRefused]
) -> None:
    async with open_session(pipeline=_Pipeline(refusal)) as talker:
        tool = {"type": "function", "name": "look"}
        talker.send(UpdateSession(patch={"tools": [tool]}, event_id="e"))
        error = (await talker.heard.wait_for(ErrorEvent)).error
        assert (error.code, error.param, error.event_id) == ("invalid_value", "session.tools[0].name", "e")


def test_a_code_that_the_wire_does_not_know_is_a_wrong_value() -> None:
    """Of another package's model; the session's own refusals stay what they are."""
    told = RealtimeError.of(RequestRefused("too_silly", "no", param="x"))
    assert (told.code, told.message, told.param) == ("invalid_value", "no", "x")
    own = RealtimeError("bad_event", "no", event_id="e")
    assert RealtimeError.of(own) is own
