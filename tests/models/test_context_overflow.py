"""A context that is full, with the real engine: the session that filled it learns so, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio

from duplex_trio.models.cascade.plugin import CascadePlugin
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.models.scripted.native import NativePipeline, NativePlugin
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.pipelines.requests import RequestView, StageForward
from duplex_trio.pipelines.results import ListenResult, ModelResult
from duplex_trio.plugin.resumable import UnitInput
from duplex_trio.protocol.duplex import (
    CreateItem,
    CreateResponse,
    DeleteItem,
    ErrorEvent,
    InputTextPart,
    MessageItem,
    ResponseDone,
    ResponseListen,
    SessionExpired,
)
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.run import ThreadStage
from duplex_trio.stages.units import GenerationParams, PromptUpdate, SegmentEnd
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing import finish, open_talker, scripted_omni

pytestmark = pytest.mark.models

TOKENS_PER_UNIT = 700
"""Three units do not fit into the model's 2048 tokens."""


class _Reader(NativePlugin):
    """Lets the language model read a fixed text for each unit, in one request that stays open."""

    def plan_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        update = PromptUpdate(token_ids=[1000 + unit.seq] * TOKENS_PER_UNIT)
        return StageForward(stage_id=0, unit=update, params=GenerationParams(max_tokens=1, ignore_eos=True))

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        return [ListenResult(reason="model_listen")] if isinstance(output.data, SegmentEnd) else []


class _ReaderPipeline(NativePipeline):
    def __init__(self, worker: StageWorker) -> None:
        super().__init__()
        self._worker = worker
        self.plugin = _Reader()

    def build_worker(self, stage_id: int) -> StageWorker:
        return self._worker


async def test_a_session_whose_request_is_full_expires(llm_worker: StageWorker) -> None:
    """The third unit is refused with the engine's code; what the first two took is given back."""
    with trio.fail_after(300):
        async with scripted_omni(pipeline=_ReaderPipeline(llm_worker), stage_factory=ThreadStage) as omni:
            talker = await open_talker(omni, patch={"turn_detection": None})
            talker.append(2500, loud=False)
            await talker.heard.nth(ResponseListen, 2, timeout_s=200)
            talker.append(1000, loud=False)
            await talker.handle.wait_closed()
            (error,) = talker.heard.of(ErrorEvent)
            assert error.error.code == "context_length_exceeded"
            assert error.error.type == "invalid_request_error"
            last = talker.heard.events[-1]
            assert isinstance(last, SessionExpired)
            assert last.reason == "request_cleanup"
            assert talker.handle.counters.leaked_requests == 0
            await finish(omni, talker)


class _Chat(ScriptedPipeline):
    """The real language model between scripted ears and a scripted voice; it trims no history."""

    def __init__(self, worker: StageWorker) -> None:
        super().__init__()
        self._worker = worker

    def build_worker(self, stage_id: int) -> StageWorker:
        return self._worker if stage_id == 1 else super().build_worker(stage_id)

    def build_plugin(self) -> CascadePlugin:
        return CascadePlugin(ChatProfile(default_instructions=None), voices=("tone",))


async def test_a_turn_that_is_too_long_fails_and_the_session_goes_on(llm_worker: StageWorker) -> None:
    """One response fails with the engine's code; without what was too long the next one is given."""
    with trio.fail_after(300):
        async with scripted_omni(pipeline=_Chat(llm_worker), stage_factory=ThreadStage) as omni:
            patch: dict[str, Any] = {"output_modalities": ["text"], "max_output_tokens": 4}
            talker = await open_talker(omni, dialect="ga", patch=patch)
            text = InputTextPart("word " * 3000)
            talker.send(
                CreateItem(item=MessageItem(id="long", role="user", content=(text,))), CreateResponse()
            )
            done = await talker.heard.nth(ResponseDone, 1, timeout_s=200)
            assert done.response.status == "failed"
            assert done.response.status_details is not None
            assert done.response.status_details.error is not None
            assert done.response.status_details.error.code == "context_length_exceeded"
            talker.send(DeleteItem(item_id="long"))
            talker.write("Hello.")
            answered = await talker.heard.nth(ResponseDone, 2, timeout_s=200)
            assert answered.response.status in ("completed", "incomplete")
            await finish(omni, talker)
