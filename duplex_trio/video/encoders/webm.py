"""VP8 in WebM: `format` `webm`, for whoever wants no part under the GPL."""

from __future__ import annotations

from duplex_trio.video.encoders.codec import CodecChoice, PictureCodec
from duplex_trio.video.encoders.matroska import WebmPackager
from duplex_trio.video.encoders.packaged import PackagedEncoder
from duplex_trio.video.encoders.rates import exact_rate

_QUANTIZER = "20"
"""Of 0 to 63: about as good as what x264 makes here, for as many bytes. Fixed, for pictures that depend on no clock."""
_VP8 = CodecChoice(
    name="libvpx",
    options={
        "deadline": "realtime",
        "cpu-used": "-10",  # how much is tried, fixed: a positive number lets it depend on the time that it takes
        "lag-in-frames": "0",
        "qmin": _QUANTIZER,
        "qmax": _QUANTIZER,
        "g": str(2**20),  # keyframes come where they are asked for
    },
    bt601=True,
    bit_rate=10_000_000,
    instead="Ask for format 'm4s', or install PyAV from its wheel: pip install --force-reinstall av",
)


class WebmEncoder(PackagedEncoder):
    """Encodes with libvpx, for MediaSource and for files alike.

    Raises:
        EncoderUnavailableError: PyAV is not installed, or has no libvpx.
        EncoderError: libvpx cannot do with the size or the rate.
    """

    def __init__(self, *, width: int, height: int, fps: float, payload_bytes_max: int) -> None:
        rate = exact_rate(fps)
        super().__init__(
            PictureCodec(_VP8, width=width, height=height, rate=rate),
            WebmPackager(width=width, height=height, rate=rate),
            mime_type='video/webm; codecs="vp8"',
            payload_bytes_max=payload_bytes_max,
        )
