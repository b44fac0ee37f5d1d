"""An encoder made of a codec without delay and a packager without delay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from duplex_trio.plugin.video.plugin import Frame
from duplex_trio.video.encoders.codec import PictureCodec
from duplex_trio.video.encoders.encoder import EncodedPayload, VideoEncoder
from duplex_trio.video.encoders.errors import EncoderError
from duplex_trio.video.encoders.packager import Packager, Sample, cut


class PackagedEncoder(VideoEncoder):
    """Makes one payload of a chunk, or several where one would be too long; holds no frame back.

    Each chunk begins with a keyframe, so that a player can drop what it has played, and a file can be searched.

    A chunk whose frames raise is forgotten: the codec has seen some of them, but the next chunk refers to none of
    them, and gets their numbers and their times.
    """

    def __init__(
        self, codec: PictureCodec, packager: Packager, *, mime_type: str, payload_bytes_max: int
    ) -> None:
        self.mime_type = mime_type
        self._codec: PictureCodec | None = codec
        self._packager = packager
        self._payload_bytes_max = payload_bytes_max
        self._chunks = 0

    def encode(self, frames: Iterable[Frame]) -> Sequence[EncodedPayload]:
        """Encode a chunk. A frame that alone is longer than a payload may be is one nevertheless.

        Raises:
            EncoderError: a frame is not of this video, the codec failed, or the video has ended.
        """
        samples: list[Sample] = []
        for frame in frames:
            if self._codec is None:
                raise EncoderError("This video has ended.")
            samples.append(self._sample(self._codec, frame, keyframe=not samples))
        if not samples:
            return ()
        head = self._packager.header if self._chunks == 0 else b""
        parts = list(cut(samples, self._packager, self._payload_bytes_max, taken=len(head)))
        payloads = []
        for index, part in enumerate(parts):
            data = self._packager.part(part)
            payload = EncodedPayload(
                chunk=self._chunks,
                data=head + data if index == 0 else data,
                num_frames=len(part),
                last=index == len(parts) - 1,
            )
            payloads.append(payload)
        self._chunks += 1
        return payloads

    def close(self) -> tuple[Sequence[EncodedPayload], bytes]:
        """End the video: nothing was held back, and the trailer is an index."""
        self.discard()
        return (), self._packager.trailer()

    def discard(self) -> None:
        """Let the codec go."""
        self._codec = None

    def _sample(self, codec: PictureCodec, frame: Frame, *, keyframe: bool) -> Sample:
        return codec.encode(frame, keyframe=keyframe)
