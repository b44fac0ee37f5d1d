"""The server's side of one steered video in memory, for tests of clients: says what a test tells it to.

It knows the messages and keeps count of payloads, nothing of models or prompts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from duplex_trio.clients import RealtimeVideoClient, VideoChunk
from duplex_trio.clients.transport import Connect
from duplex_trio.protocol.video import (
    InteractionOutcome,
    InteractionQueued,
    SessionDone,
    VideoChunkMetadata,
    VideoErrorEvent,
    VideoEvent,
    VideoStarted,
    encode_event,
)
from duplex_trio.testing.wire_peer import WirePeer, scripted

REQUEST_ID = "video_stream-0123456789abcdef0123456789abcdef"
CHUNK_FRAMES, FPS = 9, 16.0


class VideoPeer:
    """What a script of a test holds.

    Attributes:
        wire: the accepted socket.
        start: the client's request, once it has come.
        chunks: pairs sent.
        frames: frames in them.
    """

    def __init__(self, wire: WirePeer) -> None:
        self.wire = wire
        self.start: dict[str, Any] = {}
        self.chunks = self.frames = 0
        self._generation = -1

    async def receive(self, *types: str) -> dict[str, Any]:
        """The next command of one of `types`; without types the next that is no ping."""
        while True:
            command = await self.wire.receive(*types)
            if types or command["type"] != "session.ping":
                return command

    async def say(self, event: VideoEvent) -> None:
        """Send one event."""
        await self.wire.send_raw(encode_event(event).decode())

    async def begin(self, **changes: Any) -> dict[str, Any]:
        """Take the client's request and say that the video begins; returns the request."""
        self.start = await self.receive("session.start")
        config = {
            "model": "peer",
            "width": 64,
            "height": 64,
            "fps": FPS,
            "seed": 7,
            "prompt": self.start["prompt"],
        }
        values: dict[str, Any] = {
            "request_id": REQUEST_ID,
            "format": self.start.get("format", "m4s"),
            "mime_type": 'video/mp4; codecs="avc1.42C00C"',
            "config": config,
            "chunk_frames": CHUNK_FRAMES,
            "default_transition_chunks": 3,
            "supports_interaction": True,
        }
        await self.say(VideoStarted(**{**values, **changes}))
        return self.start

    async def queue(self) -> dict[str, Any]:
        """Take the next interaction and say that it is queued; returns it."""
        interaction: dict[str, Any] = (await self.receive("session.interaction"))["interaction"]
        await self.queued(interaction["event_id"])
        return interaction

    async def queued(self, event_id: str) -> None:
        """Say that an interaction is queued."""
        await self.say(InteractionQueued(request_id=REQUEST_ID, event_id=event_id))

    async def refuse(self, code: str, event_id: str | None = None, **fields: Any) -> None:
        """Send an error."""
        await self.say(
            VideoErrorEvent(code=code, message="no", event_id=event_id, request_id=REQUEST_ID, **fields)
        )

    async def pair(
        self,
        payload: bytes = b"frames",
        *,
        frames: int = CHUNK_FRAMES,
        same_chunk: bool = False,
        trailer: bool = False,
        started: tuple[str, ...] = (),
        active: tuple[str, ...] = (),
        completed: tuple[str, ...] = (),
        **changes: Any,
    ) -> None:
        """Send a payload with what is said of it; `changes` make that wrong."""
        self._generation += not (same_chunk or trailer)
        values: dict[str, Any] = {
            "request_id": REQUEST_ID,
            "kind": "trailer" if trailer else "media",
            "transport_chunk_index": self.chunks,
            "generation_chunk_index": None if trailer else self._generation,
            "num_frames": 0 if trailer else frames,
            "byte_length": len(payload),
            "started_event_ids": started,
            "active_event_ids": active,
            "completed_event_ids": completed,
        }
        await self.say(VideoChunkMetadata(**{**values, **changes}))
        await self.wire.send_raw(payload)
        self.chunks += 1
        self.frames += 0 if trailer else frames

    async def end(
        self,
        interactions: Mapping[str, InteractionOutcome] | None = None,
        *,
        stopped: bool = False,
        **changes: Any,
    ) -> None:
        """Send the trailer and `session.done`, and close as a server does."""
        await self.pair(b"trailer", trailer=True)
        values: dict[str, Any] = {
            "request_id": REQUEST_ID,
            "chunks": self.chunks,
            "stopped": stopped,
            "frames": self.frames,
            "interactions": interactions or {},
        }
        await self.say(SessionDone(**{**values, **changes}))
        await self.wire.close(1000)


VideoScript = Callable[[VideoPeer], Awaitable[None]]


def video_scripted(nursery: trio.Nursery, script: VideoScript, *, lockstep: bool = False) -> Connect:
    """A `connect` for `RealtimeVideoClient` whose server runs `script` in `nursery`, once for each connection.

    With `lockstep` the stream holds nothing, so that a side that does not read makes the other one wait.
    """
    return scripted(nursery, lambda wire: script(VideoPeer(wire)), lockstep=lockstep)


def scripted_client(
    nursery: trio.Nursery, script: VideoScript, *, lockstep: bool = False, **options: Any
) -> RealtimeVideoClient:
    """A client, not begun, whose server runs `script`; `options` are the client's."""
    connect = video_scripted(nursery, script, lockstep=lockstep)
    return RealtimeVideoClient("ws://test.invalid", connect=connect, **{"prompt": "a street", **options})


async def read_all(video: RealtimeVideoClient) -> list[VideoChunk]:
    """Everything that is left of a video."""
    return [chunk async for chunk in video]
