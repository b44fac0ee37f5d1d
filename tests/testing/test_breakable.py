"""A client whose line is cut: in memory on a mock clock, and over TCP to a server with a port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from duplex_trio.clients import DuplexSessionClosedError
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.serving.address import ServerAddress
from duplex_trio.serving.options import TRANSPORTS, ServeOptions, Transport
from duplex_trio.serving.run import run_server
from duplex_trio.testing import (
    BreakableClient,
    Script,
    ScriptedPipeline,
    open_client,
    script,
    scripted_omni,
    serve_in_memory,
)
from duplex_trio.testing.breakable import Line


async def test_nothing_comes_through_a_line_that_is_cut(autojump_clock: MockClock) -> None:
    async with scripted_omni() as omni, serve_in_memory(omni) as server:
        async with BreakableClient(server.url, connect=server.connect) as client:
            with client.events() as events:
                client.cut()
                await server.closed()
                await trio.sleep(10)
                assert client.line.is_cut
                assert not client.connected
                assert server.connections == 0
                mended_s = trio.current_time()
                client.mend()
                await events.wait_for("connection.resumed")
                assert trio.current_time() - mended_s < 0.2
        assert omni.statistics().sessions == 0


async def test_a_client_whose_line_is_cut_can_leave(autojump_clock: MockClock) -> None:
    async with scripted_omni() as omni, serve_in_memory(omni) as server:
        async with BreakableClient(server.url, connect=server.connect) as client:
            client.cut()
        assert client.closed
        await server.closed()
        assert omni.statistics().sessions == 0


async def test_a_client_whose_session_is_gone_can_leave(autojump_clock: MockClock) -> None:
    async with open_client() as client:
        client.cut()
        await trio.sleep(60)
    with pytest.raises(DuplexSessionClosedError):
        await client.create_response()


@asynccontextmanager
async def port(model: Script, transport: Transport) -> AsyncIterator[ServerAddress]:
    """A server with a port, in this program."""
    options = ServeOptions(port=0, ws=transport)
    omni = DuplexOmni(ScriptedPipeline(script=model), warm_up=False)
    async with trio.open_nursery() as nursery:
        yield await nursery.start(partial(run_server, lambda: omni, options))
        nursery.cancel_scope.cancel()


@pytest.mark.e2e
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_conversation_over_tcp(transport: Transport) -> None:
    model = Script(replies={"count": "one two three four five six", "stop": "Fine."}, word_ms=200)
    with trio.fail_after(60):
        async with port(model, transport) as address, BreakableClient(address.ws_url, script=model) as client:
            account = await (
                script()
                .say("count")
                .expects_reply("one two three four five six")
                .after_hearing(ms=200)
                .interrupt("stop")
                .expects_cancelled()
                .drop()
                .wait(0.5)
                .resume()
                .expects_reply("Fine.")
                .play(client)
            )
    assert account.transcripts == ["count", "stop"]


async def test_a_cut_breaks_a_connection_that_is_being_made() -> None:
    made, other = trio.testing.memory_stream_pair()

    async def connect(_host: str, _port: int, _tls: bool) -> trio.abc.Stream:
        line.cut()
        await trio.lowlevel.checkpoint()
        return made

    line = Line(connect)
    with pytest.raises(OSError, match="the line was cut"):
        await line.connect("host", 80, False)
    assert await other.receive_some() == b""
