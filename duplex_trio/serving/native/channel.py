"""A WebSocket over bytes of our own: handshake, messages, pings and the closing handshake.

The reader of the session comes for messages through `receive`, which takes everything that has arrived out of
the socket at once and hands it over piece by piece without waiting in between. Pings are answered there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

import structlog
import trio
from attrs import frozen

from duplex_trio.serving.channel import ChannelClosedError, Header, UpgradeRequest, WebSocketChannel
from duplex_trio.serving.native.frames import (
    BINARY,
    PING,
    BinaryMessage,
    FrameDecoder,
    PeerClose,
    Ping,
    Received,
    Violation,
    close_frame,
    encode_frame,
    frame_head,
    text_frame,
)
from duplex_trio.serving.native.pipes import Pipe
from duplex_trio.serving.native.writer import FrameWriter, StartTask
from duplex_trio.serving.responses import server_error
from duplex_trio.serving.upgrade import accepting_head, closing_response

log = structlog.get_logger("duplex_trio.serving")

ABNORMAL = 1006
INTERNAL_ERROR = 1011
TURNS_MAX = 16
"""Messages that are passed on, in either direction, before other tasks get their turn."""


@frozen(kw_only=True)
class ChannelLimits:
    """What a channel puts up with.

    Attributes:
        message_bytes_max: a longer message ends the connection with 1009.
        ping_interval_s: how often a client is pinged.
        pings_unanswered_max: how many intervals it may leave without a byte of any kind.
        send_timeout_s: how long it may take nothing of what is written.
        linger_quiet_s: how long its answer to a close frame is waited for while it says nothing ...
        linger_max_s: ... and in all.
    """

    message_bytes_max: int
    ping_interval_s: float
    pings_unanswered_max: int
    send_timeout_s: float
    linger_quiet_s: float
    linger_max_s: float


class NativeChannel(WebSocketChannel):
    """One connection whose request has been read.

    Args:
        pipe: carries its bytes; whoever opened it closes it.
        request: what was asked for.
        limits: what it puts up with.
        start_task: starts the task that finishes what a write left over.
    """

    def __init__(
        self, pipe: Pipe, request: UpgradeRequest, limits: ChannelLimits, start_task: StartTask
    ) -> None:
        self._pipe = pipe
        self._request = request
        self._limits = limits
        self._writer = FrameWriter(pipe, limits.send_timeout_s, start_task)
        self._decoder = FrameDecoder(limits.message_bytes_max)
        self._inbox: deque[Received] = deque()
        self._turns_in = 0
        self._turns_out = 0
        self._listening_since_s: float | None = None
        self._answered = False
        self._accepted = False
        self._close_sent = False
        self._peer_done = False
        self._end_code = ABNORMAL

    @property
    def request(self) -> UpgradeRequest:
        """What was asked for."""
        return self._request

    async def run(self, serve: Callable[[WebSocketChannel], Awaitable[None]]) -> None:
        """Let `serve` have the channel, and end the connection in order. What fails in it ends this peer only."""
        try:
            await serve(self)
        except* Exception as group:
            log.exception("client.serving_failed", client=self._request.client, exc_info=group)
        with trio.move_on_after(self._limits.linger_max_s):
            await self._say_goodbye()
            await self._linger()

    async def keep_alive(self) -> None:
        """Ping the client, and end the connection to one of which nothing is heard.

        Any byte is a sign of life. A client is not heard while its session lets nobody read, and is not missed
        then.
        """
        interval_s = self._limits.ping_interval_s
        while True:
            await trio.sleep(interval_s)
            if not self._accepted or self._close_sent:
                continue
            since_s = self._listening_since_s
            if since_s is not None:
                silent_s = trio.current_time() - since_s
                if silent_s > interval_s * self._limits.pings_unanswered_max:
                    self._end_code = INTERNAL_ERROR
                    self._put_close(INTERNAL_ERROR, "keepalive ping timeout")
                    self._pipe.stop_reading()
                    return
            if not self._writer.waiting:
                with suppress(trio.BrokenResourceError):  # the reader learns of it
                    self._writer.put(encode_frame(PING, b""))

    async def accept(self, subprotocol: str | None) -> None:
        """Answer the handshake."""
        self._answered = self._accepted = True
        with suppress(trio.BrokenResourceError):  # the first to read or to write learns of it
            self._writer.put(accepting_head(self._request.headers, subprotocol))
        await trio.lowlevel.checkpoint()

    async def deny(self, status: int, body: bytes, headers: Iterable[Header]) -> None:
        """Answer with an HTTP response."""
        self._answered = True
        with suppress(trio.BrokenResourceError):
            self._writer.put(closing_response(status, body, headers))
        await trio.lowlevel.checkpoint()

    async def receive(self) -> str | None:
        """Wait for the next message. Not always a checkpoint, but often enough."""
        while True:
            while self._inbox:
                if self._turns_in >= TURNS_MAX:
                    self._turns_in = 0
                    await trio.lowlevel.checkpoint()
                received = self._inbox.popleft()
                self._turns_in += 1
                if isinstance(received, str):
                    return received
                if isinstance(received, BinaryMessage):
                    return None
                self._act_on(received)
            self._turns_in = 0
            self._inbox.extend(self._decoder.feed(await self._listen()))

    async def send(self, text: bytes) -> None:
        """Write one text message. A checkpoint often enough, and whenever the client does not read."""
        if self._close_sent:
            raise trio.BrokenResourceError("the WebSocket is closed")
        self._writer.put(text_frame(text))
        await self._have_written()

    async def send_pair(self, text: bytes, data: bytes) -> None:
        """Write two messages in one piece: who is cancelled meanwhile leaves them to be finished, as all writes."""
        if self._close_sent:
            raise trio.BrokenResourceError("the WebSocket is closed")
        self._writer.put_together([text_frame(text) + frame_head(BINARY, len(data)), data])
        await self._have_written()

    async def _have_written(self) -> None:
        self._turns_out += 1
        if self._writer.waiting:
            await self._writer.wait_flushed()
        elif self._turns_out >= TURNS_MAX:
            await trio.lowlevel.checkpoint()
        else:
            return
        self._turns_out = 0

    async def close(self, code: int, reason: str) -> None:
        """Write the close frame."""
        self._put_close(code, reason)
        with suppress(trio.BrokenResourceError):
            await self._writer.wait_flushed()
        await trio.lowlevel.checkpoint()

    # ------------------------------------------------------------------ inner workings

    async def _listen(self) -> memoryview | bytes:
        """Wait for bytes; they are good until the next time anything waits."""
        self._listening_since_s = trio.current_time()
        try:
            data = await self._pipe.receive()
        except trio.BrokenResourceError:
            data = b""
        finally:
            self._listening_since_s = None
        if not data:
            self._peer_done = True
            raise ChannelClosedError(self._end_code)
        return data

    def _act_on(self, received: Ping | PeerClose | Violation) -> None:
        match received:
            case Ping(data):
                if not self._close_sent:
                    self._writer.put_pong(data)
            case PeerClose(code):
                self._peer_done = True
                self._put_close(code, "")
                raise ChannelClosedError(code)
            case Violation(code, reason):
                self._put_close(code, reason)
                raise ChannelClosedError(code)

    def _put_close(self, code: int, reason: str) -> None:
        """Write a close frame, unless there has been one."""
        if not self._close_sent:
            self._close_sent = True
            with suppress(trio.BrokenResourceError):
                self._writer.put(close_frame(code, reason))

    async def _say_goodbye(self) -> None:
        if not self._answered:
            response = server_error("the connection could not be served")
            await self.deny(response.status, response.body, response.headers)
        elif self._accepted and not self._peer_done:
            self._put_close(INTERNAL_ERROR, "the session ended unexpectedly")
        with suppress(trio.BrokenResourceError):
            await self._writer.wait_flushed()
        if not self._accepted:
            self._pipe.end_writing()

    async def _linger(self) -> None:
        """Read on into nothing until the peer closes or is silent.

        Closing a socket over unread data resets it, and the peer may then never see what was written last.
        """
        received: Iterable[Received] = tuple(self._inbox)
        while not self._peer_done and not self._writer.broken:
            if any(isinstance(item, PeerClose) for item in received):
                return
            with trio.move_on_after(self._limits.linger_quiet_s) as quiet, suppress(ChannelClosedError):
                received = self._decoder.feed(await self._listen())
            if quiet.cancelled_caught:
                return
