"""What an engine can do wrong, at every byte, and what a request is told of it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.testing.http_faults.answers import (
    DONE,
    LAST_CHUNK,
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
    spoken,
    stream_head,
    streamed,
    usage,
)
from duplex_trio.testing.http_faults.asking import answer, ask, failure, outputs_of
from duplex_trio.testing.http_faults.run import FaultEngine, remote_stage

TOO_LONG = (
    "This model's maximum context length is 1024 tokens. Your prompt contains at least 1025 input tokens"
)


def in_chunks(*events: bytes) -> list[Step]:
    return [stream_head(), *(chunk(data) for data in events), LAST_CHUNK]


@pytest.mark.parametrize(
    ("steps", "code", "told"),
    [
        ([refusal(400, TOO_LONG, code=400)], "context_length_exceeded", "maximum context length"),
        (
            [refusal(400, "Please shorten it.", code="context_length_exceeded")],
            "context_length_exceeded",
            "shorten",
        ),
        (
            [refusal(400, "Input length (9) exceeds model's maximum context length (8).")],
            "context_length_exceeded",
            "9",
        ),
        ([refusal(400, "temperature must be non-negative")], "invalid_value", "temperature"),
        ([refusal(422, "bad field")], "invalid_value", "bad field"),
        ([reply({"detail": "no such thing"}, 422)], "invalid_value", "no such thing"),
        ([refusal(401, "Incorrect API key provided: k-secret")], "engine_error", "api_key_env"),
        ([refusal(403, "forbidden for k-secret")], "engine_error", "api_key_env"),
        ([refusal(404, "The model `tiny` does not exist.")], "engine_error", "does not exist"),
        ([refusal(418, "I am k-secret")], "engine_error", "HTTP 418: I am ***"),
        ([reply("<html>" + "x" * 2000, 400, kind="text/html")], "invalid_value", "<html>"),
        ([reply("", 307, {"location": "http://elsewhere.test/v1"})], "engine_error", "base_url"),
        ([reply({"choices": []})], "engine_error", "application/json"),
        ([reply("<html>", kind="text/html")], "engine_error", "text/html"),
        (in_chunks(b"data: {nonsense}\n\n"), "engine_error", "no JSON"),
        (in_chunks(b"data: [1]\n\n"), "engine_error", "list"),
        (in_chunks(event({"choices": ["x"]})), "engine_error", "str"),
        (in_chunks(event({"choices": 7})), "engine_error", "int"),
        (in_chunks(event(delta(["parts"]))), "engine_error", "list"),  # type: ignore[arg-type]
        (in_chunks(event({"error": {"message": TOO_LONG, "code": 400}})), "context_length_exceeded", "1024"),
        (in_chunks(event({"error": {"message": "CUDA k-secret", "code": 500}})), "engine_error", "CUDA ***"),
        (in_chunks(event({"error": "out of memory"})), "engine_error", "out of memory"),
        (
            in_chunks(event({"object": "error", "message": "old style", "code": 400})),
            "invalid_value",
            "old style",
        ),
        (in_chunks(event(delta("", "error"))), "engine_error", "gave the answer up"),
        (
            in_chunks(event(delta(tool_calls=[{"index": 0, "function": {"arguments": "{}"}}]))),
            "engine_error",
            "name",
        ),
        ([stream_head(), *[chunk(b"x" * 65536)] * 65], "engine_error", "more than"),
    ],
)
async def test_a_fault_that_will_not_pass_is_told_at_once(
    autojump_clock: MockClock, engine: FaultEngine, steps: list[Step], code: str, told: str
) -> None:
    engine.answers = [steps]
    async with remote_stage(engine, environment={"KEY": "k-secret"}, api_key_env="KEY") as stage:
        failed = await failure(ask(stage))
        assert (failed.code, len(engine.asked)) == (code, 1)
        assert told in failed.message
        assert "k-secret" not in failed.message
        assert stage.statistics().live_requests == 0
        engine.answers = [streamed("Well.")]
        assert await answer(ask(stage)) == "Well."


PASSING: list[tuple[list[Step], str]] = [
    ([refusal(429, "slow down")], "HTTP 429: slow down"),
    ([refusal(500, "oops")], "HTTP 500"),
    ([refusal(502, "no backend")], "HTTP 502"),
    ([refusal(503, "loading")], "HTTP 503"),
    ([refusal(503, "loading", {"retry-after": "2"})], "HTTP 503"),
    ([refusal(504, "too slow")], "HTTP 504"),
    ([Cut()], "broke off"),
    ([b"HTTP/1.1 200", Cut()], "broke off"),
    ([b"\x00\xff nonsense\r\n\r\n", Cut()], "broke off"),
    ([stream_head(), Cut()], "broke off"),
    ([stream_head(), chunk(event(delta("", role="assistant"))), Cut()], "broke off"),
    ([stream_head(), LAST_CHUNK], "in the middle"),
    ([stream_head(), b"zz\r\n", Cut()], "broke off"),
    ([Stall()], "says nothing for 7 s"),
    ([stream_head(), Stall()], "says nothing for 7 s"),
    ([stream_head(), *[chunk(b": ping\n\n"), Wait(1)] * 30], "says nothing for 7 s"),
    ([stream_head(), chunk(b"data: {"), *[chunk(b" "), Wait(1)] * 30], "says nothing for 7 s"),
]


@pytest.mark.parametrize(("steps", "told"), PASSING)
async def test_a_fault_that_may_pass_is_tried_again_unseen(
    autojump_clock: MockClock, engine: FaultEngine, steps: list[Step], told: str
) -> None:
    engine.answers = [steps, steps, streamed("Well.")]
    async with remote_stage(engine, read_timeout_s=7) as stage:
        assert await answer(ask(stage)) == "Well."
    assert len(engine.asked) == 3


@pytest.mark.parametrize(("steps", "told"), PASSING)
async def test_a_fault_that_does_not_pass_is_told_after_the_last_try(
    autojump_clock: MockClock, engine: FaultEngine, steps: list[Step], told: str
) -> None:
    engine.answers = [steps]
    async with remote_stage(engine, read_timeout_s=7, max_retries=1) as stage:
        failed = await failure(ask(stage))
        assert failed.code == "engine_error"
        assert told in failed.message
        assert stage.alive
    assert len(engine.asked) == 2


@pytest.mark.parametrize(
    "fault", [[Cut()], [Stall()], [b"zz\r\n"], [LAST_CHUNK], [chunk(event({"error": {"message": "x"}}))]]
)
async def test_nothing_is_asked_again_once_something_was_delivered(
    autojump_clock: MockClock, engine: FaultEngine, fault: list[Step]
) -> None:
    engine.answers = [[stream_head(), chunk(event(delta("Half"))), *fault]]
    async with remote_stage(engine) as stage:
        stream = ask(stage)
        assert [output.data.text for output in await outputs_of(stream)] == ["Half"]
        assert stream.failure is not None
        assert stream.failure.code == "engine_error"
    assert len(engine.asked) == 1


async def test_a_wait_that_the_engine_asks_for_is_kept(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    engine.answers = [[refusal(429, "wait", {"retry-after": "4"})], streamed("Well.")]
    async with remote_stage(engine) as stage:
        started_s = trio.current_time()
        assert await answer(ask(stage)) == "Well."
        assert 4 <= trio.current_time() - started_s < 5


async def test_a_wait_that_is_too_long_for_a_conversation_fails_at_once(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    engine.answers = [[refusal(503, "in an hour", {"retry-after": "3600"})]]
    async with remote_stage(engine) as stage:
        started_s = trio.current_time()
        assert "in an hour" in (await failure(ask(stage))).message
        assert trio.current_time() == started_s
    assert len(engine.asked) == 1


WHOLE = spoken("Hé", "llo ", "漢😀")
HEAD = stream_head()


def plain_stream(body: bytes) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    )


@pytest.mark.parametrize("cut", range(1, len(plain_stream(WHOLE)), 7))
async def test_a_connection_may_break_at_every_byte(
    autojump_clock: MockClock, engine: FaultEngine, cut: int
) -> None:
    """What was delivered stays delivered, and there is one end: whole, or a failure."""
    engine.answers = [[plain_stream(WHOLE)[:cut], Cut()]]
    async with remote_stage(engine, max_retries=0) as stage:
        stream = ask(stage)
        outputs = await outputs_of(stream)
        text = "".join(output.data.text for output in outputs)
        assert "Héllo 漢😀".startswith(text)
        assert (stream.failure is None) == (bool(outputs) and outputs[-1].finished)
        if stream.failure is None:
            assert text == "Héllo 漢😀"
        await stream.wait_released()
        assert stage.statistics().live_requests == 0


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
async def test_an_answer_may_come_in_any_pieces(
    autojump_clock: MockClock, engine: FaultEngine, size: int
) -> None:
    body = b"".join(chunk(WHOLE[start : start + size]) for start in range(0, len(WHOLE), size))
    engine.answers = [[HEAD, body, LAST_CHUNK]]
    async with remote_stage(engine) as stage:
        outputs = await outputs_of(ask(stage))
    assert [output.data.text for output in outputs] == ["Hé", "llo ", "漢😀", ""]
    assert (outputs[-1].data.prompt_tokens, outputs[-1].data.completion_tokens) == (7, 3)


async def test_a_slow_answer_is_no_silence(autojump_clock: MockClock, engine: FaultEngine) -> None:
    words = [step for number in range(20) for step in (chunk(event(delta(f"{number}"))), Wait(6))]
    engine.answers = [[HEAD, *words, chunk(spoken()), LAST_CHUNK]]
    async with remote_stage(engine, read_timeout_s=7) as stage:
        assert await answer(ask(stage)) == "".join(map(str, range(20)))


async def test_a_consumer_without_room_is_no_silence(autojump_clock: MockClock, engine: FaultEngine) -> None:
    async with remote_stage(engine, read_timeout_s=1) as stage:
        stream = ask(stage, window=1)
        text = ""
        async for output in stream.outputs:
            text += output.data.text
            await trio.sleep(60)
            stream.consumed()
        assert (text, stream.failure) == ("All is well.", None)


@pytest.mark.parametrize(
    "ending",
    [
        [chunk(event(delta("Well.", "stop")) + event(usage(7, 1))), LAST_CHUNK],
        [chunk(event(delta("Well.", "stop")) + event(usage(7, 1))), Cut()],
        [chunk(event(delta("Well.", "stop")) + event(usage(7, 1))), Stall()],
        [chunk(event(delta("Well.", "stop"))), chunk(event(usage(7, 1)) + DONE), b"0\r\nX-Sum: 1\r\n\r\n"],
        [chunk(event(delta("Well.", "stop"))), Wait(1), chunk(event(usage(7, 1)))],
    ],
    ids=["no DONE", "cut behind the counts", "stalled behind the counts", "trailers", "late counts"],
)
async def test_an_answer_with_an_odd_ending_is_whole(
    autojump_clock: MockClock, engine: FaultEngine, ending: list[Step]
) -> None:
    engine.answers = [[HEAD, *ending]]
    async with remote_stage(engine) as stage:
        outputs = await outputs_of(ask(stage))
        last = outputs[-1].data
        assert (outputs[0].data.text, last.finish_reason) == ("Well.", "stop")
        assert (last.prompt_tokens, last.completion_tokens) == (7, 1)


@pytest.mark.parametrize(
    "ending", [[Cut()], [Stall()], [chunk(DONE), LAST_CHUNK], [LAST_CHUNK], [chunk(b"data: {\n\n")]]
)
async def test_an_answer_without_counts_is_whole(
    autojump_clock: MockClock, engine: FaultEngine, ending: list[Step]
) -> None:
    engine.answers = [[HEAD, chunk(event(delta("Well.", "length"))), *ending]]
    async with remote_stage(engine) as stage:
        started_s = trio.current_time()
        outputs = await outputs_of(ask(stage))
        assert outputs[-1].data.finish_reason == "length"
        assert trio.current_time() - started_s < 3
    assert len(engine.asked) == 1


async def test_an_engine_that_says_it_is_done_is_done(autojump_clock: MockClock, engine: FaultEngine) -> None:
    engine.answers = [[HEAD, chunk(event(delta("Well.")) + DONE), LAST_CHUNK]]
    async with remote_stage(engine) as stage:
        outputs = await outputs_of(ask(stage))
    assert outputs[-1].data.finish_reason == "stop"


async def test_an_interim_answer_is_passed_over(autojump_clock: MockClock, engine: FaultEngine) -> None:
    engine.answers = [
        [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n", *streamed("Well.")]
    ]
    async with remote_stage(engine) as stage:
        assert await answer(ask(stage)) == "Well."


async def test_a_stream_without_a_content_type_is_read(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    engine.answers = [[b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", spoken("Well."), Cut()]]
    async with remote_stage(engine) as stage:
        assert await answer(ask(stage)) == "Well."


async def test_thoughts_are_left_out(autojump_clock: MockClock, engine: FaultEngine) -> None:
    thoughts: list[dict[str, Any]] = [
        delta(None, reasoning_content="hm"),
        delta(None, reasoning="hm"),
        {"choices": [{"index": 0, "delta": {"content": None}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": None, "finish_reason": None}]},
    ]
    engine.answers = [in_chunks(*map(event, thoughts), spoken("Well."))]
    async with remote_stage(engine) as stage:
        outputs = await outputs_of(ask(stage))
    assert [output.data.text for output in outputs] == ["Well.", ""]


async def test_more_requests_than_connections_wait_their_turn(
    autojump_clock: MockClock, engine: FaultEngine
) -> None:
    hold = Hold()
    engine.answers = [[hold, *streamed("First.")], streamed("Second.")]
    async with remote_stage(engine, max_connections=1) as stage:
        first = ask(stage, "first")
        await hold.reached.wait()
        second, third = ask(stage, "second"), ask(stage, "third")
        await wait_all_tasks_blocked()
        assert (len(engine.asked), stage.statistics().queued_commands) == (1, 2)
        third.abort()
        await third.wait_released()
        hold.leave.set()
        assert await answer(first) == "First."
        assert await answer(second) == "Second."
    assert len(engine.asked) == 2
