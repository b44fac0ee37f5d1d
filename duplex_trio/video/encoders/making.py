"""Making the encoder that a request asks for."""

from __future__ import annotations

from collections.abc import Mapping

from duplex_trio.protocol.video.messages import VideoFormat
from duplex_trio.video.encoders.encoder import VideoEncoder
from duplex_trio.video.encoders.errors import EncoderError, EncoderUnavailableError
from duplex_trio.video.encoders.mp4 import Mp4Encoder
from duplex_trio.video.encoders.webm import WebmEncoder

__all__ = ["EncoderError", "EncoderUnavailableError", "make_encoder"]

_ENCODERS: Mapping[VideoFormat, type[Mp4Encoder | WebmEncoder]] = {"m4s": Mp4Encoder, "webm": WebmEncoder}


def make_encoder(
    format: VideoFormat,
    *,
    width: int,
    height: int,
    fps: float,
    payload_bytes_max: int,
) -> VideoEncoder:
    """The encoder of one video. Takes milliseconds; blocking.

    Args:
        format: `m4s` is H.264 in fragmented MP4, `webm` is VP8 in WebM.
        width: pixels, an even number.
        height: pixels, an even number.
        fps: frames a second; each is shown equally long.
        payload_bytes_max: chunks that take more are divided between their frames.

    Raises:
        EncoderUnavailableError: PyAV is not installed, or lacks the codec. The message says what to do.
        EncoderError: the codec cannot do with the size or the rate.
    """
    made = _ENCODERS[format]
    return made(width=width, height=height, fps=fps, payload_bytes_max=payload_bytes_max)
