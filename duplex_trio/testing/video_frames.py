"""Decoding what a video sent: pictures and their times from payloads that were put together."""

from __future__ import annotations

import io
from collections.abc import Iterator
from fractions import Fraction

from attrs import frozen

from duplex_trio.plugin.video.plugin import Frame


@frozen
class ShownFrame:
    """One decoded picture.

    Attributes:
        pixels: shape (height, width, 3), uint8, red, green and blue.
        shown_s: when it is shown, in seconds from the start of the video, as exactly as the container tells it.
    """

    pixels: Frame
    shown_s: Fraction


def shown_frames(data: bytes) -> Iterator[ShownFrame]:
    """Decode payloads that were put together, in either format; the trailer may be there or not.

    Raises:
        av.FFmpegError: they are no video.
    """
    import av

    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.video[0]
        stream.thread_count = 1
        for frame in container.decode(stream):
            if frame.pts is None or frame.time_base is None:
                raise ValueError("a frame without a time")
            yield ShownFrame(frame.to_ndarray(format="rgb24"), frame.pts * frame.time_base)


def decode_frames(data: bytes) -> list[Frame]:
    """The pictures of payloads that were put together, in either format; the trailer may be there or not.

    Raises:
        av.FFmpegError: they are no video.
    """
    return [frame.pixels for frame in shown_frames(data)]
