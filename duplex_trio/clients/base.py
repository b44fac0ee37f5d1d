"""What every client offers, whatever carries its messages: a session, event streams, answers.

A transport implements three hooks (open, send one command, tear down), calls `dispatch` for every message of
the server and `end` when there will be no more. All state of a client is changed synchronously on the Trio
thread. The commands are `commands`'.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import trio

from duplex_trio.clients.acknowledger import PlaybackAcknowledger
from duplex_trio.clients.commands import DuplexCommands
from duplex_trio.clients.config import SessionConfig
from duplex_trio.clients.errors import (
    DuplexClientError,
    DuplexConnectionError,
    DuplexProtocolError,
    DuplexSessionClosedError,
)
from duplex_trio.clients.events import (
    ServerEvent,
    SessionClosed,
    SessionCreated,
    SessionEvent,
    SessionExpired,
    parse_event,
)
from duplex_trio.clients.fanout import SUBSCRIBER_EVENTS_MAX, EventStream, Fanout
from duplex_trio.clients.playback import PlaybackCursor
from duplex_trio.clients.responses import ResponseStream
from duplex_trio.clients.run import run_client
from duplex_trio.protocol import duplex as wire


class DuplexClientBase(DuplexCommands):
    """One duplex session as its user sees it: `async with` opens and closes it.

    Attributes:
        model: the model asked for.
        session_id: the server's id of the session, once open.
        session_info: the session object as the server last stated it.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        config: SessionConfig | None = None,
        handshake_timeout_s: float = 30.0,
        playback: PlaybackCursor | None = None,
    ) -> None:
        super().__init__(config or SessionConfig())
        if handshake_timeout_s <= 0:
            raise ValueError("handshake_timeout_s must be positive")
        self.model = model
        self.handshake_timeout_s = handshake_timeout_s
        self.session_id: str | None = None
        self.session_info: Mapping[str, Any] = {}
        self._fanout = Fanout()
        self._responses: ResponseStream | None = None
        self._acknowledger = None if playback is None else PlaybackAcknowledger(playback)
        self._running: AbstractAsyncContextManager[None] | None = None
        self._closing = False
        self._end_reason = "client_close"

    # ------------------------------------------------------------------ life

    async def __aenter__(self) -> Self:
        """Open the transport and the session.

        Raises:
            DuplexConnectionError: not reachable, refused, or no session within `handshake_timeout_s`.
            DuplexProtocolError: the server refused the session.
        """
        if self._running is not None:
            raise RuntimeError("a client is one session; make another one to open another")
        self._running = run_client(self)
        await self._running.__aenter__()
        return self

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[bool | None]:
        """Close the session and wait for that; after an exception say goodbye for at most a second."""
        assert self._running is not None
        return self._running.__aexit__(kind, error, trace)

    async def close(self, timeout_s: float = 20.0) -> None:
        """End the session and wait until the server said so. Does nothing when it is over already.

        Raises:
            DuplexConnectionError: the server did not confirm within `timeout_s`, or the connection broke
                meanwhile.
        """
        if self.closed:
            return
        self._closing = True
        events = self.events()
        with trio.move_on_after(timeout_s) as patience, events:
            await self._tell(wire.CloseSession())
            async for _event in events:
                pass
        if patience.cancelled_caught:
            raise DuplexConnectionError(
                f"the server did not confirm the end of the session within {timeout_s:g} s"
            )

    @property
    def closed(self) -> bool:
        """Whether the session is over."""
        return self._fanout.ended

    @property
    def connected(self) -> bool:
        """Whether there is a connection that carries the session now."""
        return self.session_id is not None and not self.closed

    @property
    def playback(self) -> PlaybackCursor | None:
        """What a listener has heard, if the client acknowledges that by itself."""
        return None if self._acknowledger is None else self._acknowledger.cursor

    async def open_transport(self, nursery: trio.Nursery) -> None:
        """Open the transport; its tasks live in `nursery`. Called once, by `run_client`."""
        await self._open(nursery)

    async def shake_hands(self) -> None:
        """Ask for the session and wait until it is there. Called once, by `run_client`."""
        with self.events() as events:
            await self._tell(wire.UpdateSession(patch=self.config.to_session_payload(self.model)))
            created = await events.wait_for(wire.SessionCreated.type)
        self.session_id = created.session_id

    async def acknowledge_playback(self) -> None:
        """Tell the server what has been heard as it is heard, until the session is over; nothing without a
        cursor. Called once, by `run_client`."""
        if self._acknowledger is not None:
            await self._acknowledger.run(self)

    async def leave(self) -> None:
        """Say goodbye if that has not happened yet, and let go of the transport. Called once, by
        `run_client`."""
        try:
            if not self.closed:
                with suppress(DuplexClientError):
                    await self._tell(wire.CloseSession())
        finally:
            self.end(None)
            await self._teardown()  # noqa: ASYNC102  it has to begin in any case, and need not end

    # ------------------------------------------------------------------ transport hooks

    @abstractmethod
    async def _open(self, nursery: trio.Nursery) -> None:
        """Make the transport ready to carry commands; raise `DuplexConnectionError` if that fails."""

    @abstractmethod
    async def _send_command(self, command: Mapping[str, Any]) -> None:
        """Take over one command, whole or not at all; raise what ended the session if there is none any more."""

    @abstractmethod
    async def _teardown(self) -> None:
        """Release the transport. May be cancelled, also before its first checkpoint."""

    def dispatch(self, raw: object) -> None:
        """Take one message of the server; what is no event ends the session. Never blocks."""
        try:
            event = parse_event(raw, received_at_s=trio.current_time())
            self._note(event)
            if self._acknowledger is not None:
                self._acknowledger.observe(event)
            self._fanout.publish(event)
            if self._responses is not None:
                self._responses.observe(event)
        except DuplexProtocolError as error:
            self.end(error)
            return
        if isinstance(event, SessionExpired):
            self.end(DuplexSessionClosedError(event.reason))
        elif isinstance(event, SessionClosed):
            self._end_reason = event.reason
            self.end(None)

    def end(self, error: DuplexClientError | None, afterwards: DuplexClientError | None = None) -> None:
        """The session is over, as expected (`None`) or because of `error`. The first call counts. Never
        blocks.

        Args:
            error: what iteration raises.
            afterwards: what everything else raises that needs a live session; by default `error`, or
                `DuplexSessionClosedError`.
        """
        self._fanout.end(error, afterwards or error or DuplexSessionClosedError(self._end_reason))
        if self._responses is not None:
            self._responses.end(self._fanout.error)

    def _note(self, event: ServerEvent) -> None:
        if isinstance(event, SessionEvent):
            self.session_info = event.session
        if isinstance(event, SessionCreated):
            self.session_id = event.session_id

    # ------------------------------------------------------------------ events and answers

    def events(self, *, events_max: int = SUBSCRIBER_EVENTS_MAX) -> EventStream:
        """Every event from now on. See `EventStream` for what happens to a subscriber that falls behind.

        Args:
            events_max: how many events this subscriber may be behind.
        """
        return self._fanout.subscribe(events_max)

    def __aiter__(self) -> EventStream:
        return self.events()

    def responses(self) -> ResponseStream:
        """The answers from the first call on, for a single consumer; each call returns the same stream."""
        if self._responses is None:
            self._responses = ResponseStream()
            if self.closed:
                self._responses.end(self._fanout.error)
        return self._responses

    async def wait_for(self, *types: str, timeout_s: float | None = None) -> ServerEvent:
        """The next event of one of the types. To wait for the answer to a command without a gap, open
        `events` first.

        Raises:
            DuplexProtocolError: an `error` event came first.
            DuplexClientError: the session ended first.
            trio.TooSlowError: `timeout_s` is over.
        """
        with trio.fail_after(float("inf") if timeout_s is None else timeout_s), self.events() as events:
            return await events.wait_for(*types)

    # ------------------------------------------------------------------ commands

    async def send(self, command: Mapping[str, Any]) -> str:
        """Send any client event and return its `event_id`, which is made up unless given.

        A caller that is cancelled meanwhile has sent the whole event or nothing of it. What is sent while a
        connection is down follows over the next one.

        Raises:
            DuplexSessionClosedError: the session is over (or the error that ended it).
            DuplexBufferFullError: the connection is down, too much waits for it already, and that is not to
                be waited for.
            TypeError: the event cannot be written as JSON.
            RuntimeError: the client was not opened.
        """
        if self._running is None:
            raise RuntimeError("open the client first, with `async with`")
        if self.closed:
            await trio.lowlevel.checkpoint()
            raise self._fanout.closed_error()
        event_id = command.get("event_id") or f"evt_{uuid4().hex}"
        await self._send_command({**command, "event_id": event_id})
        return str(event_id)
