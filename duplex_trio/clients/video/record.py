"""What one connection has said, checked message by message, and what it means for whoever waits. Pure.

A server answers every interaction once and in order: `session.interaction.queued`, or an `error` that names it. An
error that can name none, such as one about an id that is no id, belongs to the oldest that has no answer yet. After
its answer an interaction is heard of again by `interaction_failed`, or by the payloads that it started and completed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define, field

from duplex_trio.clients.video.chunk import VideoChunk, VideoReceived
from duplex_trio.clients.video.errors import (
    InteractionRefusedError,
    VideoClientError,
    VideoConnectionError,
    VideoProtocolError,
    interaction_refused,
    start_refused,
    video_failed,
)
from duplex_trio.clients.video.interactions import Interactions
from duplex_trio.protocol.video import (
    InteractionQueued,
    SessionDone,
    SessionPong,
    VideoChunkMetadata,
    VideoErrorEvent,
    VideoRefused,
    VideoStarted,
    decode_event,
)

ENDING = frozenset({"generation_failed", "server_shutdown", "stall_timeout", "too_many_errors"})
"""Errors that a server ends a video with (video.md 3.3). After any other one the video goes on."""


@define(eq=False)
class Ask:
    """Something that the server answers.

    Attributes:
        event_id: of the interaction; None for a ping.
        prompt: of the interaction.
        done: called at its answer, with the error if it was refused; None once nobody waits any more.
    """

    event_id: str | None
    prompt: str
    done: Callable[[InteractionRefusedError | None], None] | None


@define(eq=False)
class VideoRecord:
    """The account of one video on its client's side.

    Attributes:
        started: the server's answer to the request.
        done: its summary at the end.
        error: the last thing that it refused and that is about no interaction.
        failure: why the video is over, if it did not end as asked.
        received: what has come.
        interactions: what has become of each.
        asked: what has no answer yet, oldest first.
    """

    started: VideoStarted | None = None
    done: SessionDone | None = None
    error: VideoErrorEvent | None = None
    failure: VideoClientError | None = None
    received: VideoReceived = field(factory=VideoReceived)
    interactions: Interactions = field(factory=Interactions)
    asked: deque[Ask] = field(factory=deque)
    _metadata: VideoChunkMetadata | None = field(default=None, init=False)

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.done is not None or self.failure is not None

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for an answer."""
        return any(ask.done is not None for ask in self.asked)

    def take(self, message: str | bytes) -> VideoChunk | None:
        """Account for one message; a payload comes back as a chunk.

        Raises:
            VideoProtocolError: it is no message of the protocol, or not one that may come now.
            VideoRefusedError: the video was not begun.
        """
        if isinstance(message, bytes | bytearray):
            return self._payload(bytes(message))
        if self._metadata is not None:
            raise VideoProtocolError("video.chunk_metadata was followed by another text message")
        try:
            event = decode_event(message)
        except VideoRefused as refused:
            if refused.code == "unknown_type":
                return None  # a later protocol may have more to say
            raise VideoProtocolError(f"the server sent what is no event: {refused}") from None
        if isinstance(event, VideoErrorEvent):
            self._refusal(event)
        elif isinstance(event, VideoStarted):
            if self.started is not None:
                raise VideoProtocolError("video.start came twice")
            self.started = event
        elif self.started is None:
            raise VideoProtocolError(f"{event.type} came before video.start")
        elif isinstance(event, VideoChunkMetadata):
            self._announce(event)
        elif isinstance(event, InteractionQueued):
            self._queued(event)
        elif isinstance(event, SessionPong):
            self._answer(self._oldest(None), None)
        else:
            self._done(event)
        return None

    def lost(self, error: VideoConnectionError) -> None:
        """The connection ended. Does nothing if the video had ended before; what the server said last is why."""
        if self.over:
            return
        if self.error is not None and self.error.code in ENDING:
            self.end(video_failed(self.error, self.received))
        else:
            error.received = self.received
            self.end(error)

    def end(self, failure: VideoClientError) -> None:
        """The video is over for a reason of its own; the first one counts."""
        if not self.over:
            self.failure = failure
            self.interactions.ended({})

    # ------------------------------------------------------------------ one message

    def _announce(self, metadata: VideoChunkMetadata) -> None:
        expected = self.received.chunks
        if metadata.transport_chunk_index != expected:
            raise VideoProtocolError(f"payload {expected} was to come, not {metadata.transport_chunk_index}")
        self._metadata = metadata

    def _payload(self, data: bytes) -> VideoChunk:
        metadata, self._metadata = self._metadata, None
        if metadata is None:
            raise VideoProtocolError("a binary message came without its video.chunk_metadata")
        if len(data) != metadata.byte_length:
            raise VideoProtocolError(
                f"payload {metadata.transport_chunk_index} has {len(data)} bytes instead of {metadata.byte_length}"
            )
        if metadata.kind == "media":
            self.interactions.shown(metadata, self.received.frames)
        chunk = VideoChunk(metadata, data)
        self.received = self.received.plus(chunk)
        return chunk

    def _queued(self, event: InteractionQueued) -> None:
        ask = self._oldest(event.event_id)
        if ask is None:
            raise VideoProtocolError(f"{event.event_id!r} was queued, but is no interaction that was sent")
        self.interactions.queued(event.event_id, ask.prompt)
        self._answer(ask, None)

    def _refusal(self, event: VideoErrorEvent) -> None:
        if self.started is None:
            raise start_refused(event)
        if event.event_id is not None:
            told = f"{event.code}: {event.message}"
            if event.code == "interaction_failed" and self.interactions.failed(event.event_id, told):
                return
            ask = self._oldest(event.event_id)
        elif event.code in ENDING:
            ask = None
        else:
            ask = next((ask for ask in self.asked if ask.event_id is not None), None)
        if ask is None or ask.event_id is None:
            self.error = event
            return
        self.interactions.refused(ask.event_id)
        self._answer(ask, interaction_refused(event, ask.event_id))

    def _done(self, event: SessionDone) -> None:
        if event.chunks != self.received.chunks:
            raise VideoProtocolError(f"{event.chunks} payloads were sent, and {self.received.chunks} came")
        self.interactions.ended(event.interactions)
        self.done = event
        if self.error is not None and self.error.code in ENDING:
            self.failure = video_failed(self.error, self.received)

    def _oldest(self, event_id: str | None) -> Ask | None:
        return next((ask for ask in self.asked if ask.event_id == event_id), None)

    def _answer(self, ask: Ask | None, error: InteractionRefusedError | None) -> None:
        if ask is not None:
            self.asked.remove(ask)
            if ask.done is not None:
                ask.done(error)
