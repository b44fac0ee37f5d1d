"""The server without a port: what clients get from it, how it breaks, and what is left behind."""

import orjson
import pytest
import trio
import trio_websocket
from trio.testing import MockClock

from duplex_trio.clients import DuplexClient, DuplexConnectionError
from duplex_trio.models.scripted.script import Script
from duplex_trio.serving.options import ServeOptions
from duplex_trio.testing import scripted_omni, serve_in_memory

TARGET = "/v1/realtime?duplex=1&model=scripted"


async def test_a_client_holds_a_conversation(autojump_clock: MockClock) -> None:
    script = Script(replies={"hello": "hello yourself"})
    async with scripted_omni(script) as omni, serve_in_memory(omni) as server:
        async with DuplexClient(server.url, connect=server.connect) as client:
            responses = client.responses()
            await client.create_item("hello")
            await client.create_response()
            response = await anext(responses)
            await response.wait()
            assert response.transcript == "hello yourself"
        await server.closed()
        assert server.connections == 0
        assert omni.statistics().sessions == 0


async def test_any_websocket_client_can_be_used(autojump_clock: MockClock) -> None:
    async with scripted_omni() as omni, serve_in_memory(omni) as server, trio.open_nursery() as nursery:
        stream = await server.connect()
        socket = await trio_websocket.wrap_client_stream(nursery, stream, "in.memory", TARGET)
        assert orjson.loads(await socket.get_message())["type"] == "session.created"
        await socket.aclose()
        await server.closed()


async def test_http_goes_the_same_way(autojump_clock: MockClock) -> None:
    options = ServeOptions(api_keys=("secret",))
    async with scripted_omni() as omni, serve_in_memory(omni, options) as server:
        async with server.http_client() as http:
            assert (await http.get("/health")).status_code == 200
            assert (await http.get("/v1/models")).status_code == 401
            answer = await http.get("/v1/models", headers={"Authorization": "Bearer secret"})
            assert answer.json()["data"][0]["id"] == "scripted"
        with pytest.raises(DuplexConnectionError, match="API key"):
            async with DuplexClient(server.url, connect=server.connect):
                pass


async def test_a_dropped_client_comes_back(autojump_clock: MockClock) -> None:
    async with (
        scripted_omni() as omni,
        serve_in_memory(omni) as server,
        DuplexClient(server.url, connect=server.connect) as client,
    ):
        events = client.events()
        server.drop()
        await server.closed()
        await events.wait_for("connection.lost")
        await events.wait_for("connection.resumed")
        await client.create_item("hello")
        await client.create_response()
        await events.wait_for("response.done")


async def test_nothing_is_left_when_the_block_ends(autojump_clock: MockClock) -> None:
    async with scripted_omni() as omni, trio.open_nursery() as clients:
        async with serve_in_memory(omni) as server:
            stream = await server.connect()
            socket = await trio_websocket.wrap_client_stream(clients, stream, "in.memory", TARGET)
            await socket.get_message()
            assert server.connections == 1
        assert server.connections == 0
        await trio.testing.wait_all_tasks_blocked()
        assert socket.closed
        with pytest.raises(OSError, match="is over"):
            await server.connect()


async def test_an_error_of_the_block_comes_out_as_it_is(autojump_clock: MockClock) -> None:
    with pytest.raises(ZeroDivisionError):
        async with scripted_omni() as omni, serve_in_memory(omni):
            raise ZeroDivisionError


async def test_sessions_outlive_the_network(autojump_clock: MockClock) -> None:
    """The network breaks, and the session waits for its client."""
    async with scripted_omni() as omni, serve_in_memory(omni) as server, trio.open_nursery() as nursery:
        stream = await server.connect()
        socket = await trio_websocket.wrap_client_stream(nursery, stream, "in.memory", TARGET)
        await socket.get_message()
        server.drop()
        await server.closed()
        assert omni.statistics().sessions == 1
        nursery.cancel_scope.cancel()
