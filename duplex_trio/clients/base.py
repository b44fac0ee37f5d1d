"""What every client offers, whatever carries its messages: commands, event streams, answers.

A transport implements three hooks (open, send one command, tear down), calls `dispatch` for every message of
the server and `end` when there will be no more. All state of a client is changed synchronously on the Trio
thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import pybase64
import trio

from duplex_trio.clients.config import SAMPLE_BYTES, SessionConfig
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
from duplex_trio.clients.pacing import plan_chunks
from duplex_trio.clients.responses import ResponseStream
from duplex_trio.clients.run import run_client
from duplex_trio.protocol import duplex as wire


class DuplexClientBase(ABC):
    """One duplex session as its user sees it: `async with` opens and closes it.

    Attributes:
        model: the model asked for.
        config: the settings asked for.
        session_id: the server's id of the session, once open.
        session_info: the session object as the server last stated it.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        config: SessionConfig | None = None,
        handshake_timeout_s: float = 30.0,
    ) -> None:
        self.model = model
        self.config = config or SessionConfig()
        self.handshake_timeout_s = handshake_timeout_s
        self.session_id: str | None = None
        self.session_info: Mapping[str, Any] = {}
        self._fanout = Fanout()
        self._responses: ResponseStream | None = None
        self._audio_end_ms = 0.0
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

    async def open_transport(self, nursery: trio.Nursery) -> None:
        """Open the transport; its tasks live in `nursery`. Called once, by `run_client`."""
        await self._open(nursery)

    async def shake_hands(self) -> None:
        """Ask for the session and wait until it is there. Called once, by `run_client`."""
        with self.events() as events:
            await self._tell(wire.UpdateSession(patch=self.config.to_session_payload(self.model)))
            created = await events.wait_for(wire.SessionCreated.type)
        self.session_id = created.session_id

    async def leave(self) -> None:
        """Say goodbye if that has not happened yet, and let go of the transport. Called once, by
        `run_client`."""
        if not self.closed:
            with suppress(DuplexClientError):
                await self._tell(wire.CloseSession())
        self.end(None)
        await self._teardown()

    # ------------------------------------------------------------------ transport hooks

    @abstractmethod
    async def _open(self, nursery: trio.Nursery) -> None:
        """Make the transport ready to carry commands; raise `DuplexConnectionError` if that fails."""

    @abstractmethod
    async def _send_command(self, command: Mapping[str, Any]) -> None:
        """Take over one command, whole or not at all; raise what ended the session if there is none any more."""

    @abstractmethod
    async def _teardown(self) -> None:
        """Release the transport. May be cancelled."""

    def dispatch(self, raw: object) -> None:
        """Take one message of the server; what is no event ends the session. Never blocks."""
        try:
            event = parse_event(raw, received_at_s=trio.current_time())
            self._note(event)
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
        """
        if self.closed:
            await trio.lowlevel.checkpoint()
            raise self._fanout.closed_error()
        event_id = command.get("event_id") or f"evt_{uuid4().hex}"
        await self._send_command({**command, "event_id": event_id})
        return str(event_id)

    async def _tell(self, command: wire.DuplexCommand) -> str:
        return await self.send(wire.command_message(command))

    async def append_audio(
        self, pcm: bytes, *, is_speech: bool | None = None, video_frames: Sequence[str] = ()
    ) -> str:
        """Append sound to the input.

        Args:
            pcm: mono samples in the encoding and at the rate of `config.input_audio`.
            is_speech: the caller's own verdict; the server decides without it.
            video_frames: base64 JPEG or PNG pictures (data URLs are stripped) that belong to this sound.

        Raises:
            ValueError: `pcm` is no whole number of samples, or a picture no base64.
        """
        audio = self.config.input_audio
        frames = tuple(pybase64.b64decode(_bare_base64(frame), validate=True) for frame in video_frames)
        hints = wire.AppendHints(is_speech=is_speech)
        if audio.encoding in SAMPLE_BYTES:
            if len(pcm) % audio.bytes_per_sample:
                raise ValueError(f"{len(pcm)} bytes are no whole samples of {audio.encoding}")
            duration_ms = audio.duration_ms(len(pcm))
            self._audio_end_ms += duration_ms
            hints = wire.AppendHints(
                is_speech=is_speech, duration_ms=duration_ms, audio_end_ms=self._audio_end_ms
            )
        return await self._tell(
            wire.AppendAudio(
                audio=pcm,
                format=audio.encoding,
                sample_rate_hz=audio.sample_rate_hz,
                video_frames=frames,
                hints=hints,
            )
        )

    async def stream_pcm(
        self,
        pcm: bytes,
        *,
        chunk_ms: float = 200,
        realtime: bool = True,
        is_speech: bool | None = None,
        video_frames: Sequence[str] = (),
        stacked_video_frames: Sequence[str] = (),
    ) -> int:
        """Append a recording in chunks and return how many there were.

        In real time a chunk is sent when its last sample has been spoken, as a microphone would; the schedule
        is fixed at the start, so that delays do not add up. See `plan_chunks` for the video frames.
        """
        begin_s = trio.current_time()
        count = 0
        chunks = plan_chunks(
            len(pcm),
            self.config.input_audio,
            chunk_ms=chunk_ms,
            video_frames=video_frames,
            stacked_video_frames=stacked_video_frames,
        )
        for chunk in chunks:
            if realtime:
                await trio.sleep_until(begin_s + chunk.due_ms / 1000)
            data = pcm[chunk.start : chunk.end]
            await self.append_audio(data, is_speech=is_speech, video_frames=chunk.frames)
            count += 1
        return count

    async def commit(self, final: bool = True, create_response: bool | None = None) -> str:
        """End the user's turn by hand.

        Args:
            final: no more sound of this turn follows.
            create_response: whether an answer is wanted; the session decides when `None`.
        """
        return await self._tell(wire.Commit(final=final, response_create=create_response))

    async def clear_input(self) -> str:
        """Drop the sound that has been appended but not answered."""
        return await self._tell(wire.ClearInput())

    async def create_response(self, **options: Any) -> str:
        """Ask for an answer; `options` are the fields of the `response` object (instructions, modalities,
        ...)."""
        message = wire.command_message(wire.CreateResponse())
        # Unread, so that an option that is none is the server's to refuse.
        return await self.send({**message, "response": options} if options else message)

    async def cancel_response(self, response_id: str | None = None) -> str:
        """Stop the answer that is being made, or the one named."""
        return await self._tell(wire.CancelResponse(response_id=response_id))

    async def barge_in(self) -> str:
        """Cut the assistant short: stop making and playing its answer, and drop the pending input."""
        return await self._tell(wire.BargeIn())

    async def ack_playback(
        self,
        played_ms: float,
        *,
        response_id: str | None = None,
        item_id: str | None = None,
        committed_ms: float | None = None,
    ) -> str:
        """Say how much of an answer the user has heard.

        Args:
            played_ms: length of what was played, from the answer's beginning; cut to whole ms.
            response_id: the answer; the server takes the current one otherwise.
            item_id: its item, instead of or with `response_id`.
            committed_ms: how much of that counts as said; `played_ms` when not given.
        """
        committed = played_ms if committed_ms is None else committed_ms
        return await self._tell(
            wire.AckPlayback(
                played_ms=int(played_ms),
                committed_ms=int(committed),
                response_id=response_id,
                item_id=item_id,
            )
        )

    async def create_item(
        self,
        text: str,
        *,
        role: wire.Role = "user",
        item_id: str | None = None,
        previous_item_id: str | None = None,
    ) -> str:
        """Add a written message to the conversation; `create_response` then asks for an answer to it."""
        part = wire.OutputTextPart(text) if role == "assistant" else wire.InputTextPart(text)
        item = wire.MessageItem(id=item_id or "", role=role, content=(part,))
        return await self._tell(wire.CreateItem(item=item, previous_item_id=previous_item_id))


def _bare_base64(frame: str) -> str:
    return frame.partition(",")[2] if frame.startswith("data:") else frame
