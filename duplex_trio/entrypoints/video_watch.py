"""One video as a program of ours watches it: its chunks as they come, and ways to steer it meanwhile."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import trio
from attrs import define, frozen

from duplex_trio.protocol.refusal import RequestFailed
from duplex_trio.protocol.video import (
    InteractionQueued,
    SessionDone,
    SessionInteraction,
    SessionStart,
    SessionStop,
    VideoChunkMetadata,
    VideoErrorEvent,
    VideoEvent,
    VideoRefused,
    VideoStarted,
)
from duplex_trio.video.memory import MemoryPeer
from duplex_trio.video.transport import TransportClosedError


class VideoFailed(RequestFailed):
    """A video that ended without having come to its end."""


ENDING = frozenset({"generation_failed", "server_shutdown", "stall_timeout", "too_many_errors"})
"""Errors that a video ends with (video.md 3.3); after any other one it goes on."""


@define(eq=False)
class _Ask:
    """An interaction that is to be answered.

    Attributes:
        event_id: its name.
        answered: whether it has been.
        refusal: why it was not taken.
    """

    event_id: str
    answered: bool = False
    refusal: VideoRefused | None = None


@frozen(kw_only=True)
class VideoChunk:
    """A piece of the file that a video is.

    Attributes:
        metadata: what is in it, and which interactions have an effect on it.
        data: its bytes; those of all chunks in order, the trailer's too, are one file that plays while it grows.
    """

    metadata: VideoChunkMetadata
    data: bytes

    @property
    def index(self) -> int:
        """Which piece it is, from 0."""
        return self.metadata.transport_chunk_index

    @property
    def is_trailer(self) -> bool:
        """Whether it has no pictures, but ends the file."""
        return self.metadata.kind == "trailer"


class WatchedVideo:
    """A video that runs; made by `VideoOmni.video`. Its chunks are taken by one task; any task may steer it.

    Whoever waits for something reads what comes for the others too, so that nobody has to read for somebody else to
    be answered. What is not read is not made: the video waits, and is given up after `stall_timeout_s`.

    Args:
        peer: the video's other end.

    Attributes:
        started: what is in force, and how the chunks are to be played (`mime_type`).
        done: the summary, once it has come to its end.
        failures: why interactions came to nothing after they had been queued, by their ids.
    """

    started: VideoStarted

    def __init__(self, peer: MemoryPeer) -> None:
        self.done: SessionDone | None = None
        self.failures: dict[str, VideoRefused] = {}
        self._peer = peer
        self._reading = trio.Lock()
        self._started: VideoStarted | None = None
        self._chunks: deque[VideoChunk] = deque()
        self._asked: deque[_Ask] = deque()
        self._queued: set[str] = set()
        self._error: VideoErrorEvent | None = None
        self._over = False

    async def begin(self, start: SessionStart) -> None:
        """Ask for the video.

        Raises:
            VideoRefused: there will be none.
        """
        await self._peer.send(start)
        await self._read_until(lambda: self._started is not None or self._error is not None)
        if self._started is None:
            error = self._error
            if error is None:
                raise VideoRefused("server_shutdown", "the video ended before it began")
            raise VideoRefused(error.code, error.message, param=error.param)
        self.started = self._started

    def __aiter__(self) -> WatchedVideo:
        """The chunks."""
        return self

    async def __anext__(self) -> VideoChunk:
        """Wait for the next chunk.

        Raises:
            VideoFailed: the video ended early; `code` says why.
        """
        await self._read_until(lambda: bool(self._chunks))
        if self._chunks:
            return self._chunks.popleft()
        if self._error is not None:  # also where a summary was sent after it
            raise VideoFailed(self._error.code, self._error.message, param=self._error.param)
        if self.done is not None:
            raise StopAsyncIteration
        raise VideoFailed("server_shutdown", "the video was ended before it came to its end")

    async def interact(
        self,
        prompt: str | None = None,
        *,
        transition_chunks: int | None = None,
        event_id: str | None = None,
        event: Mapping[str, Any] | None = None,
    ) -> str:
        """Steer the video; returns when that is queued, with the id by which it is heard of again.

        The metadata of chunks says when it started, is active and is completed. What comes to nothing later is in
        `failures`, and in the end the outcome of each is in `done.interactions`.

        Args:
            prompt: what is to be seen from now on.
            transition_chunks: chunks until it is; 0 at once, None as the model's default.
            event_id: its name; one is made up by default. Told again with the same content, it is taken once.
            event: further content, for models that read more than a prompt.

        Raises:
            VideoRefused: it is not taken; `code` and `param` say why.
        """
        event_id = f"event-{secrets.token_hex(8)}" if event_id is None else event_id
        content = {**(event or {}), **({} if prompt is None else {"prompt": prompt})}
        ask = _Ask(event_id)
        await self._send_ask(
            ask, SessionInteraction(event_id=event_id, event=content, transition_chunks=transition_chunks)
        )
        await self._read_until(lambda: ask.answered)
        if not ask.answered:
            raise _over()
        if ask.refusal is not None:
            raise ask.refusal
        return event_id

    async def stop(self) -> None:
        """End the video where it is; what is left of it is still to be read, such as the trailer."""
        try:
            await self._peer.send(SessionStop())
        except trio.BrokenResourceError:
            return  # it is over already

    def leave(self) -> None:
        """Let it end, and hear nothing more of it."""
        self._over = True
        self._peer.leave()

    async def _send_ask(self, ask: _Ask, asking: SessionInteraction) -> None:
        # Answers come in the order in which commands are sent, also to those that nobody waits for any more.
        self._asked.append(ask)
        sent = False
        try:
            await self._peer.send(asking)
            sent = True
        except trio.BrokenResourceError:
            raise _over() from None
        finally:
            if not sent:
                self._asked.remove(ask)

    async def _read_until(self, enough: Callable[[], bool]) -> None:
        await trio.lowlevel.checkpoint()
        while not enough() and not self._over:
            async with self._reading:  # fair: who finds what it waits for is next
                if not enough() and not self._over:
                    await self._read()

    async def _read(self) -> None:
        try:
            message = await self._peer.receive()
            if isinstance(message, VideoChunkMetadata):
                with trio.CancelScope(shield=True):  # it is there already
                    data = await self._peer.receive()
                assert isinstance(data, bytes)
                self._queued.difference_update(message.started_event_ids)
                self._chunks.append(VideoChunk(metadata=message, data=data))
                return
        except TransportClosedError:
            self._over = True
            return
        assert not isinstance(message, bytes)
        self._take(message)

    def _take(self, message: VideoEvent) -> None:
        match message:
            case VideoStarted():
                self._started = message
            case InteractionQueued(event_id=event_id):
                self._queued.add(event_id)
                self._answer(self._oldest(event_id), None)
            case SessionDone():
                self.done, self._over = message, True
            case VideoErrorEvent():
                self._take_error(message)

    def _take_error(self, error: VideoErrorEvent) -> None:
        refusal = VideoRefused(error.code, error.message, param=error.param, event_id=error.event_id)
        if error.event_id is None:
            # An interaction whose id is no id is refused without one.
            if self._asked and error.code not in ENDING:
                self._answer(self._asked[0], refusal)
            else:
                self._error = error
        elif error.code == "interaction_failed" and error.event_id in self._queued:
            self._queued.discard(error.event_id)
            self.failures[error.event_id] = refusal
        else:
            self._answer(self._oldest(error.event_id), refusal)

    def _oldest(self, event_id: str) -> _Ask | None:
        return next((ask for ask in self._asked if ask.event_id == event_id), None)

    def _answer(self, ask: _Ask | None, refusal: VideoRefused | None) -> None:
        if ask is not None:
            self._asked.remove(ask)
            ask.answered, ask.refusal = True, refusal


def _over() -> VideoRefused:
    return VideoRefused("interaction_failed", "the video has ended")
