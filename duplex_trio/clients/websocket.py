"""`DuplexClient`: a duplex session over a WebSocket, and over the next one when that is lost.

What is written and read, and when it is tried again, is decided by `resumption`; here is the way from there
to the sockets and back. The tasks are `run`'s. A command is handed over to the outbox synchronously, so a
caller who is cancelled has sent all of it or nothing; a single writer writes whole messages.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import orjson
import trio
import trio_websocket

from duplex_trio.clients.base import DuplexClientBase
from duplex_trio.clients.config import SessionConfig
from duplex_trio.clients.errors import (
    DuplexBufferFullError,
    DuplexClientError,
    DuplexConnectionError,
    DuplexProtocolError,
)
from duplex_trio.clients.playback import PlaybackCursor
from duplex_trio.clients.reconnect import ReconnectPolicy
from duplex_trio.clients.resumption import Phase, Resumption
from duplex_trio.clients.run import run_session
from duplex_trio.clients.transport import Connect, bearer_headers, open_stream
from duplex_trio.clients.url import build_realtime_url
from duplex_trio.protocol.duplex import encode_message

ACKNOWLEDGE_INTERVAL_S = 0.25
"""The server keeps unacknowledged events for a resume; this much more than a round trip costs it little
memory."""
HEARTBEAT_PATIENCE_S = 10.0
"""How long after a heartbeat something must have come; shorter where heartbeats are more frequent."""


class DuplexClient(DuplexClientBase):
    """A session with a server, which outlives lost connections if the server's model lets it.

    ```python
    async with DuplexClient("ws://127.0.0.1:8000") as client:
        responses = client.responses()
        await client.create_item("What is a good breakfast?")
        await client.create_response()
        async for response in responses:
            async for pcm in response.audio():
                ...
    ```

    Nobody has to do anything about a lost connection: events follow as if nothing had happened, none missing
    and none twice, and so do commands for the server. `connection.lost` and `connection.resumed` are told
    among the events. When the session cannot be resumed, `DuplexConnectionError` says why; when another
    client has taken it over, the events end and `DuplexSessionReplacedError` is raised for what is sent then.

    Opening a session is tried once.

    Args:
        url: of the server; see `build_realtime_url` for what is added to it.
        model: name of the model; the server's own when `None`.
        config: settings of the session.
        reconnect: what to do about a lost connection.
        heartbeat_interval_s: how often to tell the server that this client lives; a connection over which
            nothing comes for as long after that, 10 s at most, is given up.
        handshake_timeout_s: how long connecting and opening the session may take together.
        api_key: sent as a bearer token.
        connect: opens the byte stream; TCP or TLS by default.
        playback: what a listener hears; with it the client acknowledges by itself what has been heard.

    Raises:
        ValueError: the URL is not one to connect to, the key is not one to send, or an interval is not positive.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        config: SessionConfig | None = None,
        reconnect: ReconnectPolicy | None = None,
        heartbeat_interval_s: float = 30.0,
        handshake_timeout_s: float = 30.0,
        api_key: str | None = None,
        connect: Connect = open_stream,
        playback: PlaybackCursor | None = None,
    ) -> None:
        super().__init__(
            model=model, config=config, handshake_timeout_s=handshake_timeout_s, playback=playback
        )
        if heartbeat_interval_s <= 0:
            raise ValueError("heartbeat_interval_s must be positive")
        self.url = build_realtime_url(url, model=model)
        self.reconnect = reconnect or ReconnectPolicy()
        self.heartbeat_interval_s = heartbeat_interval_s
        self.headers = bearer_headers(api_key)
        self.connect = connect
        self._link = Resumption(self.reconnect)
        self._socket: trio_websocket.WebSocketConnection | None = None
        self._attempt_scope = trio.CancelScope()
        self._sending = trio.Lock()
        self._changed = trio.lowlevel.ParkingLot()
        self._to_write = trio.Event()
        self._flushed = trio.Event()
        self._messages_heard = 0

    @property
    def connected(self) -> bool:
        """Whether there is a connection that carries the session now."""
        return self._link.phase is Phase.CONNECTED and not self.closed

    # ------------------------------------------------------------------ hooks of the base class

    async def _open(self, nursery: trio.Nursery) -> None:
        await nursery.start(run_session, self, name="session")

    async def _send_command(self, command: Mapping[str, Any]) -> None:
        text = encode_message(command)
        outbox = self._link.outbox
        async with self._sending:
            while not outbox.room_for(len(text)) and not self.closed:
                if self.reconnect.when_full == "raise" and not self.connected:
                    raise DuplexBufferFullError(self.reconnect.buffer_bytes_max)
                self._link.ask_count()
                self._to_write.set()
                await self._changed.park()
            if self.closed:
                raise self._fanout.closed_error()
            outbox.put(text)
            self._to_write.set()

    async def _teardown(self) -> None:
        socket = self._socket  # which the end of the connection takes away meanwhile
        if socket is not None and self._link.phase in (Phase.OPENING, Phase.CONNECTED):
            await self._flushed.wait()
            await socket.aclose()

    def end(self, error: DuplexClientError | None, afterwards: DuplexClientError | None = None) -> None:
        """The session is over: also release whoever waits to send."""
        super().end(error, afterwards)
        self._link.end(error)
        self._wake()

    def _wake(self) -> None:
        self._to_write.set()
        self._changed.unpark_all()

    # ------------------------------------------------------------------ one connection; called by `run`

    def attach(self, socket: trio_websocket.WebSocketConnection) -> None:
        """A connection is there."""
        self._socket = socket
        self._flushed = trio.Event()
        if self._link.phase is Phase.AWAY:
            self._link.connected()

    async def read(self, socket: trio_websocket.WebSocketConnection) -> DuplexConnectionError:
        """Take what the server says, until the connection ends; returns why it did."""
        while True:
            try:
                message = await socket.get_message()
            except trio_websocket.ConnectionClosed as closed:
                return _lost(closed)
            self._messages_heard += 1
            if isinstance(message, str):
                self._receive(message)

    async def write(self, socket: trio_websocket.WebSocketConnection) -> None:
        """Write what there is to say. A lost connection is found by the reader, behind what the server still
        said."""
        try:
            while True:
                self._to_write = trio.Event()
                while (text := self._link.next_message()) is not None:
                    await socket.send_message(text.decode())
                    self._changed.unpark_all()
                if self.closed:
                    return
                await self._to_write.wait()
        except trio_websocket.ConnectionClosed:
            pass
        finally:
            self._flushed.set()

    async def beat(self) -> DuplexConnectionError:
        """Tell the server from time to time that the client is there, until nothing comes back."""
        patience_s = min(self.heartbeat_interval_s, HEARTBEAT_PATIENCE_S)
        await trio.sleep(self.heartbeat_interval_s)
        while True:
            heard = self._messages_heard
            self._link.beat()
            self._to_write.set()
            await trio.sleep(patience_s)
            if self._messages_heard == heard:
                return DuplexConnectionError(
                    f"the server said nothing for {patience_s:g} s after a heartbeat"
                )
            await trio.sleep(self.heartbeat_interval_s - patience_s)

    async def acknowledge(self) -> None:
        """Acknowledge what came, a few times a second."""
        while True:
            await trio.sleep(ACKNOWLEDGE_INTERVAL_S)
            if self._link.acknowledges:
                self._link.acknowledge()
                self._to_write.set()

    # ------------------------------------------------------------------ one after another; called by `run`

    def lose(self, error: DuplexConnectionError) -> bool:
        """The connection ended or could not be made; returns whether to make another one after `pause`."""
        link = self._link
        had_it = link.phase is Phase.CONNECTED
        self._socket = None
        again = link.lost(error, trio.current_time(), closing=self._closing)
        if again and had_it:
            self.dispatch({"type": "connection.lost", "message": str(error)})
        self._settle()
        return again

    async def pause(self) -> None:
        """Wait before the next attempt."""
        # How long is no secret: what is random about it keeps clients from coming back all at once.
        await trio.sleep(self.reconnect.delay_s(self._link.attempt, random.uniform))
        self._link.begin_attempt()

    def attempt_scope(self) -> trio.CancelScope:
        """What an attempt to resume the session has to be over in; unlimited once it has succeeded."""
        self._attempt_scope = trio.CancelScope(
            deadline=trio.current_time() + self.reconnect.attempt_timeout_s
        )
        return self._attempt_scope

    def _receive(self, message: str) -> None:
        link = self._link
        try:
            raw = orjson.loads(message)
            events = link.receive(raw, len(message), trio.current_time(), closing=self._closing)
        except orjson.JSONDecodeError as error:
            problem = f"the server sent a frame that is not JSON: {error}"
            self.end(DuplexProtocolError("invalid_json", problem))
            return
        except DuplexProtocolError as error:
            self.end(error)
            return
        if link.phase is Phase.CONNECTED:
            self._attempt_scope.deadline = float("inf")
        for event in events:
            self.dispatch(event)
        self._settle()

    def _settle(self) -> None:
        ending = self._link.ending
        if ending is not None and not self.closed:
            self.end(ending.error, ending.afterwards)
        self._wake()


def _lost(closed: trio_websocket.ConnectionClosed) -> DuplexConnectionError:
    reason = closed.reason
    if reason is None:
        return DuplexConnectionError("the connection was lost")
    text = f"the connection was closed by the server: {reason.code} {reason.reason or reason.name}"
    return DuplexConnectionError(text, close_code=reason.code, close_reason=reason.reason)
