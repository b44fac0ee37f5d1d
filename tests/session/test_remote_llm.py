"""Sessions of the cascade whose language model is on an engine elsewhere: calls, long histories, and its death."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.stage import RemoteDeploy, StageDeploy
from duplex_trio.models.cascade.language import RemoteLanguageModel
from duplex_trio.models.cascade.settings import LLM, CascadeSettings
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.protocol.duplex import (
    CreateItem,
    CreateResponse,
    FunctionCallItem,
    FunctionCallOutputItem,
    ResponseDone,
    ResponseOutputAudioDelta,
)
from duplex_trio.stages.port import Stage
from duplex_trio.stages.remote.facts import RemoteFacts
from duplex_trio.stages.remote.run import RemoteChatStage
from duplex_trio.testing import Talker, finish, open_talker, scripted_omni
from duplex_trio.testing.http_faults.answers import (
    DONE,
    LAST_CHUNK,
    Hold,
    chunk,
    delta,
    event,
    stream_head,
    streamed,
)
from duplex_trio.testing.http_faults.memory import engine_transport
from duplex_trio.testing.http_faults.run import FaultEngine

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


class _Remote(ScriptedPipeline):
    """The cascade between scripted ears and a scripted voice, its language model as a deployment says."""

    def __init__(self, transport: Any, **keys: Any) -> None:
        remote = RemoteDeploy(base_url="http://engine.test/v1", **keys)
        stage = StageDeploy(stage_id=LLM, execution="remote", remote=remote)
        super().__init__(DeployConfig(pipeline="scripted", session_mode="duplex", stages=(stage,)))
        self._remote = remote
        self._transport = transport
        self.language = RemoteLanguageModel(stage)

    def settings(self) -> CascadeSettings:
        return self.language.settings(("tone",))

    def build_remote_stage(self, stage_id: int) -> Stage:
        facts: RemoteFacts = self.language._facts
        return RemoteChatStage("llm", self._remote, facts=facts, transport=self._transport())


@asynccontextmanager
async def talking(engine: FaultEngine, *, patch: Any = None, **keys: Any) -> AsyncIterator[Talker]:
    async with trio.open_nursery() as nursery:
        pipeline = _Remote(lambda: engine_transport(engine, nursery.start_soon), **keys)
        async with scripted_omni(pipeline=pipeline) as omni:
            talker = await open_talker(omni, dialect="ga", patch=patch or {})
            yield talker
            await finish(omni, talker)
            assert engine.live == 0
        nursery.cancel_scope.cancel()


async def done(talker: Talker, number: int) -> ResponseDone:
    return await talker.heard.nth(ResponseDone, number, timeout_s=600)


@pytest.mark.parametrize("tool_calls", ["worded", "native"])
async def test_a_call_works_with_an_engine_that_reads_it_and_with_one_that_does_not(
    autojump_clock: MockClock, tool_calls: str
) -> None:
    told = {"name": "get_weather", "arguments": json.dumps({"city": "Oslo"})}
    written = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
    calls = [{"index": 0, "id": "x", "type": "function", "function": told}]
    native = event(delta(None, None, tool_calls=calls)) + event(delta(None, "tool_calls")) + DONE
    first = streamed(written) if tool_calls == "worded" else [stream_head(), chunk(native), LAST_CHUNK]
    engine = FaultEngine(answers=[first, streamed("It rains.")])
    async with talking(engine, patch={"tools": [WEATHER]}, tool_calls=tool_calls) as talker:
        talker.write("What is the weather in Oslo?")
        (call,) = (await done(talker, 1)).response.output
        assert isinstance(call, FunctionCallItem)
        assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Oslo"})
        output = FunctionCallOutputItem(call_id=call.call_id, output="rain")
        talker.send(CreateItem(item=output), CreateResponse())
        assert (await done(talker, 2)).response.status == "completed"
        assert talker.heard.of(ResponseOutputAudioDelta)
    asked, behind = (request.json for request in engine.asked)
    assert ("tools" in asked) == (tool_calls == "native")
    assert ("<tool_call>" in json.dumps(asked["messages"])) == (tool_calls == "worded")
    assert behind["messages"][-1]["role"] == ("tool" if tool_calls == "native" else "user")
    assert "rain" in behind["messages"][-1]["content"]


async def test_a_long_conversation_is_cut_to_the_context_that_the_engine_tells(
    autojump_clock: MockClock,
) -> None:
    engine = FaultEngine(answers=[streamed("Yes.")], models=[{"id": "tiny", "max_model_len": 256}])
    async with talking(engine) as talker:
        for number in range(8):
            talker.write(f"Sentence {number}: " + "word " * 40)
            assert (await done(talker, number + 1)).response.status == "completed"
    last = engine.asked[-1].json["messages"]
    assert "Sentence 7" in last[-1]["content"]
    assert "Sentence 0" not in json.dumps(last)
    assert len(json.dumps(last)) < 256 * 5


async def test_a_barge_in_closes_the_connection(autojump_clock: MockClock) -> None:
    hold = Hold()
    words = chunk(event(delta("This is a long story. It goes on and on.")))
    engine = FaultEngine(answers=[[stream_head(), words, hold], streamed("Fine.")])
    async with talking(engine) as talker:
        talker.write("Tell me a story.")
        await hold.reached.wait()
        await talker.heard.nth(ResponseOutputAudioDelta, 1, timeout_s=60)
        await talker.turn()
        await engine.asked[0].gone.wait()
        assert (await done(talker, 1)).response.status == "cancelled"
        assert (await done(talker, 2)).response.status == "completed"


@pytest.mark.usefixtures("faults_expected")
async def test_an_engine_that_dies_fails_its_response_and_the_session_goes_on(
    autojump_clock: MockClock,
) -> None:
    hold = Hold()
    engine = FaultEngine(answers=[[stream_head(), chunk(event(delta("Half"))), hold], streamed("Back.")])
    async with talking(engine) as talker:
        talker.write("Hello.")
        await hold.reached.wait()
        engine.break_down()
        assert (await done(talker, 1)).response.status == "failed"
        await trio.sleep(30)
        talker.write("Anybody there?")
        assert (await done(talker, 2)).response.status == "failed"
        engine.up = True
        await trio.sleep(120)
        talker.write("And now?")
        assert (await done(talker, 3)).response.status == "completed"
