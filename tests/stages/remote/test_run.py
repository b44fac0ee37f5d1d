from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.units import TextDelta
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
from duplex_trio.testing.http_faults.asking import PROMPT, answer, ask, outputs_of
from duplex_trio.testing.http_faults.run import Asked, FaultEngine, remote_stage


async def test_an_answer_comes_in_deltas_and_the_last_tells_the_counts(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    async with remote_stage(engine) as stage:
        outputs = await outputs_of(ask(stage))
        assert [output.data for output in outputs] == [
            TextDelta(text="All"),
            TextDelta(text=" is"),
            TextDelta(text=" well."),
            TextDelta(text="", finish_reason="stop", prompt_tokens=7, completion_tokens=3),
        ]
        assert [output.finished for output in outputs] == [False, False, False, True]
        statistics = stage.statistics()
        assert (statistics.live_requests, statistics.outputs_total, statistics.alive) == (0, 4, True)


async def test_metrics_tell_when_text_came(autojump_clock: MockClock, engine: FaultEngine) -> None:
    async with remote_stage(engine) as stage:
        outputs = await outputs_of(ask(stage))
    assert "vllm_ttft_ms" in outputs[0].metrics
    assert all("vllm_itls_ms" in output.metrics for output in outputs[1:3])
    assert outputs[3].metrics == {}


async def test_answers_use_one_connection_again(autojump_clock: MockClock, engine: FaultEngine) -> None:
    async with remote_stage(engine) as stage:
        for _ in range(3):
            stream = ask(stage)
            assert await answer(stream) == "All is well."
            await wait_all_tasks_blocked()
    assert engine.connections == 1


async def test_an_abort_closes_the_connection_at_once(autojump_clock: MockClock, engine: FaultEngine) -> None:
    hold = Hold()
    engine.answers = [[stream_head(), chunk(event(delta("All"))), hold]]
    async with remote_stage(engine) as stage:
        stream = ask(stage)
        async for output in stream.outputs:
            assert output.data.text == "All"
            stream.abort()
        await stream.wait_released()
        await engine.asked[0].gone.wait()
        assert engine.live == 0
        assert (stage.statistics().live_requests, stage.statistics().aborted_total) == (0, 1)
        engine.answers = [streamed("Again.")]
        assert await answer(ask(stage)) == "Again."


async def test_an_abort_before_the_prompt_asks_nobody(autojump_clock: MockClock, engine: FaultEngine) -> None:
    async with remote_stage(engine) as stage:
        stream = stage.open(StageRequest(request_id="a"))
        stage.abort(["a", "unknown"])
        await stream.wait_released()
        with pytest.raises(trio.BrokenResourceError):
            await stream.submit(PROMPT)
    assert engine.asked == []


async def test_an_abort_while_the_engine_thinks_closes_the_connection(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    hold = Hold()
    engine.answers = [[hold]]
    async with remote_stage(engine) as stage:
        stream = ask(stage)
        await hold.reached.wait()
        await stream.aclose()
        await engine.asked[0].gone.wait()


async def test_a_closed_window_stops_the_engine(autojump_clock: MockClock, engine: FaultEngine) -> None:
    sent: list[int] = []

    def steps(asked: Asked) -> Iterator[bytes]:
        yield stream_head()
        for number in range(20):
            sent.append(number)
            yield chunk(event(delta(f"{number} ")))
        yield chunk(event(delta(None, "stop")) + DONE) + LAST_CHUNK

    engine.answers = [steps]
    async with remote_stage(engine) as stage:
        stream = ask(stage, window=2)
        first = await stream.outputs.receive()
        await stream.outputs.receive()
        await wait_all_tasks_blocked()
        assert first.data.text == "0 "
        assert max(sent) <= 3
        stream.consumed(2)
        rest = []
        async for output in stream.outputs:
            rest.append(output)
            stream.consumed()
        assert "".join(output.data.text for output in rest) == "".join(
            f"{number} " for number in range(2, 20)
        )
        assert rest[-1].finished
