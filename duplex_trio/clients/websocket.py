"""`DuplexClient`: a duplex session over a WebSocket.

Four tasks carry it (see `run`). Outgoing messages meet the writer in a rendezvous channel, so that a caller
who is cancelled has sent a whole message or nothing: a cancelled write into the socket itself would leave
half a frame behind.

Each event of the session's journal is acknowledged, newest first and at most every `ACKNOWLEDGE_INTERVAL_S`,
because an acknowledgment covers all before it; an event that was seen already is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson
import trio
import trio_websocket

from duplex_trio.clients.base import DuplexClientBase
from duplex_trio.clients.config import SessionConfig
from duplex_trio.clients.errors import (
    DuplexClientError,
    DuplexConnectionError,
    DuplexProtocolError,
    DuplexSessionClosedError,
)
from duplex_trio.clients.run import run_socket
from duplex_trio.clients.transport import Connect, open_stream
from duplex_trio.clients.url import build_realtime_url

ACKNOWLEDGE_INTERVAL_S = 0.25
"""The server keeps unacknowledged events for a resume; this much more than a round trip costs it little
memory."""


class DuplexClient(DuplexClientBase):
    """A session with a server.

    ```python
    async with DuplexClient("ws://127.0.0.1:8000") as client:
        responses = client.responses()
        await client.create_item("What is a good breakfast?")
        await client.create_response()
        async for response in responses:
            async for pcm in response.audio():
                ...
    ```

    Args:
        url: of the server; see `build_realtime_url` for what is added to it.
        model: name of the model; the server's own when `None`.
        config: settings of the session.
        heartbeat_interval_s: how often to tell the server that this client lives; a server that says nothing
            at all for as long after a heartbeat is given up.
        handshake_timeout_s: how long connecting and opening the session may take together.
        api_key: sent as a bearer token.
        connect: opens the byte stream; TCP or TLS by default.

    Raises:
        ValueError: the URL is not one to connect to, or an interval is not positive.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        config: SessionConfig | None = None,
        heartbeat_interval_s: float = 30.0,
        handshake_timeout_s: float = 30.0,
        api_key: str | None = None,
        connect: Connect = open_stream,
    ) -> None:
        super().__init__(model=model, config=config, handshake_timeout_s=handshake_timeout_s)
        if heartbeat_interval_s <= 0 or handshake_timeout_s <= 0:
            raise ValueError("heartbeat_interval_s and handshake_timeout_s must be positive")
        self.url = build_realtime_url(url, model=model)
        self.heartbeat_interval_s = heartbeat_interval_s
        self._headers = [] if api_key is None else [(b"Authorization", f"Bearer {api_key}".encode())]
        self._connect = connect
        self._socket: trio_websocket.WebSocketConnection | None = None
        self._outbox, self._to_write = trio.open_memory_channel[str](0)
        self._all_written = trio.Event()
        self._messages_heard = 0
        self._last_seq = 0
        self._unacknowledged = trio.Event()

    # ------------------------------------------------------------------ hooks of the base class

    async def _open(self, nursery: trio.Nursery) -> None:
        self._socket = await nursery.start(run_socket, self.url, self._headers, self._connect, name="socket")
        nursery.start_soon(self._read, self._socket, name="reader")
        nursery.start_soon(self._write, self._socket, name="writer")
        nursery.start_soon(self._beat, name="heartbeat")
        nursery.start_soon(self._acknowledge, name="acknowledger")

    async def _send_command(self, command: Mapping[str, Any]) -> None:
        try:
            await self._outbox.send(orjson.dumps(command).decode())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            if self.closed:
                raise self._fanout.closed_error() from None
            raise DuplexSessionClosedError("connection_lost") from None

    async def _teardown(self) -> None:
        self._outbox.close()
        if self._socket is not None:
            await self._all_written.wait()
            await self._socket.aclose()

    def end(self, error: DuplexClientError | None) -> None:
        """The session is over: also release whoever waits to send."""
        super().end(error)
        self._to_write.close()

    # ------------------------------------------------------------------ tasks

    async def _read(self, socket: trio_websocket.WebSocketConnection) -> None:
        while True:
            try:
                message = await socket.get_message()
            except trio_websocket.ConnectionClosed as closed:
                self.transport_lost(_lost(closed))
                return
            self._messages_heard += 1
            if isinstance(message, str):
                self._receive(message)

    def _receive(self, message: str) -> None:
        try:
            raw = orjson.loads(message)
        except orjson.JSONDecodeError as error:
            self.end(
                DuplexProtocolError("invalid_json", f"the server sent a frame that is not JSON: {error}")
            )
            return
        seq = raw.get("server_event_seq") if isinstance(raw, dict) else None
        if isinstance(seq, int):
            if seq <= self._last_seq:
                return
            self._last_seq = seq
            self._unacknowledged.set()
        self.dispatch(raw)

    async def _write(self, socket: trio_websocket.WebSocketConnection) -> None:
        # A lost connection is reported by the reader, after what the server still said before.
        ends = (trio.EndOfChannel, trio.ClosedResourceError, trio_websocket.ConnectionClosed)
        with self._to_write, suppress(*ends):
            while True:
                await socket.send_message(await self._to_write.receive())
        self._all_written.set()

    async def _beat(self) -> None:
        heard = -1
        while not self.closed:
            await trio.sleep(self.heartbeat_interval_s)
            if self._messages_heard == heard:
                silent_s = self.heartbeat_interval_s
                self.end(
                    DuplexConnectionError(f"the server said nothing for {silent_s:g} s after a heartbeat")
                )
                return
            heard = self._messages_heard
            with trio.move_on_after(self.heartbeat_interval_s):
                if not await self._send_quietly({"type": "session.heartbeat"}):
                    return

    async def _acknowledge(self) -> None:
        while True:
            await self._unacknowledged.wait()
            self._unacknowledged = trio.Event()
            if not await self._send_quietly(
                {"type": "session.event_ack", "server_event_seq": self._last_seq}
            ):
                return
            await trio.sleep(ACKNOWLEDGE_INTERVAL_S)

    async def _send_quietly(self, command: Mapping[str, Any]) -> bool:
        try:
            await self.send(command)
        except DuplexClientError:
            return False
        return True


def _lost(closed: trio_websocket.ConnectionClosed) -> DuplexConnectionError:
    reason = closed.reason
    if reason is None:
        return DuplexConnectionError("the connection was lost")
    text = f"the connection was closed by the server: {reason.code} {reason.reason or reason.name}"
    return DuplexConnectionError(text, close_code=reason.code)
