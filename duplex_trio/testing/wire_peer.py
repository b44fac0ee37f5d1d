"""The server's side of one WebSocket in memory, for tests of clients: says what a test tells it to, step by
step.

It knows frames and JSON, nothing of sessions: a client is tested against what the wire may bring, also what
our own server would never send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
import trio
import trio.testing
import trio_websocket

from duplex_trio.clients.transport import Connect

_BACKGROUND = ("session.event_ack", "session.heartbeat")


class WirePeer:
    """What a script of a test holds: the accepted socket.

    Attributes:
        request: the upgrade request, for its path and headers.
        received: every command so far, in order.
    """

    def __init__(
        self,
        request: trio_websocket.WebSocketRequest,
        socket: trio_websocket.WebSocketConnection,
        stream: Any,
    ) -> None:
        self.request = request
        self.received: list[dict[str, Any]] = []
        self._socket = socket
        self._stream: trio.abc.Stream = stream
        self._events = 0

    async def receive(self, *types: str) -> dict[str, Any]:
        """The next command of one of `types`; without types the next that is no heartbeat or
        acknowledgment."""
        while True:
            command = orjson.loads(await self._socket.get_message())
            self.received.append(command)
            if command["type"] in types or not (types or command["type"] in _BACKGROUND):
                return dict(command)

    async def send(self, event_type: str, **fields: Any) -> None:
        """Send one event; `event_id` is made up unless given."""
        self._events += 1
        await self.send_raw(
            orjson.dumps({"type": event_type, "event_id": f"event_{self._events}", **fields}).decode()
        )

    async def send_raw(self, frame: str | bytes) -> None:
        """Send one frame as it is."""
        await self._socket.send_message(frame)

    async def open_session(
        self, session: Mapping[str, Any] | None = None, *, token: str | None = None
    ) -> dict[str, Any]:
        """Answer the client's first command with `session.created` and `session.updated`; return that
        command. With a `token` the session can be resumed."""
        command = await self.receive("session.update")
        body = {"id": "duplex-1", **(session or {})}
        await self.send("session.created", session=body, **({} if token is None else {"resume_token": token}))
        await self.send("session.updated", session=body, server_event_seq=1)
        return command

    async def resume_session(self, count: int) -> dict[str, Any]:
        """Answer the client's `session.resume`, saying that `count` of its commands had arrived; return it."""
        command = await self.receive("session.resume")
        await self.send(
            "session.resumed",
            session_id="duplex-1",
            session={"id": "duplex-1"},
            resume_token=f"{command['resume_token']}, renewed",
            client_event_count=count,
        )
        return command

    async def close_session(self) -> None:
        """Wait for `session.close`, confirm it and close the socket as a server does."""
        command = await self.receive("session.close")
        await self.send("session.closed", reason=command.get("reason", "client_close"))
        await self.close(1000, "client_close")

    async def close(self, code: int, reason: str | None = None) -> None:
        """Close the WebSocket with a code."""
        await self._socket.aclose(code, reason)

    async def hang_up(self) -> None:
        """End the byte stream without a word."""
        await trio.aclose_forcefully(self._stream)


Script = Callable[[WirePeer], Awaitable[None]]


def scripted(nursery: trio.Nursery, script: Script, *, lockstep: bool = False) -> Connect:
    """A `connect` for `DuplexClient` whose server runs `script` in `nursery`, once for each connection.

    The socket is closed when the script ends. With `lockstep` the stream holds nothing, so that a side that
    does not read makes the other one wait; without it nobody ever waits to send.
    """

    async def serve(stream: trio.abc.Stream) -> None:
        try:
            request = await trio_websocket.wrap_server_stream(nursery, stream)
            socket = await request.accept()
        except (trio_websocket.ConnectionClosed, trio_websocket.HandshakeError):
            return  # the client left before it was there
        peer = WirePeer(request, socket, stream)
        try:
            await script(peer)
        except trio_websocket.ConnectionClosed:
            # The client left; what it said before is in `received`.
            return
        finally:
            with trio.move_on_after(1):
                await socket.aclose()

    async def connect(_host: str, _port: int, _tls: bool) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        pair = trio.testing.lockstep_stream_pair if lockstep else trio.testing.memory_stream_pair
        client_side, server_side = pair()
        nursery.start_soon(serve, server_side, name="wire peer")
        return client_side

    return connect
