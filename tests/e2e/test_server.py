"""A real server with the scripted model on a loopback port, and clients that behave, misbehave and leave."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import orjson
import pytest
import trio
import trio_websocket
from trio_websocket import ConnectionClosed, WebSocketConnection

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.serving.address import AddressUnavailableError, ServerAddress
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.realtime import RealtimeConnection
from duplex_trio.serving.run import run_server
from duplex_trio.testing.raw_websocket import FIN, PING, TEXT, RawWebSocket, frame, upgrade_request

pytestmark = pytest.mark.e2e

Serve = Callable[..., Awaitable[ServerAddress]]


def make_omni(max_sessions: int = 8, word_ms: int = 20) -> DuplexOmni:
    replies = {"go on": " ".join(["on"] * 200)}
    script = Script(word_ms=word_ms, replies=replies, fail_on=frozenset({"fail"}))
    return DuplexOmni(ScriptedPipeline(script=script), max_sessions=max_sessions, warm_up=False)


@pytest.fixture(params=["native", "asgi"])
def serve(nursery: trio.Nursery, request: pytest.FixtureRequest) -> Serve:
    """Start a server; every test runs on both WebSocket paths."""

    async def start(*, max_sessions: int = 8, word_ms: int = 20, **options: Any) -> ServerAddress:
        factory = partial(make_omni, max_sessions, word_ms)
        settings = ServeOptions(port=0, ws=request.param, **options)
        address: ServerAddress = await nursery.start(partial(run_server, factory, settings))
        return address

    return start


@asynccontextmanager
async def connect(
    address: ServerAddress, query: str = "?model=m", path: str = "/v1/realtime", **options: Any
) -> AsyncIterator[WebSocketConnection]:
    url = address.ws_url.replace("/v1/realtime", path) + query
    async with trio_websocket.open_websocket_url(url, max_message_size=64 * 2**20, **options) as socket:
        try:
            yield socket
        finally:
            await socket.aclose()
            # A client of this library that was closed by its server may be left before TCP has ended.
            await trio.aclose_forcefully(socket._stream)


async def receive(socket: WebSocketConnection) -> dict[str, Any]:
    with trio.fail_after(30):
        event: dict[str, Any] = orjson.loads(await socket.get_message())
    return event


async def until(socket: WebSocketConnection, kind: str) -> dict[str, Any]:
    while (event := await receive(socket))["type"] != kind:
        assert event["type"] != "error", event
    return event


async def say(socket: WebSocketConnection, **message: Any) -> None:
    await socket.send_message(orjson.dumps(message).decode())


async def text_turn(socket: WebSocketConnection, text: str = "hello") -> str:
    """Ask in writing, and return what was answered."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    await say(socket, type="conversation.item.create", item=item)
    await say(socket, type="response.create")
    done = await until(socket, "response.done")
    assert done["response"]["status"] == "completed", done
    transcript: str = done["response"]["output"][0]["content"][0]["transcript"]
    return transcript


async def assert_alive(address: ServerAddress) -> None:
    """A new session finishes a turn."""
    async with connect(address) as socket:
        assert await text_turn(socket) == "You said: hello"


async def closed(socket: WebSocketConnection) -> tuple[int, str]:
    """Read until the server has closed."""
    with trio.fail_after(30), pytest.raises(ConnectionClosed) as ended:
        await drain(socket)
    reason = ended.value.reason
    assert reason is not None
    return reason.code, reason.reason or ""


async def drain(socket: WebSocketConnection) -> None:
    while True:
        await socket.get_message()


@pytest.mark.parametrize(
    ("path", "query", "headers", "delta"),
    [
        ("/v1/realtime", "", [], "response.output_audio.delta"),
        ("/v1/realtime", "?model=gpt-9", [], "response.output_audio.delta"),
        ("/v1/realtime", "?model=m", [("OpenAI-Beta", "realtime=v1")], "response.audio.delta"),
        ("/v1/realtime", "?duplex=1&model=m", [], "response.output_audio.delta"),
        ("/v1/duplex", "?model=m", [], "response.output_audio.delta"),
    ],
)
async def test_a_turn_is_spoken_in_every_dialect(
    serve: Serve, path: str, query: str, headers: Any, delta: str
) -> None:
    address = await serve()
    async with connect(address, query, path, extra_headers=headers) as socket:
        created = await receive(socket)
        assert created["type"] == "session.created"
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
        await say(socket, type="conversation.item.create", item=item)
        await say(socket, type="response.create")
        assert (await until(socket, delta))["delta"]
        assert (await until(socket, "response.done"))["response"]["status"] == "completed"


async def test_a_duplex_session_opens_with_its_update(serve: Serve) -> None:
    address = await serve()
    async with connect(address, "", "/v1/duplex") as socket:
        await say(socket, type="session.update", session={"instructions": "be brief"})
        created, updated = await receive(socket), await receive(socket)
        assert [created["type"], updated["type"]] == ["session.created", "session.updated"]
        assert created["session"]["instructions"] == "be brief"
        await say(socket, type="session.close", reason="enough")
        assert await closed(socket) == (1000, "enough")


async def test_an_update_that_cannot_be_is_refused_with_its_field(serve: Serve) -> None:
    address = await serve()
    async with connect(address, "", "/v1/duplex") as socket:
        await say(socket, type="session.update", session={"turn_detection": {"type": "nonsense"}})
        error = (await receive(socket))["error"]
        assert error["param"].endswith("turn_detection.type")
        assert await closed(socket) == (1008, error["code"])


async def test_silence_after_the_upgrade_times_out(serve: Serve) -> None:
    address = await serve(config_timeout_s=0.05)
    async with connect(address, "", "/v1/duplex") as socket:
        assert (await receive(socket))["error"]["code"] == "config_timeout"
        assert await closed(socket) == (1008, "config_timeout")


async def test_the_sessions_are_counted_and_a_client_that_leaves_makes_room(serve: Serve) -> None:
    address = await serve(max_sessions=1)
    async with connect(address) as first:
        assert (await receive(first))["type"] == "session.created"
        async with connect(address) as second:
            error = (await receive(second))["error"]
            assert (error["type"], error["code"]) == ("rate_limit_error", "resource_exhausted")
            assert (await closed(second))[0] == 1013
        assert await text_turn(first) == "You said: hello"
    with trio.fail_after(30):
        while (await http(address, "/metrics")).find("duplex_sessions 0.0") < 0:
            await trio.lowlevel.checkpoint()
    await assert_alive(address)


async def test_a_client_that_vanishes_mid_answer_makes_room(serve: Serve) -> None:
    address = await serve(max_sessions=1)
    vanishing = await RawWebSocket.open(address.port)
    await vanishing.send(upgrade_request("/v1/realtime"))
    await vanishing.response_head()
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on"}]}
    await vanishing.send_text(orjson.dumps({"type": "conversation.item.create", "item": item}).decode())
    await vanishing.send_text('{"type":"response.create"}')
    while b"response.output_audio.delta" not in (received := await vanishing.receive()).payload:  # type: ignore[union-attr]
        assert received is not None
    await vanishing.aclose()
    with trio.fail_after(30):
        while (await http(address, "/metrics")).find("duplex_sessions 0.0") < 0:
            await trio.lowlevel.checkpoint()
    await assert_alive(address)


async def test_a_client_that_vanishes_mid_answer_comes_back_to_it(serve: Serve) -> None:
    """Over TCP that breaks without a word, and over TCP that is still there: each event comes once, in order."""
    address = await serve(max_sessions=1)
    seq, said = 0, ""

    async def take(socket: WebSocketConnection) -> dict[str, Any]:
        nonlocal seq, said
        event = await receive(socket)
        assert event["type"] != "error", event
        if "server_event_seq" in event:
            seq += 1
            assert event["server_event_seq"] == seq
        if event["type"] == "response.output_audio_transcript.delta":
            said += event["delta"]
        return event

    async def resume(socket: WebSocketConnection, session_id: str, token: str) -> str:
        await say(
            socket,
            type="session.resume",
            session_id=session_id,
            resume_token=token,
            last_received_server_event_seq=seq,
        )
        resumed = await take(socket)
        assert resumed["type"] == "session.resumed"
        return str(resumed["resume_token"])

    async with connect(address, "?resume=1", "/v1/duplex") as first:
        await say(first, type="session.update", session={})
        created = await take(first)
        session_id, token = created["session"]["id"], created["resume_token"]
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on"}]}
        await say(first, type="conversation.item.create", item=item)
        await say(first, type="response.create")
        while (await take(first))["type"] != "response.output_audio.delta":
            pass
        await trio.aclose_forcefully(first._stream)
    async with connect(address, "?resume=1", "/v1/duplex") as second:
        token = await resume(second, session_id, token)
        while (await take(second))["type"] != "response.output_audio.delta":
            pass
        async with connect(address, "?resume=1", "/v1/duplex") as third:
            await resume(third, session_id, token)
            assert await closed(second) == (1000, "session_replaced")
            while (event := await take(third))["type"] != "response.done":
                pass
            assert event["response"]["status"] == "completed"
            assert said == " ".join(["on"] * 200)
            await say(third, type="session.close")
            assert await closed(third) == (1000, "client_close")


async def http(address: ServerAddress, path: str, method: str = "GET", head: str = "") -> str:
    """Do one HTTP request; returns the whole response."""
    stream = await trio.open_tcp_stream("127.0.0.1", address.port)
    async with stream:
        await stream.send_all(
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}\r\n".encode()
        )
        data = b"".join([bytes(chunk) async for chunk in stream])
    return data.decode()


async def test_http_routes(serve: Serve) -> None:
    address = await serve()
    health = await http(address, "/health")
    assert health.startswith("HTTP/1.1 200")
    assert '"status":"ready","model":"scripted","session_mode":"duplex"' in health
    assert '"id":"scripted"' in await http(address, "/v1/models")
    assert "duplex_sessions_opened_total" in await http(address, "/metrics")
    assert (await http(address, "/nothing", "POST")).startswith("HTTP/1.1 404")
    assert (await http(address, "/health", "POST")).startswith("HTTP/1.1 405")
    assert "server:" not in health.lower()


async def test_the_unavailable_websocket_explains_itself(serve: Serve) -> None:
    address = await serve()
    async with connect(address, "", "/v1/realtime/video") as socket:
        assert (await receive(socket))["error"]["code"] == "unsupported"
        assert await closed(socket) == (1008, "unsupported")


KEY = "sk-test"
BEARER = f"Bearer {KEY}"
PROTOCOLS = "realtime, openai-insecure-api-key."


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Authorization": BEARER}, 101, None),
        ({"Sec-WebSocket-Protocol": PROTOCOLS + KEY}, 101, None),
        ({}, 401, "invalid_api_key"),
        ({"Authorization": "Bearer wrong"}, 401, "invalid_api_key"),
        ({"Sec-WebSocket-Protocol": PROTOCOLS + "wrong"}, 401, "invalid_api_key"),
        ({"Authorization": BEARER, "Origin": "https://evil.example"}, 403, "origin_not_allowed"),
        ({"Authorization": BEARER, "Origin": "http://localhost:3000"}, 101, None),
    ],
)
async def test_keys_and_origins_are_checked_before_the_upgrade(
    serve: Serve, headers: dict[str, str], status: int, code: str | None
) -> None:
    address = await serve(api_keys=(KEY,))
    client = await RawWebSocket.open(address.port)
    await client.send(upgrade_request("/v1/realtime", headers))
    answered, answer_headers = await client.response_head()
    assert answered == status
    if code is not None:
        body = await client.read(int(answer_headers["content-length"]))
        assert body is not None
        assert orjson.loads(body)["error"]["code"] == code
        assert await client.at_end()
    await client.aclose()
    assert (await http(address, "/health")).startswith("HTTP/1.1 200")


async def test_a_browser_gets_realtime_and_its_key_is_not_echoed(serve: Serve) -> None:
    address = await serve()
    client = await RawWebSocket.open(address.port)
    await client.send(
        upgrade_request(
            "/v1/realtime", {"Sec-WebSocket-Protocol": "realtime, openai-insecure-api-key.sk-test"}
        )
    )
    status, headers = await client.response_head()
    assert (status, headers["sec-websocket-protocol"]) == (101, "realtime")
    await client.aclose()


async def test_too_much_is_an_error_and_far_too_much_is_1009(serve: Serve) -> None:
    address = await serve()
    async with connect(address) as socket:
        await until(socket, "session.created")
        await socket.send_message('{"type":"session.heartbeat","x":"' + "x" * (15 * 2**20) + '"}')
        while (event := await receive(socket))["type"] != "error":
            pass
        assert event["error"]["code"] == "event_too_large"
        assert await text_turn(socket) == "You said: hello"
        with trio.fail_after(30):
            await socket.send_message("x" * (16 * 2**20 + 1))
            assert (await closed(socket))[0] == 1009
    await assert_alive(address)


async def test_a_binary_frame_is_an_error_and_the_session_lives(serve: Serve) -> None:
    address = await serve()
    async with connect(address) as socket:
        await socket.send_message(b"\x00\x01\x02")
        while (event := await receive(socket))["type"] != "error":
            pass
        assert (event["error"]["code"], event["error"]["type"]) == ("bad_event", "invalid_request_error")
        assert await text_turn(socket) == "You said: hello"


@pytest.mark.parametrize("early", [b"x", frame(FIN | TEXT, b"early")], ids=["a byte", "a frame"])
async def test_a_byte_after_the_upgrade_request_does_not_stop_an_answer(serve: Serve, early: bytes) -> None:
    address = await serve(word_ms=100)
    async with connect(address) as talking:
        item = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "a b c d e f g"}],
        }
        await say(talking, type="conversation.item.create", item=item)
        await say(talking, type="response.create")
        await until(talking, "response.output_audio.delta")
        rude = await RawWebSocket.open(address.port)
        await rude.send(upgrade_request("/v1/realtime?model=m") + early)
        with trio.fail_after(30):
            assert await rude.at_end()
        await rude.aclose()
        done = await until(talking, "response.done")
        assert done["response"]["status"] == "completed"
    await assert_alive(address)


@pytest.mark.parametrize(
    "sent",
    [frame(TEXT, b"ab") + frame(FIN | TEXT, b"cd"), frame(PING, b""), frame(FIN | TEXT, b"\xff\xfe")],
    ids=["a message in a message", "a fragmented ping", "bad UTF-8"],
)
async def test_a_protocol_error_ends_its_session_alone(serve: Serve, sent: bytes) -> None:
    address = await serve(max_sessions=1)
    client = await RawWebSocket.open(address.port)
    await client.send(upgrade_request("/v1/realtime"))
    await client.response_head()
    await client.send(sent)
    with trio.fail_after(30):
        while (received := await client.receive()) is not None and received.opcode != 0x8:
            pass
        assert received is not None
        assert received.close_code in (1002, 1007)
        while (await http(address, "/metrics")).find("duplex_sessions 0.0") < 0:
            await trio.lowlevel.checkpoint()
    await client.aclose()
    await assert_alive(address)


async def test_a_model_that_fails_is_an_error_and_no_clean_close(serve: Serve) -> None:
    address = await serve()
    async with connect(address) as socket, connect(address) as other:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fail"}]}
        await say(socket, type="conversation.item.create", item=item)
        await say(socket, type="response.create")
        while (event := await receive(socket))["type"] != "error":
            pass
        assert event["error"]["type"] == "server_error"
        done = await until(socket, "response.done")
        assert done["response"]["status"] == "failed"
        assert await text_turn(socket) == "You said: fail hello"  # the session has not ended
        assert await text_turn(other) == "You said: hello"


async def test_a_session_that_breaks_is_1011(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("as asked")

    address = await serve()
    async with connect(address) as socket, connect(address) as other:
        await until(socket, "session.created")
        monkeypatch.setattr(RealtimeConnection, "_take", broken)
        await say(socket, type="session.heartbeat")
        assert (await closed(socket))[0] == 1011
        monkeypatch.undo()
        assert await text_turn(other) == "You said: hello"


async def test_a_taken_port_is_found_before_anything_is_loaded(serve: Serve) -> None:
    address = await serve()

    def never() -> DuplexOmni:
        raise AssertionError("the model must not be loaded")

    with pytest.raises(
        AddressUnavailableError, match=f"cannot listen on 127.0.0.1:{address.port}: Address already in"
    ):
        await run_server(never, ServeOptions(port=address.port))


async def test_an_unknown_host_is_said() -> None:
    with pytest.raises(AddressUnavailableError, match=r"cannot listen on no\.such\.host\.invalid:0"):
        await run_server(make_omni, ServeOptions(host="no.such.host.invalid", port=0))


async def test_cancelling_the_server_frees_its_port(nursery: trio.Nursery) -> None:
    scope = trio.CancelScope()
    served: list[ServerAddress] = []

    async def once(port: int, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        with scope:
            await run_server(make_omni, ServeOptions(port=port), task_status=task_status)

    served.append(await nursery.start(once, 0))
    async with connect(served[0]) as socket:
        assert (await receive(socket))["type"] == "session.created"
        scope.cancel()
        assert (await closed(socket))[0] in (1001, 1006)
    again = partial(run_server, make_omni, ServeOptions(port=served[0].port))
    assert (await nursery.start(again)).port == served[0].port
