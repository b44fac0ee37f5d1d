"""hypercorn's HTTP and WebSocket streams, mended where a public server needs it.

Stock hypercorn 0.18 leaves open, for WebSockets: data before the upgrade is answered (ends the whole
process), protocol errors (no close frame), messages over the limit (the peer may keep sending, and it is
kept), compression (the limit counts after inflation, so it is declined here), dead peers (pings are sent,
answers are not missed), and the closing handshake (TCP is closed before the peer's close frame arrives).
For both kinds of stream: an application that has returned no longer reads its queue, and whoever fills it
waits for ever.

`guards` puts these classes in place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import trio
from hypercorn.config import Config
from hypercorn.protocol.events import Body, Data, EndBody, Event, Request, Response, StreamClosed
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import ASGIWebsocketState, WSStream
from hypercorn.typing import AppWrapper, TaskGroup
from wsproto.connection import ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.frame_protocol import CloseReason

from duplex_trio.serving.http_config import ServerConfig, message_bytes_max
from duplex_trio.serving.responses import Response as HttpResponse
from duplex_trio.serving.upgrade import check_upgrade, early_data

Put = Callable[[Any], Awaitable[None]]


def _closing_inbox(app: AppWrapper) -> AppWrapper:
    """Close the queue of `app` when it returns, which sets free whoever waits to put something into it."""

    async def run(scope: Any, receive: Any, send: Any, sync_spawn: Any, call_soon: Any) -> None:
        try:
            await app(scope, receive, send, sync_spawn, call_soon)
        finally:
            channel = getattr(receive, "__self__", None)
            if isinstance(channel, trio.MemoryReceiveChannel):
                channel.close()

    return cast(AppWrapper, run)


def _guarded_put(put: Put, task_group: TaskGroup) -> Put:
    """Wrap the queue of an application: full never blocks a goodbye, and an ended application is no error."""

    async def deliver(message: Any) -> None:
        try:
            await put(message)
        except trio.BrokenResourceError:
            return  # The application has returned; nobody is left to tell.

    async def guarded(message: Any) -> None:
        if message["type"].endswith(".disconnect"):
            # This is often called by the application's own `send`, which cannot empty the queue meanwhile.
            task_group.spawn(deliver, message)
        else:
            await deliver(message)

    return guarded


class GuardedHTTPStream(HTTPStream):
    """An HTTP request whose application may answer without reading the body."""

    app_put: Any = None

    def __init__(self, app: AppWrapper, config: Config, *rest: Any) -> None:
        super().__init__(_closing_inbox(app), config, *rest)

    async def handle(self, event: Event) -> None:
        """Take one event of the connection."""
        await super().handle(event)
        if isinstance(event, Request) and self.app_put is not None:
            self.app_put = _guarded_put(self.app_put, self.task_group)


class GuardedWSStream(WSStream):
    """A WebSocket that fails one connection at a time, and says why with a close frame."""

    config: ServerConfig

    def __init__(self, app: AppWrapper, config: Config, *rest: Any) -> None:
        super().__init__(_closing_inbox(app), config, *rest)
        self._close_code = int(CloseReason.ABNORMAL_CLOSURE)
        self._failed = False
        self._lingering = False
        self._heard_at = trio.current_time()
        self._busy = False  # nothing is heard while the application is slow to take what came
        self._ping_scope = trio.CancelScope()

    async def handle(self, event: Event) -> None:
        """Take one event of the connection."""
        if self.closed:
            return
        if isinstance(event, Request):
            refusal = check_upgrade(event.headers) if event.http_version == "1.1" else None
            if refusal is not None:
                await self._refuse(refusal)
                return
            await super().handle(event)
            if self.app_put is None:  # refused with 400; hypercorn would leave the connection open
                await self.send(StreamClosed(stream_id=self.stream_id))
            else:
                self.app_put = _guarded_put(self.app_put, self.task_group)
                self.buffer.max_length = message_bytes_max(
                    self.scope["path"], self.config.websocket_max_message_size
                )
        elif isinstance(event, Body | Data):
            self._busy = True
            self._heard_at = trio.current_time()
            if not self.handshake.accepted:
                await self._refuse_early_data()
            elif not self._failed and self.connection.state is not ConnectionState.CLOSED:
                self.connection.receive_data(event.data)
                await self._handle_events()
            self._busy, self._heard_at = False, trio.current_time()
        elif isinstance(event, StreamClosed):
            self.closed = True
            self._ping_scope.cancel()
            await self._tell_gone()

    async def app_send(self, message: Any) -> None:
        """Take one message of the application; None means that it has returned."""
        if message is None and not self.closed and self.handshake.accepted:
            if self.state is ASGIWebsocketState.CONNECTED and not self._failed:
                await self._fail(CloseReason.INTERNAL_ERROR, "the session ended unexpectedly")
            else:
                self._linger_soon()
        else:
            await super().app_send(message)

    async def _refuse(self, response: HttpResponse) -> None:
        """Answer a faulty handshake, before any application is asked."""
        self.closed = True
        length = (b"content-length", str(len(response.body)).encode())
        headers = [*response.headers, length, (b"connection", b"close")]
        await self.send(Response(self.stream_id, headers=headers, status_code=response.status))
        await self.send(Body(self.stream_id, response.body))
        await self.send(EndBody(self.stream_id))
        await self.send(StreamClosed(self.stream_id))

    async def _tell_gone(self) -> None:
        if self.app_put is not None:
            await self.app_put({"type": "websocket.disconnect", "code": self._close_code})

    async def _refuse_early_data(self) -> None:
        """Drop a peer that talks before it was answered (RFC 6455 4.1), and only that peer."""
        refuse = self.state is ASGIWebsocketState.HANDSHAKE
        self.closed = True  # first: an accept that is under way must not follow the refusal
        await self._tell_gone()
        if refuse:
            await self._refuse(early_data())
        else:
            await self.send(StreamClosed(stream_id=self.stream_id))

    async def _accept(self, message: Any) -> None:
        self.handshake.extensions = None
        await super()._accept(message)

    async def _handle_events(self) -> None:
        for event in self.connection.events():
            if isinstance(event, TextMessage | BytesMessage):
                if not self._collect(event):
                    await self._fail(CloseReason.MESSAGE_TOO_BIG, "message too big")
                    return
                if event.message_finished:
                    message = self.buffer.to_message()
                    self.buffer.clear()
                    assert self.app_put is not None
                    await self.app_put(message)
            elif isinstance(event, Ping):
                await self._send_wsproto_event(event.response())
            elif isinstance(event, CloseConnection):
                await self._closed_by_peer(event)
                return

    def _collect(self, event: TextMessage | BytesMessage) -> bool:
        """Add a piece to the message; false if it is over the limit, counted in bytes of UTF-8."""
        if isinstance(event, TextMessage):
            size = len(event.data) if event.data.isascii() else len(event.data.encode())
        else:
            size = len(event.data)
        collected = self.buffer.length + size
        if collected > self.buffer.max_length:
            return False
        self.buffer.extend(event)
        self.buffer.length = collected
        return True

    async def _closed_by_peer(self, event: CloseConnection) -> None:
        state = self.connection.state
        if state is ConnectionState.OPEN:  # not a close frame: the parser gave up
            await self._fail(event.code, event.reason or "protocol error")
            return
        self._close_code = int(event.code)
        if state is ConnectionState.REMOTE_CLOSING:
            await self._send_wsproto_event(event.response())
        await self.send(StreamClosed(stream_id=self.stream_id))

    async def _fail(self, code: int, reason: str) -> None:
        """Send a close frame, tell the application, and read on into nothing until the peer has gone."""
        self._failed = True
        self.buffer.clear()
        self._close_code = int(code)
        await self._tell_gone()
        await self._send_wsproto_event(CloseConnection(code=code, reason=reason))
        self._linger_soon()

    def _linger_soon(self) -> None:
        if not self._lingering:
            self._lingering = True
            self.task_group.spawn(self._linger)

    async def _linger(self) -> None:
        """Keep TCP open for the peer's close frame.

        Closing a socket over unread data resets it, and the peer may then never see our own close frame.
        """
        latest = trio.current_time() + self.config.linger_max_s
        while not self.closed:
            until = min(latest, self._heard_at + self.config.linger_quiet_s)
            if trio.current_time() >= until:
                await self.send(StreamClosed(stream_id=self.stream_id))
                return
            await trio.sleep_until(until)

    async def _send_pings(self) -> None:
        interval = self.config.websocket_ping_interval
        assert interval is not None
        with self._ping_scope:
            while not self.closed:
                await trio.sleep(interval)
                silent_s = trio.current_time() - self._heard_at
                if not self._busy and silent_s > interval * self.config.pings_unanswered_max:
                    await self._fail(CloseReason.INTERNAL_ERROR, "keepalive ping timeout")
                    return
                await self._send_wsproto_event(Ping())
