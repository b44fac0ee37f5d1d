"""An engine that is not there yet, refuses the server, or goes away."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.deploy.stage import RemoteDeploy
from duplex_trio.stages.errors import StageDeadError, StageLoadError
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.remote.client import RemoteClient
from duplex_trio.stages.remote.facts import RemoteFacts
from duplex_trio.stages.remote.run import RemoteChatStage
from duplex_trio.testing.http_faults.answers import (
    Cut,
    Hold,
    Stall,
    Step,
    Wait,
    chunk,
    delta,
    event,
    refusal,
    reply,
    stream_head,
    streamed,
)
from duplex_trio.testing.http_faults.asking import answer, ask, failure, outputs_of
from duplex_trio.testing.http_faults.memory import engine_transport
from duplex_trio.testing.http_faults.run import FaultEngine, remote_stage


async def load_error(engine: FaultEngine, **keys: object) -> str:
    with pytest.raises(ExceptionGroup) as caught:
        async with remote_stage(engine, **keys):
            pass
    error = caught.value
    while isinstance(error, ExceptionGroup):
        (error,) = error.exceptions
    assert isinstance(error, StageLoadError)
    return str(error)


async def test_the_only_model_is_taken_with_its_context(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    facts = RemoteFacts()
    async with remote_stage(engine, facts=facts) as stage:
        await answer(ask(stage))
    assert (facts.model, facts.context_tokens) == ("tiny", 512)
    assert engine.asked[0].json["model"] == "tiny"


async def test_the_configured_model_is_taken(autojump_clock: MockClock, engine: FaultEngine) -> None:
    engine.models = [{"id": "small"}, {"id": "large", "max_model_len": "?"}]
    facts = RemoteFacts()
    async with remote_stage(engine, facts=facts, model="large"):
        assert (facts.model, facts.context_tokens) == ("large", None)


async def test_a_model_that_is_not_there_is_told_with_those_that_are(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    engine.models = [{"id": f"model-{number}"} for number in range(30)]
    told = await load_error(engine, model="large")
    assert "no model 'large'" in told
    assert "model-0, " in told
    assert told.endswith("...")
    assert "exactly one" in await load_error(engine)
    engine.models = []
    assert await load_error(engine) != ""


async def test_a_stage_waits_for_an_engine_that_is_still_starting(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    engine.up = False
    started_s = trio.current_time()

    async def come_up() -> None:
        await trio.sleep(100)
        engine.models_answers = [[refusal(503, "loading")], [Cut()], [refusal(429, "wait")], [Stall()]]
        engine.up = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(come_up)
        async with remote_stage(engine) as stage:
            assert await answer(ask(stage)) == "All is well."
            assert 100 <= trio.current_time() - started_s < 140


async def test_a_stage_does_not_wait_for_ever(autojump_clock: MockClock, engine: FaultEngine) -> None:
    engine.up = False
    started_s = trio.current_time()
    assert "cannot be reached: connection refused" in await load_error(engine, load_timeout_s=30)
    assert trio.current_time() - started_s == pytest.approx(30, abs=1)


async def test_an_engine_that_takes_no_connection_is_waited_for_too(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    engine.deaf = True
    assert "engine.test" in await load_error(engine, load_timeout_s=30)


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([refusal(401, "bad key")], "api_key_env"),
        ([refusal(404, "nothing here")], "nothing here"),
        ([reply("", 301, {"location": "/v2"})], "base_url"),
        ([reply("<html>", kind="text/html")], "no list of models"),
        ([reply({"data": [{"name": "x"}]})], "no list of models"),
        ([reply([1])], "no list of models"),
    ],
)
async def test_what_waiting_does_not_mend_is_told_at_once(
    autojump_clock: MockClock, engine: FaultEngine, steps: list[Step], told: str
) -> None:
    engine.models_answers = [steps]
    started_s = trio.current_time()
    assert told in await load_error(engine)
    assert trio.current_time() == started_s


async def test_a_request_that_gets_no_connection_says_that_the_engine_is_dead(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    async with remote_stage(engine, max_retries=1) as stage:
        engine.break_down()
        engine.deaf = True
        assert (await failure(ask(stage))).code == "engine_dead"


async def run_to_its_end(
    stage: RemoteChatStage, ended: trio.Event, task_status: trio.TaskStatus[object]
) -> None:
    await stage.run(task_status)
    ended.set()


async def test_an_engine_that_breaks_down_ends_the_stage_and_its_requests(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    hold = Hold()
    engine.answers = [[stream_head(), chunk(event(delta("Half"))), hold]]
    ended = trio.Event()
    async with trio.open_nursery() as nursery:
        stage = RemoteChatStage(
            "llm",
            RemoteDeploy(base_url="http://engine.test/v1"),
            transport=engine_transport(engine, nursery.start_soon),
        )
        await nursery.start(run_to_its_end, stage, ended)
        speaking, waiting = ask(stage, "speaking"), stage.open(StageRequest(request_id="waiting"))
        await hold.reached.wait()
        engine.break_down()
        outputs = await outputs_of(speaking)
        assert [output.data.text for output in outputs] == ["Half"]
        assert speaking.failure is not None
        assert speaking.failure.code == "engine_error"
        assert (await failure(waiting)).code == "engine_dead"
        await ended.wait()
        assert not stage.alive
        assert stage.last_error == "the remote engine at engine.test does not answer any more"
        with pytest.raises(StageDeadError):
            ask(stage, "late")
        await speaking.wait_released()
        await waiting.wait_released()
        statistics = stage.statistics()
        assert (statistics.live_requests, statistics.failed_total, statistics.alive) == (0, 2, False)


async def test_an_engine_that_is_back_is_served_by_another_stage(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    async with remote_stage(engine):
        engine.break_down()
        await trio.sleep(30)
    engine.up = True
    async with remote_stage(engine) as stage:
        assert await answer(ask(stage)) == "All is well."


async def test_an_engine_is_asked_now_and_then_while_nothing_is_said(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    async with remote_stage(engine) as stage:
        await trio.sleep(65)
        assert len(engine.probes) == 7
        engine.models_answers = [[Stall()], [Cut()]]
        await trio.sleep(30)
        assert stage.alive
        engine.models_answers = [[refusal(401, "no")]]
        await trio.sleep(30)
        assert stage.alive
        engine.models_answers = [[Stall()]] * 3
        await trio.sleep(60)
        assert not stage.alive


async def test_an_engine_that_speaks_is_there_though_it_answers_no_question(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    hold = Hold()
    words = [step for number in range(8) for step in (chunk(event(delta("x"))), Wait(5))]
    engine.answers = [[stream_head(), *words, hold]]
    async with remote_stage(engine) as stage:
        engine.models_answers = [[Stall()]] * 100
        stream = ask(stage)
        await trio.sleep(39)
        assert stage.alive
        stream.abort()


async def test_the_key_and_headers_are_sent_and_shown_nowhere(
    autojump_clock: MockClock, engine: FaultEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.answers = [[refusal(500, "k-secret is overloaded")], streamed("Well.")]
    environment = {"ENGINE_KEY": "k-secret", "HTTP_PROXY": "http://proxy.test"}
    headers = {"X-Team": "speech"}
    async with remote_stage(
        engine, environment=environment, api_key_env="ENGINE_KEY", headers=headers
    ) as stage:
        assert await answer(ask(stage)) == "Well."
        assert "k-secret" not in repr(stage.__dict__)
    for asked in [*engine.asked, *engine.probes]:
        assert asked.headers["authorization"] == "Bearer k-secret"
        assert asked.headers["x-team"] == "speech"
    assert "k-secret" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"base_url": "http://user:pass@engine.test/v1"}, "base_url"),
        ({"api_key_env": "NO_SUCH_KEY"}, "NO_SUCH_KEY, which is not set"),
        ({"ca_file": "/nowhere.pem", "base_url": "https://engine.test"}, "ca_file"),
        ({"api_key_env": "ODD_KEY"}, "ODD_KEY"),
    ],
)
def test_settings_that_cannot_work_are_told_before_anything_runs(keys: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        RemoteClient(
            RemoteDeploy(**{"base_url": "http://engine.test", **keys}), environment={"ODD_KEY": "a\nb"}
        )
