"""What a video counts while it goes on, and tells when it has ended."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from duplex_trio.protocol.video import VideoChunkMetadata
from duplex_trio.video.host import VideoFigures


@define(eq=False)
class VideoTally:
    """Figures in the making; those of the thread are added when it has come back.

    Attributes:
        chunks: chunks generated: rendered and encoded to their end.
        frames: frames sent.
        payload_bytes: bytes of binary messages sent.
        pairs: pairs sent.
        unread: interactions that were refused before anybody looked at what they want.
        render_s: spent in the model.
        encode_s: spent in the encoder.
    """

    chunks: int = 0
    frames: int = 0
    payload_bytes: int = 0
    pairs: int = 0
    unread: int = 0
    render_s: float = 0.0
    encode_s: float = 0.0
    _arrived_s: dict[str, float] = field(factory=dict)
    _switch_s: list[float] = field(factory=list)

    def arrived(self, event_id: str, now_s: float) -> None:
        """An interaction has been admitted."""
        self._arrived_s[event_id] = now_s

    def gone(self, event_id: str) -> None:
        """An interaction will not start."""
        self._arrived_s.pop(event_id, None)

    def sent(self, metadata: VideoChunkMetadata, now_s: float) -> None:
        """A pair has been written."""
        self.pairs += 1
        self.frames += metadata.num_frames
        self.payload_bytes += metadata.byte_length
        for event_id in metadata.started_event_ids:
            arrived_s = self._arrived_s.pop(event_id, None)
            if arrived_s is not None:
                self._switch_s.append(now_s - arrived_s)

    def figures(self, outcome: str, interactions: Mapping[str, int]) -> VideoFigures:
        """All of it.

        Args:
            outcome: how the video ended.
            interactions: how many of those that were read came to which outcome.
        """
        counted = dict(interactions)
        if self.unread:
            counted["refused"] = counted.get("refused", 0) + self.unread
        return VideoFigures(
            outcome=outcome,
            chunks=self.chunks,
            frames=self.frames,
            payload_bytes=self.payload_bytes,
            interactions=counted,
            render_s=self.render_s,
            encode_s=self.encode_s,
            switch_s=tuple(self._switch_s),
        )
