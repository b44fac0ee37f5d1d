"""The WebSocket of steered video: `WS /v1/realtime/video` (video.md 1).

Transport only: text and pairs of messages between one client and one video, whose life is `video.run`'s.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from duplex_trio.protocol.video import VideoRefused
from duplex_trio.serving.channel import ChannelClosedError, WebSocketChannel, trace_headers
from duplex_trio.serving.nowhere import selected_subprotocol
from duplex_trio.tracing import NO_TRACER, Tracer
from duplex_trio.video.host import VideoFigures
from duplex_trio.video.transport import TransportClosedError, VideoTransport

if TYPE_CHECKING:
    from duplex_trio.entrypoints.video_omni import VideoOmni
    from duplex_trio.serving.deployment import Deployment

CLOSE_REASON_MAX_BYTES = 123
"""What a close frame holds beside its code (RFC 6455 5.5)."""
CLOSE_TIMEOUT_S = 5.0
"""How long a client that does not read is given for its close frame; the connection ends without it then."""


class ChannelTransport(VideoTransport):
    """A video over one WebSocket that has been accepted.

    Who has not said yet what is to be seen holds no place, and no drain waits for it: it is refused when that begins.

    Args:
        channel: the WebSocket.
        deployment: what is served.
    """

    def __init__(self, channel: WebSocketChannel, deployment: Deployment) -> None:
        self._channel = channel
        self._deployment = deployment
        self._undecided = True

    async def receive(self) -> str | None:
        """Wait for the next message.

        Raises:
            VideoRefused: `server_shutdown`, while the first one is waited for.
        """
        try:
            if self._undecided:
                return await self._receive_first()
            return await self._channel.receive()
        except ChannelClosedError as closed:
            raise TransportClosedError(closed.code) from None

    async def _receive_first(self) -> str | None:
        undecided = self._deployment.undecided
        with trio.CancelScope() as scope:
            undecided.add(scope)
            try:
                if not self._deployment.draining:
                    first = await self._channel.receive()
                    self._undecided = False
                    return first
            finally:
                undecided.discard(scope)
        raise VideoRefused("server_shutdown", "The server is shutting down.")

    async def send_text(self, text: bytes) -> None:
        """Write one text message."""
        await self._channel.send(text)

    async def send_pair(self, metadata: bytes, payload: bytes) -> None:
        """Write a text message and a binary one."""
        await self._channel.send_pair(metadata, payload)

    async def close(self, code: int, reason: str) -> None:
        """Write the close frame. A client that has left, or does not read, need not get it."""
        cut = reason.encode()[:CLOSE_REASON_MAX_BYTES].decode(errors="ignore")
        with trio.move_on_after(CLOSE_TIMEOUT_S), suppress(trio.BrokenResourceError):
            await self._channel.close(code, cut)


@frozen(kw_only=True)
class VideoEndpoint:
    """What WebSockets of video are served with.

    Attributes:
        omni: the engine.
        deployment: what is served.
        log_prompts: write what clients want to see into the log.
        tracer: who traces the videos.
    """

    omni: VideoOmni
    deployment: Deployment
    log_prompts: bool = False
    tracer: Tracer = NO_TRACER

    async def serve(self, channel: WebSocketChannel) -> None:
        """Serve one WebSocket whose client may come in, from the request for it to its end."""
        await channel.accept(selected_subprotocol(channel))
        trace = self.tracer.video(self.omni.model_name, trace_headers(channel.request.headers))
        outcome, counts = "aborted", dict[str, float]()
        try:
            transport = ChannelTransport(channel, self.deployment)
            figures = await self.omni.serve(transport, log_prompts=self.log_prompts)
            outcome, counts = figures.outcome, _counts(figures)
        finally:
            trace.ended(outcome, counts)


def _counts(figures: VideoFigures) -> dict[str, float]:
    """What a trace tells of a video."""
    interactions = {f"interactions.{outcome}": number for outcome, number in figures.interactions.items()}
    return {
        "chunks": figures.chunks,
        "frames": figures.frames,
        "bytes": figures.payload_bytes,
        "render_s": round(figures.render_s, 3),
        "encode_s": round(figures.encode_s, 3),
        **interactions,
    }
