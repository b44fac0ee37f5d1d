"""What is said of each payload: which number it has, and which interactions it shows (video.md 3.5)."""

from __future__ import annotations

from attrs import define, field

from duplex_trio.protocol.video import VideoChunkMetadata
from duplex_trio.video.encoders.encoder import EncodedPayload
from duplex_trio.video.state.timeline import ResolvedChunk


@define
class _Ids:
    """The interactions of a chunk that has payloads to come."""

    started: tuple[str, ...]
    active: tuple[str, ...]
    completed: tuple[str, ...]


@define
class PairBook:
    """The pairs of one video: metadata and payload.

    An encoder may hold a chunk back, and may make several payloads of one; no id is lost either way.
    Started ids stand on the first payload of their chunk, completed ones on the last, active ones on each.

    Args:
        request_id: the video's.
    """

    request_id: str
    pairs: int = field(default=0, init=False)
    """Pairs that were numbered, the trailer's among them."""
    _chunks: dict[int, _Ids] = field(factory=dict, init=False)

    def resolved(self, chunk: ResolvedChunk[object]) -> None:
        """A chunk is going to be generated."""
        self._chunks[chunk.index] = _Ids(chunk.started, chunk.active, chunk.completed)

    def media(self, payload: EncodedPayload) -> VideoChunkMetadata:
        """The metadata of the pair that is sent next, one of a chunk that was resolved and has not had its last."""
        ids = self._chunks[payload.chunk]
        metadata = VideoChunkMetadata(
            request_id=self.request_id,
            kind="media",
            transport_chunk_index=self.pairs,
            generation_chunk_index=payload.chunk,
            num_frames=payload.num_frames,
            byte_length=len(payload.data),
            started_event_ids=ids.started,
            active_event_ids=ids.active,
            completed_event_ids=ids.completed if payload.last else (),
        )
        ids.started = ()
        if payload.last:
            del self._chunks[payload.chunk]
        self.pairs += 1
        return metadata

    def trailer(self, data: bytes) -> VideoChunkMetadata:
        """The metadata of the last pair, which is only sent if it has bytes."""
        metadata = VideoChunkMetadata(
            request_id=self.request_id,
            kind="trailer",
            transport_chunk_index=self.pairs,
            generation_chunk_index=None,
            num_frames=0,
            byte_length=len(data),
        )
        self.pairs += 1
        return metadata
