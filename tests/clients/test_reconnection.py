"""A client whose connections break, over streams in memory: its tasks, its waits, and what its user sees."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import chain, repeat
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.clients import (
    DuplexBufferFullError,
    DuplexClient,
    DuplexConnectionError,
    DuplexProtocolError,
    DuplexSessionReplacedError,
    ReconnectPolicy,
)
from duplex_trio.clients.transport import Connect
from duplex_trio.testing.wire_peer import WirePeer, scripted

URL = "ws://test.invalid"
Script = Callable[[WirePeer], Awaitable[None]]
QUIETLY = ("session.event_ack", "session.heartbeat")


def in_turn(nursery: trio.Nursery, *scripts: Script | OSError) -> Connect:
    """The server runs another script for each connection, the last one for all that follow."""
    following = chain(scripts, repeat(scripts[-1]))

    async def connect(host: str, port: int, tls: bool) -> trio.abc.Stream:
        script = next(following)
        if isinstance(script, OSError):
            await trio.lowlevel.checkpoint()
            raise script
        return await scripted(nursery, script)(host, port, tls)

    return connect


def client_of(nursery: trio.Nursery, *scripts: Script | OSError, **options: Any) -> DuplexClient:
    policy = {"max_attempts": 3, "backoff_s": (1.0, 1.0)} | options.pop("policy", {})
    return DuplexClient(
        URL, connect=in_turn(nursery, *scripts), reconnect=ReconnectPolicy(**policy), **options
    )


async def open_and_hang_up(peer: WirePeer) -> None:
    await peer.open_session(token="token-1")
    await trio.sleep(1)
    await peer.hang_up()


def come_back(*then: Script, count: int = 0, seen: list[WirePeer] | None = None) -> Script:
    async def script(peer: WirePeer) -> None:
        if seen is not None:
            seen.append(peer)
        await peer.resume_session(count)
        for step in then:
            await step(peer)

    return script


async def swallow(_peer: WirePeer) -> None:
    await trio.sleep_forever()


async def test_a_session_goes_on_over_another_connection(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    seen: list[WirePeer] = []

    async def first(peer: WirePeer) -> None:
        await peer.open_session(token="token-1")
        await peer.receive("one")
        await peer.send("x", server_event_seq=2)
        await trio.sleep(1)
        await peer.hang_up()

    async def goes_on(peer: WirePeer) -> None:
        for seq in (2, 3):
            await peer.send("x", server_event_seq=seq)
        await peer.receive("two")

    second = come_back(goes_on, WirePeer.close_session, count=1, seen=seen)
    async with client_of(nursery, first, second) as client:
        events = client.events()
        await client.send({"type": "one"})
        await client.wait_for("connection.lost")
        assert not client.connected
        assert not client.closed
        await client.send({"type": "two"})
        resumed = await client.wait_for("connection.resumed")
        assert resumed.raw["attempt"] == 1
        assert client.connected
    (peer,) = seen
    assert peer.request.path == "/v1/realtime?duplex=1&autostart=0"
    request, *rest = peer.received
    assert request["resume_token"] == "token-1"
    assert request["last_received_server_event_seq"] == 2
    assert rest[0] == {"type": "session.event_ack", "server_event_seq": 2}
    assert [command["type"] for command in rest if command["type"] not in QUIETLY] == ["two", "session.close"]
    types = [event.type async for event in events]
    assert types == [
        *("session.updated", "x"),
        *("connection.lost", "connection.resumed", "session.resumed", "x"),
        "session.closed",
    ]


async def test_what_was_lost_with_a_connection_is_sent_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    seen: list[WirePeer] = []

    async def deaf(peer: WirePeer) -> None:
        await peer.open_session(token="token-1")
        await peer.receive("command.0")
        await trio.sleep(1)
        await peer.hang_up()

    second = come_back(WirePeer.close_session, count=1, seen=seen)
    async with client_of(nursery, deaf, second) as client:
        for number in range(5):
            await client.send({"type": f"command.{number}"})
        await client.wait_for("connection.resumed")
    types = [command["type"] for command in seen[0].received if command["type"] not in QUIETLY]
    assert types == ["session.resume", *(f"command.{number}" for number in range(1, 5)), "session.close"]


async def test_several_attempts_and_their_waits(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """The server is down, swallows everything, hangs up, and is there again."""
    last = come_back(WirePeer.close_session)
    down = OSError("down")
    client = client_of(
        nursery,
        *(open_and_hang_up, down, swallow, WirePeer.hang_up, last),
        policy={"max_attempts": 4, "attempt_timeout_s": 7},
    )
    async with client:
        await client.wait_for("connection.lost")
        lost_s = trio.current_time()
        resumed = await client.wait_for("connection.resumed")
        assert resumed.raw["attempt"] == 4
        assert trio.current_time() - lost_s == pytest.approx(4 * 1 + 7, abs=0.1)


@pytest.mark.parametrize(
    ("script", "words", "tried_s"),
    [
        (OSError("down"), "down", 3),
        (swallow, "the session was not there within 5 s", 18),
        (WirePeer.hang_up, "1006", 3),
    ],
)
async def test_it_gives_up_and_says_why(
    nursery: trio.Nursery, autojump_clock: MockClock, script: Any, words: str, tried_s: float
) -> None:
    async with client_of(nursery, open_and_hang_up, script) as client:
        with pytest.raises(DuplexConnectionError, match=words) as caught:
            await client.wait_for("never")
        assert "1006" in str(caught.value)
        assert "3 attempts to resume the session failed" in str(caught.value)
        assert caught.value.attempts == 3
        assert caught.value.tried_s == pytest.approx(tried_s, abs=0.1)
        with pytest.raises(DuplexConnectionError):
            await client.commit()
    nursery.cancel_scope.cancel()


async def test_a_refused_resume_is_not_repeated(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    connections: list[WirePeer] = []

    async def refuse(peer: WirePeer) -> None:
        connections.append(peer)
        await peer.receive("session.resume")
        await peer.send("error", error={"code": "session_resume_expired", "message": "gone"})
        await peer.close(1008, "session_resume_expired")

    async with client_of(nursery, open_and_hang_up, refuse) as client:
        with pytest.raises(DuplexConnectionError, match="session_resume_expired: gone"):
            await client.wait_for("never")
    assert len(connections) == 1


async def test_another_client_takes_the_session_over(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The events end as expected, and there is nothing to come back to."""

    async def replace(peer: WirePeer) -> None:
        await peer.open_session(token="token-1")
        await peer.send("session.replaced", session_id="duplex-1", attachment_generation=1)
        await peer.close(1000, "session_replaced")

    async with client_of(nursery, replace, swallow) as client:
        assert [event.type async for event in client][-1] == "session.replaced"
        with pytest.raises(DuplexSessionReplacedError):
            await client.commit()
        assert client.closed
    nursery.cancel_scope.cancel()


async def test_a_lost_answer_to_a_resume(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """The client presents what it has."""
    seen: list[WirePeer] = []

    async def lose_the_answer(peer: WirePeer) -> None:
        await peer.receive("session.resume")
        await peer.hang_up()

    last = come_back(WirePeer.close_session, seen=seen)
    async with client_of(nursery, open_and_hang_up, lose_the_answer, last) as client:
        await client.wait_for("connection.resumed")
    assert seen[0].received[0]["resume_token"] == "token-1"
    assert seen[0].received[0]["attempt"] == 2


async def test_a_connection_that_swallows_everything_is_found_out(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def open_and_swallow(peer: WirePeer) -> None:
        await peer.open_session(token="token-1")
        await trio.sleep_forever()

    client = client_of(nursery, open_and_swallow, come_back(WirePeer.close_session), heartbeat_interval_s=20)
    async with client:
        begin_s = trio.current_time()
        lost = await client.wait_for("connection.lost")
        assert trio.current_time() - begin_s == pytest.approx(30, abs=0.1)
        assert lost.raw["message"] == "the server said nothing for 10 s after a heartbeat"
        await client.wait_for("connection.resumed")
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("when_full", ["wait", "raise"])
async def test_what_is_kept_while_the_connection_is_down_is_bounded(
    nursery: trio.Nursery, autojump_clock: MockClock, when_full: str
) -> None:
    """Whoever wants to send more waits, or is told so; all that was taken arrives, in order."""
    seen: list[WirePeer] = []

    async def take_all(peer: WirePeer) -> None:
        while (await peer.receive())["type"] != "session.close":
            pass
        await peer.send("session.closed")
        await peer.close(1000)

    policy = {"backoff_s": (10.0, 10.0), "buffer_bytes_max": 4_000, "when_full": when_full}
    client = client_of(nursery, open_and_hang_up, come_back(take_all, seen=seen), policy=policy)
    sent = 0

    async def append_forever() -> None:
        nonlocal sent
        while True:
            await client.append_audio(bytes(640))
            sent += 1

    async with client:
        await client.wait_for("connection.lost")
        lost_s = trio.current_time()
        if when_full == "raise":
            with pytest.raises(DuplexBufferFullError) as caught:
                await append_forever()
            assert caught.value.limit == 4_000
            assert trio.current_time() == lost_s
        else:
            with trio.move_on_after(5) as scope:
                await append_forever()
            assert scope.cancelled_caught
        assert sent == 3
        await client.wait_for("connection.resumed")
    appended = [command for command in seen[0].received if command["type"] == "input_audio_buffer.append"]
    assert len(appended) == 3


async def test_senders_that_wait_go_on_in_their_order(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Also a small command behind a large one that finds no room yet."""
    received: list[str] = []
    release = trio.Event()

    async def count(peer: WirePeer) -> None:
        await peer.open_session(token="token-1")
        while True:
            command = await peer.receive("session.heartbeat", "session.close", "large", "small")
            if command["type"] == "session.heartbeat":
                await release.wait()
                await peer.send("session.heartbeat_ack", client_event_count=len(received))
            elif command["type"] == "session.close":
                await peer.send("session.closed")
                await peer.close(1000)
                return
            else:
                received.append(command["type"])

    client = client_of(nursery, count, policy={"buffer_bytes_max": 2_000})
    order = ["large", "large", "small", "large", "small", "small"]
    async with client:
        async with trio.open_nursery() as senders:
            for name in order:
                padding = "x" * 1_500 if name == "large" else ""
                senders.start_soon(client.send, {"type": name, "padding": padding})
                await wait_all_tasks_blocked()
            assert received == ["large"]
            release.set()
        await client.wait_for("session.heartbeat_ack")
    assert received == order


async def test_a_user_that_leaves_while_the_connection_is_down(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """With an exception nothing is waited for; without one the end of the session is said over the next
    connection."""
    begin_s = trio.current_time()
    with pytest.raises(KeyError):  # noqa: PT012  the client hands on what its block raises
        async with client_of(nursery, open_and_hang_up, swallow) as client:
            await client.wait_for("connection.lost")
            begin_s = trio.current_time()
            raise KeyError
    assert trio.current_time() == begin_s
    async with client_of(nursery, open_and_hang_up, come_back(WirePeer.close_session)) as client:
        await client.wait_for("connection.lost")
    assert client.closed


async def test_a_close_whose_answer_is_lost(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """The server has ended the session by the time that the client asks for it."""

    async def close_and_hang_up(peer: WirePeer) -> None:
        await peer.open_session(token="token-1")
        await peer.receive("session.close")
        await peer.hang_up()

    async def gone(peer: WirePeer) -> None:
        await peer.receive("session.resume")
        await peer.send("error", error={"code": "session_resume_expired", "message": "it has ended"})
        await peer.close(1008)

    async with client_of(nursery, close_and_hang_up, gone) as client:
        pass
    assert client.closed


async def test_a_server_that_breaks_the_rules_of_resuming(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with client_of(nursery, open_and_hang_up, come_back(swallow, count=7)) as client:
        with pytest.raises(DuplexProtocolError, match="counts 7 commands; 0 were sent"):
            await client.wait_for("never")
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("token", ["token-1", None])
async def test_a_large_command_waits_for_small_ones_only_as_long_as_it_must(
    nursery: trio.Nursery, autojump_clock: MockClock, token: str | None
) -> None:
    """Also where the server says nothing by itself, and where the session ends with its connection."""
    arrived = 0

    async def count(peer: WirePeer) -> None:
        nonlocal arrived
        await peer.open_session(token=token)
        while (command := await peer.receive("session.heartbeat", "x", "session.close"))[
            "type"
        ] != "session.close":
            arrived += command["type"] == "x"
            if command["type"] == "session.heartbeat":
                await peer.send("session.heartbeat_ack", client_event_count=arrived)
        await peer.send("session.closed")
        await peer.close(1000)

    async with client_of(nursery, count, policy={"buffer_bytes_max": 2_000}) as client:
        await client.wait_for("session.updated")
        begin_s = trio.current_time()
        for size in (100, 1_900, 100, 5_000, 100):
            await client.send({"type": "x", "padding": "x" * size})
        assert trio.current_time() - begin_s < 1
    assert arrived == 5
