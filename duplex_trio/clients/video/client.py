"""`RealtimeVideoClient`: one video, watched and steered while it is generated."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Literal, Self
from uuid import uuid4

import trio

from duplex_trio.clients.transport import Connect, open_stream
from duplex_trio.clients.url import build_video_url
from duplex_trio.clients.video.chunk import VideoChunk, VideoReceived
from duplex_trio.clients.video.connection import VideoConnection
from duplex_trio.clients.video.interactions import Interaction
from duplex_trio.clients.video.link import VideoLink, WebSocketLink
from duplex_trio.clients.video.record import Ask
from duplex_trio.clients.video.run import run_video
from duplex_trio.protocol.video import (
    SessionDone,
    SessionInteraction,
    SessionPing,
    SessionPlayback,
    SessionStart,
    VideoFormat,
    VideoStarted,
)


class RealtimeVideoClient:
    """A video that a server generates, and that prompts steer.

    ```python
    async with RealtimeVideoClient("ws://127.0.0.1:8000", prompt="a snowy street", seconds=8) as video:
        await video.interact("warm lanterns", transition_chunks=4)
        with open("clip.mp4", "wb") as file:
            async for chunk in video:
                file.write(chunk.payload)
    ```

    Iterating gives the payloads, the trailer last; together they are one file. It ends when the video does, and raises
    when it failed or the connection was lost, behind everything that had come. One task should iterate.

    **Who does not read makes the server wait.** Payloads wait in a buffer of `buffer_bytes_max`; when that is full
    nothing more is taken from the connection, and the server stops generating a moment later. Answers come over the
    same connection, so whoever waits for one lets 16 MiB more in, which is more than can stand before it: `interact`
    and `ping` never wait for a slow reader. `outcome` does, as it waits for chunks. A server gives up on a connection
    that takes nothing for 30 s; who wants to pause for longer reads on, and reports with `playback` what is shown: then
    no more than `streaming_buffer_seconds` ahead of that is generated. Pings of the client keep such a video alive.

    Args:
        server: URL of the server (see `build_video_url` for what is added to it), or a link of another kind.
        prompt: what the video begins with.
        model: name of the model; the server's own when None, as everything below.
        width: pixels.
        height: pixels.
        fps: frames for a second of playback.
        num_frames: frames in all.
        seconds: length in seconds of playback, instead. Without both it runs until `stop`, or the server's limit.
        seed: decides everything that is random.
        format: `m4s` (fragmented MP4) or `webm`.
        streaming_buffer_seconds: how far generation may run ahead of playback; None is as fast as it can.
        api_key: sent as a bearer token.
        handshake_timeout_s: how long connecting and beginning the video may take together.
        answer_timeout_s: how long `interact` and `ping` wait by default.
        ping_interval_s: how often to show the server that this client lives; its patience is 60 s (video.md 3.3). A
            connection that is read and says nothing for as long after that is given up.
        buffer_bytes_max: what may wait to be read.
        connect: opens the byte stream; TCP or TLS by default.
        fields: further fields of the start that the model reads: `num_inference_steps`, `guidance_scale`,
            `negative_prompt`, `extra_params`, ...

    Raises:
        ValueError: the URL is not one to connect to, the key is not one to send, or a time or a size is not positive.
        TypeError: there is no such field.
    """

    def __init__(
        self,
        server: str | VideoLink,
        *,
        prompt: str,
        model: str | None = None,
        width: int | None = None,
        height: int | None = None,
        fps: float | None = None,
        num_frames: int | None = None,
        seconds: float | None = None,
        seed: int | None = None,
        format: VideoFormat = "m4s",
        streaming_buffer_seconds: float | None = 0.5,
        api_key: str | None = None,
        handshake_timeout_s: float = 30.0,
        answer_timeout_s: float = 30.0,
        ping_interval_s: float = 20.0,
        buffer_bytes_max: int = 8 * 1024 * 1024,
        connect: Connect = open_stream,
        **fields: Any,
    ) -> None:
        if min(handshake_timeout_s, answer_timeout_s, ping_interval_s, buffer_bytes_max) <= 0:
            raise ValueError("times and buffer_bytes_max must be positive")
        if isinstance(server, VideoLink):
            url, link = "the server", server
        else:
            url = build_video_url(server)
            link = WebSocketLink(url, api_key=api_key, connect=connect)
        self.answer_timeout_s = answer_timeout_s
        start = SessionStart(
            prompt=prompt,
            model=model,
            width=width,
            height=height,
            fps=fps,
            num_frames=num_frames,
            seconds=seconds,
            seed=seed,
            format=format,
            streaming_buffer_seconds=streaming_buffer_seconds,
            **fields,
        )
        self._connection = VideoConnection(
            url, link, start, handshake_timeout_s, ping_interval_s, buffer_bytes_max
        )
        self._record = self._connection.record
        self._running: AbstractAsyncContextManager[None] | None = None

    # ------------------------------------------------------------------ life

    async def __aenter__(self) -> Self:
        """Connect and begin the video.

        Raises:
            VideoConnectionError: not reachable, refused, or not begun within `handshake_timeout_s`.
            VideoRefusedError: the server refuses the video; `VideoBusyError` if it may be asked again later.
        """
        if self._running is not None:
            raise RuntimeError("a client is one video; make another one to begin another")
        self._running = run_video(self._connection)
        await self._running.__aenter__()
        return self

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Awaitable[bool | None]:
        """End the video: one that still runs is stopped, what it has left is dropped."""
        assert self._running is not None
        return self._running.__aexit__(kind, error, trace)

    async def stop(self) -> None:
        """End generation. What was made before follows, and the trailer. Does nothing when it is over."""
        await self._connection.stop()

    @property
    def started(self) -> VideoStarted:
        """The server's answer to the request: `mime_type`, `config`, `chunk_frames`, ..."""
        if self._record.started is None:
            raise RuntimeError("the video has not begun; it does with `async with`")
        return self._record.started

    @property
    def done(self) -> SessionDone | None:
        """The server's summary, once it has come."""
        return self._record.done

    @property
    def over(self) -> bool:
        """Whether nothing more will come from the server; there may be payloads to read."""
        return self._record.over

    @property
    def received(self) -> VideoReceived:
        """What has come so far, read or not."""
        return self._record.received

    # ------------------------------------------------------------------ watching

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> VideoChunk:
        """The next payload.

        Raises:
            VideoFailedError: the video failed.
            VideoConnectionError: the connection was lost.
            VideoProtocolError: the server left the protocol.
        """
        chunk = await self._connection.buffer.get()
        if chunk is not None:
            return chunk
        if self._record.failure is not None:
            raise self._record.failure
        raise StopAsyncIteration

    async def playback(self, seconds: float) -> None:
        """Tell the server how far this client has played; generation keeps to that from now on.

        Raises:
            ValueError: that is no time.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(f"{seconds} is no position in a video")
        if not self._record.over:
            await self._connection.tell(SessionPlayback(position_seconds=float(seconds)))

    # ------------------------------------------------------------------ steering

    async def interact(
        self,
        prompt: str,
        *,
        transition_chunks: int | None = None,
        event_id: str | None = None,
        timeout_s: float | None = None,
        **event: Any,
    ) -> str:
        """Change what the video shows; returns the interaction's id when the server has queued it.

        An interaction that got no answer may be sent again with its id: a server applies it once.

        Args:
            prompt: what it is to show.
            transition_chunks: chunks until it is wholly in force; 0 at once, None as the model has it.
            event_id: a name for it, 1 to 128 characters; made up by default.
            timeout_s: how long to wait for the answer; `answer_timeout_s` by default.
            event: what else there is to say to the model.

        Raises:
            TypeError: no JSON can say it: a lone surrogate, or a value of another kind.
            InteractionRefusedError: it was not taken; `code`, `param` and the class say why.
            AnswerTimeoutError: no answer in time.
            VideoEndedError: the video is over; the error that ended it, if one did.
        """
        name = f"event_{uuid4().hex}" if event_id is None else event_id
        command = SessionInteraction(
            event_id=name, event={**event, "prompt": prompt}, transition_chunks=transition_chunks
        )
        await self._connection.ask(command, Ask(name, prompt, None), self._patience(timeout_s))
        return name

    @property
    def interactions(self) -> Mapping[str, Interaction]:
        """What has become of each interaction, by its id; kept up to date."""
        return self._record.interactions.by_id

    async def outcome(
        self, event_id: str, *, until: Literal["started", "end"] = "end", timeout_s: float | None = None
    ) -> Interaction:
        """Wait until an interaction has begun to show, or until nothing more will become of it.

        It is told by the chunks, so they have to be read meanwhile, by another task if there are many.

        Raises:
            LookupError: nothing is known of it.
            trio.TooSlowError: `timeout_s` is over.
        """
        with trio.fail_after(math.inf if timeout_s is None else timeout_s):
            while True:
                interaction = self._record.interactions.by_id[event_id]
                if interaction.over or (until == "started" and interaction.state == "started"):
                    await trio.lowlevel.checkpoint()
                    return interaction
                await self._connection.changed.park()

    async def ping(self, timeout_s: float | None = None) -> float:
        """Ask the server for a sign of life; returns after how many seconds it came.

        Raises:
            AnswerTimeoutError: none came in time.
            VideoEndedError: the video is over; the error that ended it, if one did.
        """
        begin_s = trio.current_time()
        await self._connection.ask(SessionPing(), Ask(None, "", None), self._patience(timeout_s))
        return trio.current_time() - begin_s

    def _patience(self, timeout_s: float | None) -> float:
        return self.answer_timeout_s if timeout_s is None else timeout_s
