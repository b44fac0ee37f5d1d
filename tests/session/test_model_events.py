"""What a model tells its client in words of its own: `duplex.model_event`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from trio.testing import MockClock

from duplex_trio.models.cascade.plugin import CascadePlugin
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.models.scripted.native import NativePipeline, NativePlugin
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.pipelines.requests import RequestView
from duplex_trio.pipelines.results import ClientNote, ModelResult
from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import ErrorEvent, ModelEvent, ResponseDone
from duplex_trio.protocol.duplex.events_own import MODEL_EVENT_BYTES_MAX
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.units import TextDelta
from duplex_trio.testing import open_session


class Telling(ScriptedPipeline):
    """Tells the same with each word that it writes."""

    def __init__(self, note: Any) -> None:
        super().__init__()
        self.note = note

    def build_plugin(self) -> CascadePlugin:
        plugin = _TellingPlugin(ChatProfile(default_instructions=None), voices=("tone",))
        plugin.note = self.note
        return plugin


class _TellingPlugin(CascadePlugin):
    note: Any

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        results = super().project(stage_id, output, request)
        return [ClientNote(event=self.note), *results] if isinstance(output.data, TextDelta) else results


async def test_it_names_the_response_and_keeps_what_it_said(autojump_clock: MockClock) -> None:
    """What the model does to its record later is its own business; GA and beta have no such event."""
    note: dict[str, Any] = {"mood": {"calm": 0.9}}
    async with open_session(pipeline=Telling(note)) as talker:
        talker.write("hello")
        told = await talker.heard.nth(ModelEvent, 1)
        note["mood"]["calm"] = 0
        done = await talker.heard.nth(ResponseDone, 1)
        assert (told.response_id, told.epoch, told.event) == (done.response.id, 0, {"mood": {"calm": 0.9}})
        assert done.response.status == "completed"
        assert [render(told, dialect) is None for dialect in Dialect] == [True, True, False]


@pytest.mark.parametrize("note", [{"self": object()}, {"x": "y" * MODEL_EVENT_BYTES_MAX}, {1: 2}])
@pytest.mark.usefixtures("faults_expected")
async def test_what_cannot_be_told_fails_its_turn(autojump_clock: MockClock, note: Any) -> None:
    """What is no JSON, or too much of it; the session goes on."""
    async with open_session(pipeline=Telling(note)) as talker:
        talker.write("hello")
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "failed"
        assert talker.heard.of(ErrorEvent)[0].error.code == "runtime_data_plane_stream_failed"
        assert not talker.heard.of(ModelEvent)


class _NativeTelling(NativePlugin):
    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        return [ClientNote(event={"heard": True}), *super().project(stage_id, output, request)]


class NativeTelling(NativePipeline):
    def __init__(self) -> None:
        super().__init__(answer="yes")
        self.plugin = _NativeTelling()


async def test_a_model_that_owns_its_turns_tells_while_it_listens(autojump_clock: MockClock) -> None:
    """Then there is no response to name."""
    async with open_session(pipeline=NativeTelling(), patch={"turn_detection": None}) as talker:
        talker.append(2000, loud=True)
        told = await talker.heard.nth(ModelEvent, 1)
        assert (told.response_id, told.event) == (None, {"heard": True})
