"""One chunk of video before the first client comes: a prompt encoded, frames rendered and encoded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import frozen

from duplex_trio.entrypoints.omni_base import WarmUpError
from duplex_trio.plugin.video.plugin import Frame, VideoModelSession
from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.video.encoders.making import make_encoder
from duplex_trio.video.host import VideoHost, VideoSlot

PROMPT = "a snowy street illuminated by warm lanterns"


@frozen
class VideoWarmUp:
    """A video of one chunk, made in one thread.

    Attributes:
        host: whose model is warmed up.
        slot: a place for it.
    """

    host: VideoHost
    slot: VideoSlot

    def make(self) -> None:
        """Make the chunk. Blocking.

        Raises:
            WarmUpError: naming what failed.
        """
        able = self.host.plugin.capabilities
        request = VideoRequest(
            request_id="warm-up",
            prompt=PROMPT,
            width=able.default_width,
            height=able.default_height,
            fps=able.native_fps,
            num_frames=able.chunk_frames,
        )
        with _telling("the model did not begin a video"):
            session = self.host.plugin.open(request, self.slot.stages)
        try:
            self._render(session, request)
        finally:
            session.close()

    def _render(self, session: VideoModelSession, request: VideoRequest) -> None:
        with _telling("the prompt could not be encoded"):
            state = session.encode_interaction({"prompt": request.prompt})
        frames: list[Frame] = []
        count = self.host.plugin.capabilities.chunk_frames
        with _telling("no chunk could be rendered"):
            rendered = session.render_chunk(
                0, state, changed=True, hard=True, n_frames=count, cancelled=lambda: False
            )
            frames = [frame.copy() for frame in rendered]
        if len(frames) != count:
            raise WarmUpError(f"the warm-up failed: the model rendered {len(frames)} frames of {count}")
        with _telling("the chunk could not be encoded"):
            encoder = make_encoder(
                "m4s",
                width=request.width,
                height=request.height,
                fps=request.fps,
                payload_bytes_max=self.host.limits.payload_bytes_max,
            )
            try:
                encoder.encode(frames)
                encoder.close()
            finally:
                encoder.discard()


@contextmanager
def _telling(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a model may raise anything
        raise WarmUpError(f"the warm-up failed: {what}: {type(error).__name__}: {error}") from error
