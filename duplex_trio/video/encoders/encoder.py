"""The seam between a video and its form on the wire: one encoder per video, used by the video's own thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from attrs import frozen

from duplex_trio.plugin.video.plugin import Frame


@frozen
class EncodedPayload:
    """Bytes that go out as one message.

    Attributes:
        chunk: the generation chunk whose frames they hold.
        data: the bytes; all payloads in order, and the trailer behind them, are one file.
        num_frames: frames that can be decoded from them once all payloads before have been.
        last: whether they are the last of their chunk.
    """

    chunk: int
    data: bytes
    num_frames: int
    last: bool = True


class VideoEncoder(ABC):
    """Makes the payloads of one video. Blocking; from one thread at a time.

    Attributes:
        mime_type: with the codec that it really uses, as MediaSource wants it; known before the first frame.
    """

    mime_type: str

    @abstractmethod
    def encode(self, frames: Iterable[Frame]) -> Sequence[EncodedPayload]:
        """Encode the next chunk; its frames are taken one by one.

        The first payload of all begins with what a decoder needs first. An encoder that holds frames back returns
        payloads of earlier chunks, or none; what it returns are whole chunks, or all parts of a chunk that is too
        large for one payload, in order. A chunk without frames, or one whose iteration raised, is no chunk: it does
        not count, and nothing comes of it.
        """

    @abstractmethod
    def close(self) -> tuple[Sequence[EncodedPayload], bytes]:
        """End the video: what was held back, and the trailer, which may be empty. Called once; nothing follows it."""

    @abstractmethod
    def discard(self) -> None:
        """Release everything without an end. May be called at any time and more than once, also after `close`."""
