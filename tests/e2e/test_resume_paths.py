"""Coming back over real sockets, on both WebSocket paths: each answer, its order of messages and its close frame."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import orjson
import pytest
import trio
from attrs import define

from duplex_trio.deploy import SessionLimits
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.serving.options import TRANSPORTS, ServeOptions
from duplex_trio.serving.run import run_server
from duplex_trio.testing.raw_websocket import CLOSE, TEXT, RawWebSocket, upgrade_request

pytestmark = pytest.mark.e2e
HEARTBEAT = '{"type":"session.heartbeat"}'


@define(eq=False)
class Peer:
    """A client's end of one socket."""

    socket: RawWebSocket

    async def say(self, text: str) -> None:
        await self.socket.send_text(text)

    async def next(self) -> dict[str, Any]:
        frame = await self.socket.receive()
        assert frame is not None
        assert frame.opcode == TEXT, frame
        event: dict[str, Any] = orjson.loads(frame.payload)
        return event

    async def until(self, kind: str) -> dict[str, Any]:
        while (event := await self.next())["type"] != kind:
            pass
        return event

    async def closed(self) -> tuple[int, str]:
        while (frame := await self.socket.receive()) is not None:
            if frame.opcode == CLOSE:
                return frame.close_code, frame.close_reason
        raise AssertionError("there was no close frame")


@define(eq=False)
class Server:
    """A server, and the clients of a test."""

    port: int
    peers: list[Peer]

    async def connect(self) -> Peer:
        socket = await RawWebSocket.open(self.port)
        self.peers.append(Peer(socket))
        await socket.send(upgrade_request("/v1/realtime?duplex=1&resume=1"))
        assert (await socket.response_head())[0] == 101
        return self.peers[-1]

    async def open(self) -> tuple[Peer, dict[str, Any]]:
        """A session, and what its client presents to resume it."""
        peer = await self.connect()
        await peer.say('{"type":"session.update","session":{}}')
        created = await peer.next()
        opened = await peer.until("conversation.created")
        known = {
            "session_id": created["session"]["id"],
            "resume_token": created["resume_token"],
            "last_received_server_event_seq": opened["server_event_seq"],
        }
        return peer, known

    async def resume(self, known: dict[str, Any], **other: Any) -> Peer:
        peer = await self.connect()
        await peer.say(orjson.dumps({"type": "session.resume", **known, **other}).decode())
        return peer


Serve = Callable[..., Any]


@pytest.fixture(params=TRANSPORTS)
def serve(request: pytest.FixtureRequest) -> Serve:
    @asynccontextmanager
    async def serving(**limits: Any) -> AsyncIterator[Server]:
        make = partial(
            DuplexOmni, ScriptedPipeline(), max_sessions=4, warm_up=False, limits=SessionLimits(**limits)
        )
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                address = await nursery.start(run_server, make, ServeOptions(port=0, ws=request.param))
                server = Server(address.port, [])
                try:
                    yield server
                finally:
                    for peer in server.peers:
                        await trio.aclose_forcefully(peer.socket.stream)
                    nursery.cancel_scope.cancel()

    return serving


async def test_a_session_goes_on_over_another_socket(serve: Serve) -> None:
    """The answer comes first, then what was missed, as it was, then what is live."""
    async with serve() as server:
        peer, known = await server.open()
        await peer.say(HEARTBEAT)
        missed = await peer.until("session.heartbeat_ack")
        await peer.socket.aclose()
        again = await server.resume(known)
        resumed = await again.next()
        assert (resumed["type"], resumed["attachment_generation"]) == ("session.resumed", 2)
        assert await again.next() == missed
        await again.say(HEARTBEAT)
        live = await again.next()
        assert live["type"] == "session.heartbeat_ack"
        assert live["server_event_seq"] == missed["server_event_seq"] + 1


async def test_another_socket_takes_over(serve: Serve) -> None:
    async with serve() as server:
        peer, known = await server.open()
        again = await server.resume(known)
        await again.until("session.resumed")
        replaced = await peer.next()
        assert (replaced["type"], replaced["attachment_generation"]) == ("session.replaced", 1)
        assert await peer.closed() == (1000, "session_replaced")
        await again.say(HEARTBEAT)
        await again.until("session.heartbeat_ack")


async def test_a_socket_that_is_being_caught_up_is_taken_over(serve: Serve) -> None:
    """It reads, so the write that the takeover gives up cuts nothing, and it is told as any other."""
    async with serve() as server:
        peer, known = await server.open()
        for _ in range(200):
            await peer.say(HEARTBEAT)
        for _ in range(200):
            await peer.until("session.heartbeat_ack")
        await peer.socket.aclose()
        first = await server.resume(known)
        await first.until("session.heartbeat_ack")
        second = await server.resume(known)
        await first.until("session.replaced")
        assert await first.closed() == (1000, "session_replaced")
        for _ in range(200):
            await second.until("session.heartbeat_ack")


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"session_id": "duplex-" + "0" * 32}, "invalid_resume_token"),
        ({"resume_token": "x" * 43}, "invalid_resume_token"),
        ({"resume_token": None}, "invalid_session_resume"),
        ({"session_id": 7}, "invalid_session_resume"),
        ({"last_received_server_event_seq": "1"}, "invalid_session_resume"),
        ({"last_received_server_event_seq": 10_000}, "session_resume_conflict"),
        ({"attempt": -1}, "invalid_session_resume"),
    ],
)
async def test_a_refused_resume_says_why_and_closes(serve: Serve, other: dict[str, Any], code: str) -> None:
    """Its session and who has it are untouched."""
    async with serve() as server:
        peer, known = await server.open()
        asked = await server.resume(known, **other)
        error = await asked.next()
        assert (error["type"], error["error"]["code"]) == ("error", code)
        assert await asked.closed() == (1008, code)
        await peer.say(HEARTBEAT)
        await peer.until("session.heartbeat_ack")
        await (await server.resume(known)).until("session.resumed")


async def test_a_gap_is_no_error_but_an_end(serve: Serve) -> None:
    async with serve() as server:
        peer, known = await server.open()
        await peer.say('{"type":"session.event_ack","server_event_seq":1}')
        await peer.say(HEARTBEAT)
        await peer.until("session.heartbeat_ack")
        asked = await server.resume(known, last_received_server_event_seq=0)
        resync = await asked.next()
        assert (resync["type"], resync["reason"]) == ("session.resync_required", "journal_gap")
        assert await asked.closed() == (1008, "journal_gap")


async def test_a_journal_that_overflows(serve: Serve) -> None:
    """The live socket is told once, what follows has no number, and who comes back later has a gap."""
    async with serve(journal_bytes_max=10_000) as server:
        peer, known = await server.open()
        numbered = known["last_received_server_event_seq"]
        await peer.say('{"type":"session.update","session":{"instructions":"' + "x" * 10_000 + '"}}')
        resync = await peer.next()
        assert (resync["type"], resync["reason"]) == ("session.resync_required", "journal_overflow")
        for _ in range(2):
            await peer.say(HEARTBEAT)
        later = [await peer.next() for _ in range(3)]
        kinds = [event["type"] for event in later]
        assert kinds == ["session.updated", "session.heartbeat_ack", "session.heartbeat_ack"]
        assert not any("server_event_seq" in event for event in (resync, *later))
        await peer.say(f'{{"type":"session.event_ack","server_event_seq":{numbered}}}')
        asked = await server.resume(known)
        assert (await asked.next())["reason"] == "journal_gap"
        assert await asked.closed() == (1008, "journal_gap")


async def test_a_session_that_has_ended(serve: Serve) -> None:
    async with serve() as server:
        peer, known = await server.open()
        await peer.say('{"type":"session.close"}')
        assert await peer.closed() == (1000, "client_close")
        asked = await server.resume(known)
        assert (await asked.next())["error"]["code"] == "session_resume_expired"
        assert await asked.closed() == (1008, "session_resume_expired")


async def test_a_resume_is_the_first_message_or_none(serve: Serve) -> None:
    async with serve() as server:
        peer, known = await server.open()
        await peer.say(orjson.dumps({"type": "session.resume", **known}).decode())
        assert (await peer.until("error"))["error"]["code"] == "unsupported_session_resume"
        await peer.say(HEARTBEAT)
        await peer.until("session.heartbeat_ack")
