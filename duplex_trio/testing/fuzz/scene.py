"""A server of its own for one run of messages: an application with a scripted model, and clients of it.

The client is the other side of the ASGI application, over memory channels, so that a whole conversation runs
on a mock clock. It keeps what it was sent, loses its connection when told to, and comes back to its session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson
import trio
from attrs import define, field, frozen

from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.testing.fuzz.vocabulary import CALL_REFERENCE, ITEM_REFERENCE, RESPONSE_REFERENCE

App = Callable[[Any, Any, Any], Any]
StartTask = Callable[..., None]

PATHS: Mapping[DialectName, str] = {
    "ga": "/v1/realtime",
    "beta": "/v1/realtime",
    "duplex": "/v1/duplex",
}


@frozen
class Received:
    """One event, and over which connection it came."""

    connection: int
    event: Mapping[str, Any]

    @property
    def type(self) -> str:
        """Its type."""
        return str(self.event["type"])


@define(eq=False)
class Connection:
    """One WebSocket, as the application sees it.

    Attributes:
        accepted: whether the upgrade was granted.
        closed: code and reason of the application's close frame.
        over: set when the application has returned.
    """

    to_app: trio.MemorySendChannel[Any]
    accepted: bool = False
    closed: tuple[int, str] | None = None
    over: trio.Event = field(factory=trio.Event)
    left: bool = False


class FuzzClient:
    """One client of one application, whose connections come and go.

    Args:
        app: the ASGI application.
        start: starts a task that outlives the call.
        dialect: what it asks for.

    Attributes:
        received: everything it was sent.
        last_seq: number of the last event it has.
    """

    def __init__(self, app: App, start: StartTask, dialect: DialectName) -> None:
        self.received: list[Received] = []
        self.connections: list[Connection] = []
        self.dialect = dialect
        self.last_seq = 0
        self._app = app
        self._start = start
        self._sent = 0

    # ------------------------------------------------------------------ connections

    @property
    def connection(self) -> Connection | None:
        """The one that it has, if it has one."""
        last = self.connections[-1] if self.connections else None
        return None if last is None or last.left or last.closed is not None or last.over.is_set() else last

    async def connect(self, query: str = "model=any") -> None:
        """Open a WebSocket, and give up the one there was."""
        self.leave()
        to_app, receive = trio.open_memory_channel[Any](1000)
        connection = Connection(to_app)
        self.connections.append(connection)
        headers = [(b"openai-beta", b"realtime=v1")] if self.dialect == "beta" else []
        scope = {
            "type": "websocket",
            "path": PATHS[self.dialect],
            "query_string": query.encode(),
            "headers": headers,
            "subprotocols": [],
            "client": ("127.0.0.1", len(self.connections)),
            "extensions": {},
        }
        to_app.send_nowait({"type": "websocket.connect"})
        self._start(self._serve, connection, scope, receive.receive, name="fuzz connection")
        await trio.lowlevel.checkpoint()

    async def _serve(self, connection: Connection, scope: Any, receive: Any) -> None:
        number = len(self.connections) - 1

        async def send(message: Mapping[str, Any]) -> None:
            await trio.lowlevel.checkpoint()
            match message["type"]:
                case "websocket.accept":
                    connection.accepted = True
                case "websocket.send":
                    self._take(number, orjson.loads(message["text"]))
                case "websocket.close":
                    connection.closed = (message.get("code", 1000), message.get("reason", ""))
                    if not connection.left:  # a server tells its application that the closing is complete
                        connection.left = True
                        connection.to_app.send_nowait({"type": "websocket.disconnect", "code": 1000})

        try:
            await self._app(scope, receive, send)
        finally:
            connection.over.set()

    def _take(self, number: int, event: Mapping[str, Any]) -> None:
        self.received.append(Received(number, event))
        seq = event.get("server_event_seq")
        if isinstance(seq, int):
            self.last_seq = max(self.last_seq, seq)

    def leave(self) -> None:
        """Lose the connection."""
        connection = self.connection
        if connection is not None:
            connection.left = True
            connection.to_app.send_nowait({"type": "websocket.disconnect", "code": 1006})

    async def come_back(self) -> None:
        """Ask for the session again over a new connection, with the token of the last one."""
        granted = [r.event for r in self.received if r.type in ("session.created", "session.resumed")]
        token = granted[-1].get("resume_token") if granted else None
        if token is None:
            await self.connect()
            return
        await self.connect("resume=1")
        session_id = granted[-1].get("session_id") or granted[-1]["session"]["id"]
        self.send_text(
            orjson.dumps(
                {
                    "type": "session.resume",
                    "session_id": session_id,
                    "resume_token": token,
                    "last_received_server_event_seq": self.last_seq,
                }
            ).decode()
        )

    # ------------------------------------------------------------------ messages

    def fresh_event_id(self) -> str:
        """An id that no message had before."""
        self._sent += 1
        return f"fuzz-{self._sent}"

    def send_text(self, text: str) -> None:
        """Send one text message; nothing without a connection."""
        self._put({"type": "websocket.receive", "text": text, "bytes": None})

    def send_bytes(self, data: bytes) -> None:
        """Send one binary message."""
        self._put({"type": "websocket.receive", "text": None, "bytes": data})

    def send(self, **message: Any) -> None:
        """Send a message."""
        self.send_text(orjson.dumps(message).decode())

    def _put(self, message: Any) -> None:
        if self.connection is not None:
            self.connection.to_app.send_nowait(message)

    def with_ids(self, text: str) -> str:
        """A text with ids that exist in the place of those that stand for them."""
        for reference, known in (
            (ITEM_REFERENCE, self._known("item", "id")),
            (RESPONSE_REFERENCE, self._known("response", "id")),
            (CALL_REFERENCE, self._known("item", "call_id")),
        ):
            if reference in text:
                text = text.replace(reference, known)
        return text

    def _known(self, holder: str, key: str) -> str:
        for received in reversed(self.received):
            held = received.event.get(holder)
            if isinstance(held, dict) and isinstance(held.get(key), str):
                return str(held[key])
        return "nobody"

    def since(self, position: int) -> Iterator[Mapping[str, Any]]:
        """The events from a position on."""
        return (received.event for received in self.received[position:])

    async def wait_for(
        self, event_type: str, count: int, *, after: int = 0, timeout_s: float = 120.0
    ) -> bool:
        """Wait until so many events of a type came from a position on; false if they do not in time."""
        with trio.move_on_after(timeout_s):
            while sum(event["type"] == event_type for event in self.since(after)) < count:  # noqa: ASYNC110
                await trio.sleep(0.05)
            return True
        return False
