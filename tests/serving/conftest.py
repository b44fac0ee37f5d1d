"""Servers for the transport under test: a real hypercorn on a port of its own, and ASGI over memory channels."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import hypercorn.trio
import orjson
import pytest
import trio
from attrs import Factory, define

from duplex_trio.engine import SessionEnd
from duplex_trio.engine.health import EngineHealth, StageHealth
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.serving.guards import install_guards
from duplex_trio.serving.http_config import ServerConfig
from duplex_trio.serving.listener import install_hook
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import make_app
from duplex_trio.testing.raw_websocket import RawWebSocket, upgrade_request
from duplex_trio.tracing import NO_SESSION_TRACE, SessionTrace

App = Callable[[Any, Any, Any], Awaitable[None]]


def with_lifespan(app: App) -> App:
    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        for _ in range(2):
            message = await receive()
            await send({"type": message["type"] + ".complete"})

    return outer


@define
class Server:
    """A running server, and the raw clients a test opened to it."""

    port: int
    clients: list[RawWebSocket] = Factory(list)

    async def connect(self) -> RawWebSocket:
        """Open TCP and say nothing."""
        client = await RawWebSocket.open(self.port)
        self.clients.append(client)
        return client

    async def upgrade(self, target: str = "/", headers: dict[str, str] | None = None) -> RawWebSocket:
        """Open a WebSocket."""
        client = await self.connect()
        await client.send(upgrade_request(target, headers))
        status, _ = await client.response_head()
        assert status == 101
        return client

    async def aclose(self) -> None:
        """Drop what is still open."""
        for client in self.clients:
            await client.aclose()


@asynccontextmanager
async def serving(app: App, **settings: Any) -> AsyncIterator[Server]:
    """Serve `app` until the block ends."""
    install_guards()
    install_hook()
    config = ServerConfig()
    config.bind = ["127.0.0.1:0"]
    for name, value in settings.items():
        assert hasattr(config, name)
        setattr(config, name, value)
    async with trio.open_nursery() as nursery:
        binds = await nursery.start(partial(hypercorn.trio.serve, with_lifespan(app), config))
        server = Server(int(binds[0].rsplit(":", 1)[1]))
        try:
            yield server
        finally:
            with trio.CancelScope(shield=True):
                await server.aclose()
            nursery.cancel_scope.cancel()


@pytest.fixture
def serve_app() -> Any:
    return serving


@define(eq=False)
class FakeHandle:
    """A session that remembers what it was told and ends when the test says so."""

    session_id: str
    dialect: str
    attachment: Any
    commands: list[Any] = Factory(list)
    refused: list[Any] = Factory(list)
    disconnects: int = 0
    generation: int = 0
    idle_timeout_s: float = 300.0
    resumable: bool = False
    crowded: bool = False
    trace: SessionTrace = NO_SESSION_TRACE
    changed: trio.Event = Factory(trio.Event)
    ended: trio.Event = Factory(trio.Event)
    end: SessionEnd = Factory(lambda: SessionEnd("closed"))

    def _note(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def ready(self) -> None:
        await trio.lowlevel.checkpoint()

    def submit(self, command: Any) -> None:
        self.commands.append(command)
        self._note()

    def refuse(self, error: Any, *, counts: bool = True) -> None:
        self.refused.append(error)
        self._note()

    def ack_events(self, seq: int) -> None:
        if seq > 0:
            raise RealtimeError("invalid_event_ack", "no event", param="server_event_seq")

    def disconnected(self, generation: int) -> None:
        self.disconnects += 1
        self.ended.set()
        self._note()

    async def wait_patience_changed(self) -> None:
        await trio.sleep_forever()

    async def wait_closed(self) -> SessionEnd:
        await self.ended.wait()
        return self.end

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(10):
            while not condition():
                await self.changed.wait()


@define(eq=False)
class FakeOmni:
    """An engine that opens sessions without a model, for what is the transport's business alone."""

    session_mode: str = "duplex"
    model_name: str = "test-model"
    stages: list[StageHealth] = Factory(list)
    refusal: RealtimeError | None = None
    capabilities: DuplexCapabilities = Factory(DuplexCapabilities)
    plugin: Any = Factory(lambda: SimpleNamespace(voices=("anna", "bert"), input_sample_rate_hz=16_000))
    opened: list[tuple[str, Any, Any]] = Factory(list)
    handles: list[FakeHandle] = Factory(list)

    async def open_session(
        self, *, dialect: str, attachment: Any, model: Any, patch: Any, trace_headers: Any
    ) -> FakeHandle:
        await trio.lowlevel.checkpoint()
        if self.refusal is not None:
            raise self.refusal
        self.opened.append((dialect, model, patch))
        handle = FakeHandle(f"session-{len(self.handles)}", dialect, attachment)
        self.handles.append(handle)
        return handle

    def trace_with(self, tracer: Any) -> None:
        pass

    def health(self) -> EngineHealth:
        return EngineHealth(stages=tuple(self.stages))

    def statistics(self) -> Any:
        return SimpleNamespace(sessions=len(self.handles), max_sessions=8, chats=0)

    def render_metrics(self) -> bytes:
        return b"duplex_sessions 0.0\n"


@define(eq=False)
class AsgiSocket:
    """The server's side of a WebSocket, played by the test over memory channels."""

    app: Any
    scope: dict[str, Any]
    to_app: trio.MemorySendChannel[Any]
    from_app: trio.MemoryReceiveChannel[Any]
    reads: trio.Event
    task_scope: trio.CancelScope = Factory(trio.CancelScope)

    def arrived(self) -> list[Any]:
        """What has come and was not looked at yet."""
        found = []
        while True:
            try:
                found.append(self.from_app.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                return found

    def stop_reading(self) -> None:
        """From now on whatever the application sends blocks."""
        self.reads = trio.Event()

    def read_again(self) -> None:
        """End that."""
        self.reads.set()

    async def text(self, text: str) -> None:
        await self.to_app.send({"type": "websocket.receive", "text": text, "bytes": None})

    async def binary(self, data: bytes) -> None:
        await self.to_app.send({"type": "websocket.receive", "text": None, "bytes": data})

    async def disconnect(self, code: int = 1001) -> None:
        await self.to_app.send({"type": "websocket.disconnect", "code": code})

    async def next(self) -> Any:
        return await self.from_app.receive()

    async def event(self) -> Any:
        message = await self.next()
        assert message["type"] == "websocket.send", message
        return orjson.loads(message["text"])

    async def accepted(self) -> Any:
        message = await self.next()
        assert message["type"] == "websocket.accept", message
        return message

    async def closed(self) -> tuple[int, str]:
        message = await self.next()
        assert message["type"] == "websocket.close", message
        return message["code"], message["reason"]


@pytest.fixture
def omni() -> FakeOmni:
    return FakeOmni()


@pytest.fixture
def app_for(omni: FakeOmni) -> Callable[..., Any]:
    """Make the application over the fake engine, with the given options."""

    def make(**options: Any) -> Any:
        return make_app(omni, ServeOptions(**options))  # type: ignore[arg-type]

    return make


async def connect(
    app: Any,
    nursery: trio.Nursery,
    target: str = "/v1/realtime",
    headers: dict[str, str] | None = None,
    subprotocols: tuple[str, ...] = (),
    *,
    extensions: dict[str, Any] | None = None,
) -> AsgiSocket:
    """Run an application for one WebSocket."""
    path, _, query = target.partition("?")
    scope = {
        "type": "websocket",
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
        "subprotocols": list(subprotocols),
        "client": ("127.0.0.1", 1),
        "extensions": {"websocket.http.response": {}} if extensions is None else extensions,
    }
    to_app, app_receive = trio.open_memory_channel[Any](100)
    app_send, from_app = trio.open_memory_channel[Any](1000)
    await to_app.send({"type": "websocket.connect"})

    reads = trio.Event()
    reads.set()
    socket = AsgiSocket(app, scope, to_app, from_app, reads)

    async def send(message: Any) -> None:
        await socket.reads.wait()
        await app_send.send(message)

    async def run() -> None:
        async with app_send:
            with socket.task_scope:
                await app(scope, app_receive.receive, send)

    nursery.start_soon(run)
    return socket


@pytest.fixture
def connect_to() -> Any:
    return connect


@pytest.fixture
def open_socket(app_for: Callable[..., Any], nursery: trio.Nursery) -> Callable[..., Awaitable[AsgiSocket]]:
    """Run the application for one WebSocket; the returned object plays the server."""

    async def opened(
        target: str = "/v1/realtime",
        headers: dict[str, str] | None = None,
        subprotocols: tuple[str, ...] = (),
        *,
        extensions: dict[str, Any] | None = None,
        **options: Any,
    ) -> AsgiSocket:
        app = app_for(**options)
        return await connect(app, nursery, target, headers, subprotocols, extensions=extensions)

    return opened


async def request(
    app: Any, method: str, path: str, headers: dict[str, str] | None = None, body: Any = ()
) -> Any:
    """Do one HTTP request; returns status, headers and body."""
    chunks = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in body]
    messages = iter([*chunks, {"type": "http.request", "body": b"", "more_body": False}])
    sent: list[Any] = []

    async def receive() -> Any:
        await trio.lowlevel.checkpoint()
        return next(messages)

    async def send(message: Any) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
        "query_string": b"",
        "client": None,
    }
    await app(scope, receive, send)
    start, *rest = sent
    return start["status"], dict(start["headers"]), b"".join(message.get("body", b"") for message in rest)


@pytest.fixture
def http() -> Any:
    return request
