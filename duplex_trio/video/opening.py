"""The beginning of a video: its request is read, its model begins, and the prompt that it starts with is encoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import structlog
import trio

from duplex_trio.plugin.video.plugin import StageCaller, StageCallError, VideoModelSession
from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.protocol.video import SessionStart, VideoRefused, VideoStarted, decode_start
from duplex_trio.video.encoders.encoder import VideoEncoder
from duplex_trio.video.encoders.errors import EncoderError, EncoderUnavailableError
from duplex_trio.video.host import VideoHost
from duplex_trio.video.session import (
    GOING_AWAY,
    INTERNAL_ERROR,
    POLICY_VIOLATION,
    TRY_AGAIN_LATER,
    Opened,
)
from duplex_trio.video.state.request import shown_config
from duplex_trio.video.threads import in_thread
from duplex_trio.video.transport import VideoTransport
from duplex_trio.video.words import words_of

log = structlog.get_logger("duplex_trio.video")

EncoderFactory = Callable[..., VideoEncoder]
"""Makes an encoder, as `encoders.making.make_encoder` does."""

_CLOSE_CODES: Mapping[str, int] = {
    "resource_exhausted": TRY_AGAIN_LATER,
    "server_shutdown": GOING_AWAY,
    "stall_timeout": INTERNAL_ERROR,
    "generation_failed": INTERNAL_ERROR,
    "internal_error": INTERNAL_ERROR,
}
"""What a refusal closes with that is not the client's fault (video.md 3.3)."""


def close_code(refusal: RequestRefused) -> int:
    """The close code of a connection whose request is refused."""
    return _CLOSE_CODES.get(refusal.code, POLICY_VIOLATION)


async def read_start(transport: VideoTransport, timeout_s: float) -> SessionStart:
    """Wait for the first message.

    Raises:
        RequestRefused: it did not come in time, it is no start of a video, or the transport lets none begin.
        TransportClosedError: the client has gone.
    """
    with trio.move_on_after(timeout_s):
        text = await transport.receive()
        if text is None:
            raise VideoRefused("invalid_message", "The first message must be text.")
        return decode_start(text)
    raise VideoRefused("start_timeout", f"No {SessionStart.type} came within {timeout_s:g} seconds.")


class Opening:
    """What a model and an encoder hold for one video, from the first of it to the last.

    Args:
        host: the engine's side.
        stages: those of the slot.
        start: as the client said it.
        request: with everything filled in.
        encoders: makes the encoder.
    """

    def __init__(
        self,
        host: VideoHost,
        stages: StageCaller,
        start: SessionStart,
        request: VideoRequest,
        encoders: EncoderFactory,
    ) -> None:
        self._host = host
        self._stages = stages
        self._start = start
        self._request = request
        self._encoders = encoders
        self._call = partial(in_thread, host.threads)
        self._model: VideoModelSession | None = None
        self._encoder: VideoEncoder | None = None

    async def open(self) -> Opened:
        """Let the model begin.

        Raises:
            VideoRefused: `invalid_start` if the model or the encoder cannot do with the request, `generation_failed`
                if one of them broke.
        """
        start, request = self._start, self._request
        param: str | None = None
        try:
            self._encoder = encoder = await self._call(self._make_encoder)
            self._model = model = await self._call(partial(self._host.plugin.open, request, self._stages))
            param = "prompt"
            state = await self._call(partial(model.encode_interaction, {"prompt": request.prompt}))
        except EncoderUnavailableError as error:
            log.warning("video.encoder_unavailable", request_id=request.request_id, error=str(error))
            message = f"The server cannot encode {start.format} videos."
            raise VideoRefused("generation_failed", message, param="format") from error
        except (EncoderError, NotImplementedError, ValueError) as error:
            message = words_of(error, "The model cannot do this.")
            raise VideoRefused("invalid_start", message, param=param) from error
        except StageCallError as error:
            # Why it did not is in the log already, and is so once, however many ask meanwhile.
            log.warning("video.opening_failed", request_id=request.request_id, error=f"{error.code}: {error}")
            raise VideoRefused("generation_failed", "The video could not be begun.") from error
        except Exception as error:
            log.exception("video.opening_failed", request_id=request.request_id, exc_info=error)
            raise VideoRefused("generation_failed", "The video could not be begun.") from error
        return Opened(
            request=request,
            lead_s=start.streaming_buffer_seconds,
            capabilities=self._host.plugin.capabilities,
            model=model,
            state=state,
            encoder=encoder,
        )

    def started(self, opened: Opened) -> VideoStarted:
        """What the client is told of it."""
        capabilities = opened.capabilities
        return VideoStarted(
            request_id=self._request.request_id,
            format=self._start.format,
            mime_type=opened.encoder.mime_type,
            config=shown_config(self._request, self._host.model_name, self._start),
            chunk_frames=capabilities.chunk_frames,
            default_transition_chunks=capabilities.default_transition_chunks,
            supports_interaction=capabilities.supports_prompt_updates,
        )

    async def close(self) -> None:
        """Release the encoder and the model's part, of which nothing runs. Cannot be cancelled; idempotent."""
        encoder, model = self._encoder, self._model
        self._encoder = self._model = None
        with trio.CancelScope(shield=True):
            await self._release("encoder", None if encoder is None else encoder.discard)
            await self._release("model", None if model is None else model.close)

    async def _release(self, what: str, release: Callable[[], None] | None) -> None:
        if release is None:
            return
        try:
            await self._call(release)
        except Exception as error:
            log.exception(
                "video.release_failed", request_id=self._request.request_id, what=what, exc_info=error
            )

    def _make_encoder(self) -> VideoEncoder:
        request = self._request
        return self._encoders(
            self._start.format,
            width=request.width,
            height=request.height,
            fps=request.fps,
            payload_bytes_max=self._host.limits.payload_bytes_max,
        )
