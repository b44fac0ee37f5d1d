"""`InlineDuplexClient`: a duplex session with an engine in the same Trio program, without a socket.

Both ways messages are what they would be on a socket: commands are read by the codec that sockets use, events
are written by the one that writes to sockets. So nothing can be said here that a server would refuse, and
what is heard is JSON of its own that the session does not change any more. For 20 ms of sound that costs about
10 microseconds, a two-thousandth of the time that it lasts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import orjson
import trio

from duplex_trio.clients.base import DuplexClientBase
from duplex_trio.clients.config import SessionConfig
from duplex_trio.clients.errors import DuplexSessionClosedError, closed_by_server
from duplex_trio.clients.playback import PlaybackCursor
from duplex_trio.engine import Attachment
from duplex_trio.entrypoints.client_messages import read_text, refusal_close_code, take_message
from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import (
    DuplexEvent,
    ErrorEvent,
    RealtimeError,
    SessionEventAck,
    UpdateSession,
    decode_command,
    encode_message,
)

if TYPE_CHECKING:
    from duplex_trio.engine import DuplexSessionHandle
    from duplex_trio.entrypoints.duplex_omni import DuplexOmni


class InlineDuplexClient(DuplexClientBase):
    """A session with a running `DuplexOmni`; the same as `DuplexClient` otherwise.

    ```python
    async with omni.running(), InlineDuplexClient(omni) as client:
        responses = client.responses()
        await client.create_item("What is a good breakfast?")
        await client.create_response()
        async for response in responses:
            async for pcm in response.audio():
                ...
    ```

    There is no connection that could be lost, so nothing is resumed, numbered or kept for a resume. Nobody
    sends heartbeats either: a session to which nothing is said is given up after the engine's `idle_ttl_s`,
    unless it is told `heartbeat()` from time to time.

    Args:
        omni: the engine, running.
        model: name of the model, which the session echoes; the engine's own when `None`.
        config: settings of the session.
        handshake_timeout_s: how long opening the session may take.
        playback: what a listener hears; with it the client acknowledges by itself what has been heard.

    Raises:
        ValueError: `handshake_timeout_s` is not positive.
    """

    def __init__(
        self,
        omni: DuplexOmni,
        *,
        model: str | None = None,
        config: SessionConfig | None = None,
        handshake_timeout_s: float = 30.0,
        playback: PlaybackCursor | None = None,
    ) -> None:
        super().__init__(
            model=model, config=config, handshake_timeout_s=handshake_timeout_s, playback=playback
        )
        self._omni = omni
        self._attachment = _InlineAttachment(self)
        self._handle: DuplexSessionHandle | None = None
        self._opened = trio.Event()
        self._sending = trio.Lock()

    # ------------------------------------------------------------------ hooks of the base class

    async def _open(self, nursery: trio.Nursery) -> None:
        await nursery.start(self._watch, name="watch")

    async def _send_command(self, command: Mapping[str, Any]) -> None:
        text = encode_message(command)
        async with self._sending:
            if self._handle is None:
                if command["type"] != UpdateSession.type:
                    # Said by a client that gave up while it opened, or before it was open.
                    raise DuplexSessionClosedError("not open")
                await self._open_session(text)
                return
            await self._handle.ready()
            if self.closed:
                raise self._fanout.closed_error()
            message = read_text(self._handle, text)
            # Events may be acknowledged as over a socket; here nothing is kept that it would free.
            if message is not None and not isinstance(message, SessionEventAck):
                take_message(self._handle, message)

    async def _teardown(self) -> None:
        handle = self._handle
        try:
            if handle is not None:
                if not handle.closing:
                    handle.disconnected()
                await handle.wait_closed()
        finally:
            self._attachment.lose()

    # ------------------------------------------------------------------ the session's side

    async def _watch(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Wait for the session's end, and hang up if the session could not do so itself."""
        task_status.started()
        await self._opened.wait()
        if self._handle is not None:
            end = await self._handle.wait_closed()
            self.hang_up(end.code, end.reason)

    async def _open_session(self, text: bytes) -> None:
        """Open a session with the first command, whose settings it has from the beginning."""
        try:
            update = decode_command(text)
            assert isinstance(update, UpdateSession)
            try:
                self._handle = await self._omni.open_session(
                    dialect=Dialect.DUPLEX.session_name,
                    attachment=self._attachment,
                    model=self.model or self._omni.model_name,
                    patch=update.patch,
                )
            except RealtimeError as error:
                raise error.with_event_id(update.event_id) from None
        except RealtimeError as error:
            self.hear(ErrorEvent.from_error(error, event_id=f"event_{uuid4().hex}"))
            self.hang_up(refusal_close_code(error), error.code)
        self._opened.set()

    def hear(self, event: DuplexEvent) -> None:
        """Take one event of the session. Called by its attachment; never blocks."""
        text = render(event, Dialect.DUPLEX)
        assert text is not None
        self.dispatch(orjson.loads(text))

    def hang_up(self, code: int, reason: str) -> None:
        """The session says nothing more, for the reason that a server would close its WebSocket with."""
        self.end(closed_by_server(code, reason))


class _InlineAttachment(Attachment):
    """Hands a session's events to its client, which takes each at once: how far a subscriber may fall behind
    is the fan-out's to say.

    Each event is a checkpoint, so that a session does not go on before whoever waited for it had a turn.
    """

    def __init__(self, client: InlineDuplexClient) -> None:
        self._client = client
        self._gone = False

    async def send(self, event: DuplexEvent) -> None:
        await trio.lowlevel.checkpoint()
        if self._gone:
            raise trio.BrokenResourceError("the client has left")
        self._client.hear(event)

    async def close(self, code: int, reason: str) -> None:
        await trio.lowlevel.checkpoint()
        if not self._gone:
            self._client.hang_up(code, reason)

    def lose(self) -> None:
        """The client has left."""
        self._gone = True
