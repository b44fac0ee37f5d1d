"""One picture in, one packet out: a codec of PyAV without delay, in the thread of whoever calls it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from attrs import frozen

from duplex_trio.plugin.video.plugin import Frame
from duplex_trio.video.encoders.errors import EncoderError, EncoderUnavailableError
from duplex_trio.video.encoders.packager import Sample

_INSTALL = "pip install 'duplex-trio[video]'"


@frozen(kw_only=True)
class CodecChoice:
    """Which codec, and how.

    Attributes:
        name: as FFmpeg calls it.
        options: of this codec alone.
        bt601: whether its pictures are in the colours of BT.601 rather than BT.709.
        bit_rate: what it is told of one; 0 is nothing.
        instead: what to do with a library that was built without it.
    """

    name: str
    options: Mapping[str, str]
    bt601: bool = False
    bit_rate: int = 0
    instead: str


class PictureCodec:
    """Encodes pictures of one size. Starts no thread: PyAV's way of turning colours would start one for each core.

    Raises:
        EncoderUnavailableError: PyAV is not installed, or was built without the codec.
        EncoderError: the codec cannot do with the size or the rate.
    """

    def __init__(self, choice: CodecChoice, *, width: int, height: int, rate: Fraction) -> None:
        try:
            import av
            from av.codec.context import Flags
            from av.video.frame import PictureType
            from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
        except ImportError as error:
            raise EncoderUnavailableError(
                f"Video needs PyAV ({error}). Install it with: {_INSTALL}"
            ) from error
        self._av = av
        self._shape = (height, width, 3)
        self._pts = 0
        self._kinds = {True: PictureType.I, False: PictureType.NONE}
        self._reformatter = VideoReformatter()
        self._into: dict[str, Any] = {
            "format": "yuv420p",
            "src_color_range": ColorRange.JPEG,
            "dst_colorspace": Colorspace.ITU601 if choice.bt601 else Colorspace.ITU709,
            "dst_color_range": ColorRange.MPEG,
            "interpolation": Interpolation.AREA,  # of the colours, which are halved: a mean of four
            "threads": 1,
        }
        try:
            context = av.CodecContext.create(choice.name, "w")
        except av.codec.codec.UnknownCodecError as error:
            raise EncoderUnavailableError(
                f"The PyAV that is installed was built without {choice.name}. {choice.instead}"
            ) from error
        context.width, context.height, context.pix_fmt = width, height, "yuv420p"
        context.time_base, context.framerate = 1 / rate, rate
        context.thread_count = 1
        context.flags |= Flags.global_header
        context.colorspace = Colorspace.SMPTE170M if choice.bt601 else Colorspace.ITU709
        context.color_range = ColorRange.MPEG
        context.color_primaries = context.color_trc = _BT709
        context.options = dict(choice.options)
        if choice.bit_rate:
            context.bit_rate = choice.bit_rate
        try:
            context.open()
        except av.FFmpegError as error:
            raise EncoderError(
                f"{choice.name} cannot encode {width}x{height} at {float(rate):g} fps: {error}"
            ) from error
        self._context: Any = context

    @property
    def extradata(self) -> bytes:
        """What a decoder needs before the first packet; empty if it needs nothing."""
        return bytes(self._context.extradata or b"")

    def encode(self, frame: Frame, *, keyframe: bool) -> Sample:
        """Encode a picture, which is not needed any more afterwards.

        Raises:
            EncoderError: it is not a picture of this video, or the codec failed or held it back.
        """
        if frame.shape != self._shape or frame.dtype != np.uint8:
            height, width, _ = self._shape
            raise EncoderError(
                f"A frame of this video is {width}x{height} in 8 bits, not {frame.dtype} of shape {frame.shape}."
            )
        try:
            picture = self._av.VideoFrame.from_numpy_buffer(np.ascontiguousarray(frame), format="rgb24")
            converted = self._reformatter.reformat(picture, **self._into)
            converted.pts = self._pts
            converted.pict_type = self._kinds[keyframe]
            packets = self._context.encode(converted)
        except self._av.FFmpegError as error:
            raise EncoderError(f"The codec failed: {error}") from error
        self._pts += 1
        if len(packets) != 1:
            raise EncoderError(f"The codec made {len(packets)} packets of one frame.")
        return Sample(bytes(packets[0]), bool(packets[0].is_keyframe))


_BT709 = 1
"""Primaries and transfer of both kinds of colours (ITU-T H.273, tables 2 and 3)."""
