"""An encoder of videos that changes nothing: frames as they are, one behind the other."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from attrs import define, field

from duplex_trio.plugin.video.plugin import Frame
from duplex_trio.video.encoders.encoder import EncodedPayload, VideoEncoder

TRAILER = b"trailer"


@define(eq=False)
class RawEncoder(VideoEncoder):
    """Packs raw frames.

    Args:
        held: chunks that it holds back.
        parts: payloads of a chunk, by its index; one for all others.
        fail_at: the chunk at which it breaks.
        trailer: what it ends with.

    Attributes:
        chunks: chunks that were encoded to their end.
        closed: how often it was closed.
        discarded: how often it was released.
    """

    held: int = 0
    parts: Mapping[int, int] = field(factory=dict)
    fail_at: int | None = None
    trailer: bytes = TRAILER
    chunks: int = 0
    closed: int = 0
    discarded: int = 0
    mime_type = "video/raw"
    _waiting: deque[list[EncodedPayload]] = field(factory=deque)

    def encode(self, frames: Iterable[Frame]) -> Sequence[EncodedPayload]:
        """Pack a chunk, and give back the one that is due."""
        packed = [frame.tobytes() for frame in frames]
        if self.chunks == self.fail_at:
            raise RuntimeError(f"scripted failure at chunk {self.chunks}")
        count = self.parts.get(self.chunks, 1)
        borders = [len(packed) * part // count for part in range(count + 1)]
        self._waiting.append(
            [
                EncodedPayload(self.chunks, b"".join(packed[a:b]), b - a, last=b == len(packed))
                for a, b in itertools.pairwise(borders)
            ]
        )
        self.chunks += 1
        return self._waiting.popleft() if len(self._waiting) > self.held else []

    def close(self) -> tuple[Sequence[EncodedPayload], bytes]:
        """What was held back, and the trailer."""
        self.closed += 1
        rest = [payload for chunk in self._waiting for payload in chunk]
        self._waiting.clear()
        return rest, self.trailer

    def discard(self) -> None:
        """Forget everything."""
        self.discarded += 1
        self._waiting.clear()


def unpacked(data: bytes, side: int = 64) -> list[Frame]:
    """The frames of a payload of square pictures."""
    return list(np.frombuffer(data, np.uint8).reshape(-1, side, side, 3))
