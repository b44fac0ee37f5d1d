"""Interactions: how they are answered, what becomes of them, and that asking again is safe."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.clients.video import (
    AnswerTimeoutError,
    InteractionBackpressureError,
    InteractionConflictError,
    InteractionFailedError,
    InteractionRefusedError,
    VideoConnectionError,
    VideoEndedError,
    VideoFailedError,
)
from duplex_trio.clients.video.connection import UNANSWERED_MAX
from duplex_trio.testing.video_peer import REQUEST_ID, VideoPeer, read_all, scripted_client

REFUSALS = [
    ("invalid_json", InteractionRefusedError),
    ("invalid_message", InteractionRefusedError),
    ("message_too_large", InteractionRefusedError),
    ("invalid_interaction", InteractionRefusedError),
    ("event_id_conflict", InteractionConflictError),
    ("input_backpressure", InteractionBackpressureError),
    ("resource_exhausted", InteractionBackpressureError),
    ("interaction_failed", InteractionFailedError),
]


async def test_an_interaction_returns_when_it_is_queued(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    got: list[dict[str, Any]] = []

    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        for _ in range(3):
            got.append(await peer.queue())
        await peer.end()

    async with scripted_client(nursery, script) as video:
        assert await video.interact("rain", event_id="mine", transition_chunks=0) == "mine"
        assert video.interactions["mine"].state == "queued"
        made_up = await video.interact("snow", negative_prompt="people")
        assert await video.interact("sun") != made_up
        await read_all(video)
    assert got[0] == {"event_id": "mine", "event": {"prompt": "rain"}, "transition_chunks": 0}
    assert got[1] == {"event_id": made_up, "event": {"prompt": "snow", "negative_prompt": "people"}}


@pytest.mark.parametrize(("code", "kind"), REFUSALS)
@pytest.mark.parametrize("named", [True, False])
async def test_a_refusal_is_raised_to_who_asked_and_the_video_goes_on(
    nursery: trio.Nursery,
    autojump_clock: MockClock,
    code: str,
    kind: type[InteractionRefusedError],
    named: bool,
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.receive("session.interaction")
        await peer.refuse(code, "a" if named else None, param="interaction.event.prompt")
        await peer.queue()
        await peer.pair()
        await peer.end()

    async with scripted_client(nursery, script) as video:
        with pytest.raises(kind, match=code) as caught:
            await video.interact("rain", event_id="a")
        error = caught.value
        assert type(error) is kind
        assert (error.code, error.param, error.event_id) == (code, "interaction.event.prompt", "a")
        assert error.request_id == REQUEST_ID
        assert "a" not in video.interactions
        await video.interact("rain", event_id="b")
        assert len(await read_all(video)) == 2


async def test_an_error_that_names_nothing_belongs_to_the_oldest_question(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        for _ in range(3):
            await peer.receive("session.interaction")
        await peer.queued("first")
        await peer.refuse("invalid_interaction", param="interaction.event_id")
        await peer.queued("third")
        await peer.end()

    answers: dict[str, str] = {}

    async def ask(name: str) -> None:
        try:
            await video.interact("rain", event_id=name)
        except InteractionRefusedError as error:
            answers[name] = error.code
        else:
            answers[name] = "queued"

    async with scripted_client(nursery, script) as video:
        async with trio.open_nursery() as asking:
            for name in ("first", "x" * 200, "third"):
                asking.start_soon(ask, name)
                await wait_all_tasks_blocked()
        await read_all(video)
    assert answers == {"first": "queued", "x" * 200: "invalid_interaction", "third": "queued"}


async def test_what_no_json_can_say_is_not_sent(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.end()

    async with scripted_client(nursery, script) as video:
        with pytest.raises(TypeError):
            await video.interact("\ud800")
        with pytest.raises(TypeError):
            await video.interact("rain", multi_modal_data=object())
        with pytest.raises(InteractionRefusedError, match="message_too_large"):
            await video.interact("rain" * 300_000)
        assert not video.interactions


async def test_an_unanswered_interaction_may_be_sent_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        first = await peer.receive("session.interaction")
        second = await peer.receive("session.interaction")
        assert first == second
        await peer.queued("a")
        await peer.queued("a")
        await peer.pair(started=("a",), active=("a",), completed=("a",))
        await peer.queue()
        await peer.end()

    async with scripted_client(nursery, script) as video:
        with pytest.raises(AnswerTimeoutError, match="interaction a within 2 s"):
            await video.interact("rain", event_id="a", timeout_s=2)
        assert await video.interact("rain", event_id="a") == "a"
        assert (await video.outcome("a")).state == "completed"
        assert await video.interact("rain", event_id="a") == "a"
        assert video.interactions["a"].state == "completed"
        await read_all(video)
        assert list(video.interactions) == ["a"]


async def test_a_late_conflict_belongs_to_the_question_that_it_answers(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.receive("session.interaction")
        await peer.receive("session.interaction")
        await peer.queued("a")
        await peer.refuse("event_id_conflict", "a")
        await peer.end()

    async with scripted_client(nursery, script) as video:
        with pytest.raises(AnswerTimeoutError):
            await video.interact("rain", event_id="a", timeout_s=2)
        with pytest.raises(InteractionConflictError):
            await video.interact("snow", event_id="a")
        assert video.interactions["a"].prompt == "rain"
        await read_all(video)


async def test_a_cancelled_interaction_leaves_no_trace_with_others(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.receive("session.interaction")
        await peer.queue()
        await peer.refuse("invalid_interaction", "a")
        await peer.end()

    async with scripted_client(nursery, script) as video:
        with trio.move_on_after(1):
            await video.interact("", event_id="a")
        await video.interact("rain", event_id="b")
        await read_all(video)


async def test_failure_after_the_queue_is_an_outcome(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.queue()
        await peer.refuse("interaction_failed", "a")
        await peer.queue()
        await peer.pair(started=("a",), active=("a",))
        await peer.pair(active=("a",), completed=("a",))
        await peer.end({"a": "completed"})

    async with scripted_client(nursery, script) as video:
        await video.interact("rain", event_id="a")
        failed = await video.outcome("a")
        assert (failed.state, failed.error) == ("failed", "interaction_failed: no")
        await video.interact("snow", event_id="a")
        started = await video.outcome("a", until="started")
        assert (started.state, started.started_chunk, started.started_frame) == ("started", 0, 0)
        done = await video.outcome("a")
        assert (done.state, done.completed_chunk, done.completed_frame) == ("completed", 1, 9)
        with pytest.raises(LookupError):
            await video.outcome("b")
        await read_all(video)


async def test_outcomes_are_told_from_the_order_before_the_end_says_so(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        for _ in range(4):
            await peer.queue()
        await peer.pair(started=("b",), active=("b",))
        await peer.pair(same_chunk=True, active=("b",))
        await peer.pair(started=("c",), active=("b", "c"))
        await peer.pair(same_chunk=True, active=("b", "c"), completed=("b",))
        await peer.pair(started=("d",), active=("d",), completed=("d",))
        await peer.receive("session.stop")
        await peer.end({"a": "superseded", "b": "completed", "c": "interrupted", "d": "completed"})

    async with scripted_client(nursery, script) as video:
        for name in "abcd":
            await video.interact(name, event_id=name)
        states = [(await video.outcome(name)).state for name in "abd"]
        assert states == ["superseded", "completed", "completed"]
        assert video.interactions["c"].state == "started", "a payload of its chunk may still complete it"
        await video.stop()
        assert (await video.outcome("c")).state == "interrupted"
        await read_all(video)


async def test_what_the_end_leaves_open_is_unfinished(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.queue()
        await peer.queue()
        await peer.pair(started=("a",), active=("a",))
        await peer.receive("session.interaction")
        await peer.end({"a": "unfinished", "b": "queued"})

    async with scripted_client(nursery, script) as video:
        await video.interact("a", event_id="a")
        await video.interact("b", event_id="b")
        with pytest.raises(VideoEndedError):
            await video.interact("c", event_id="c")
        assert {name: each.state for name, each in video.interactions.items()} == dict.fromkeys(
            "abc", "unfinished"
        )
        await read_all(video)


@pytest.mark.parametrize("failing", [True, False])
async def test_whoever_waits_hears_how_the_video_ended(
    nursery: trio.Nursery, autojump_clock: MockClock, failing: bool
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.receive("session.interaction")
        if failing:
            await peer.refuse("generation_failed")
        await peer.wire.hang_up()

    async with scripted_client(nursery, script) as video:
        with pytest.raises(VideoFailedError if failing else VideoConnectionError):
            await video.interact("rain")


async def test_a_flood_is_sent_in_order_and_nothing_is_lost(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    got: list[str] = []

    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        for _ in range(300):
            got.append((await peer.queue())["event_id"])
            await trio.sleep(0.01)
        await peer.end()

    async with scripted_client(nursery, script, lockstep=True) as video:
        async with trio.open_nursery() as asking:
            for number in range(300):
                asking.start_soon(lambda number=number: video.interact("x", event_id=f"{number:03}"))
        await read_all(video)
    assert len(set(got)) == len(got) == 300


async def test_a_server_that_answers_nothing_is_asked_no_more(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.receive("session.never")

    async with scripted_client(nursery, script, ping_interval_s=1e6) as video:
        with trio.move_on_after(1):
            async with trio.open_nursery() as asking:
                for _ in range(UNANSWERED_MAX):
                    asking.start_soon(video.interact, "x")
        with pytest.raises(InteractionBackpressureError, match="no answer yet"):
            await video.interact("x")
