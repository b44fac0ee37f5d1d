"""What a client gets of a video: payloads with what is said of them, and the sum of it all."""

from __future__ import annotations

from attrs import frozen

from duplex_trio.protocol.video import VideoChunkMetadata


@frozen
class VideoChunk:
    """One payload. All of them in order, the trailer's last, are one file.

    Attributes:
        metadata: what the server says of it.
        payload: bytes in the format of the video.
    """

    metadata: VideoChunkMetadata
    payload: bytes

    @property
    def trailer(self) -> bool:
        """Whether it is what the encoder writes at its end: no frames, an index for players that seek."""
        return self.metadata.kind == "trailer"

    @property
    def index(self) -> int:
        """Its place among the payloads, from 0."""
        return self.metadata.transport_chunk_index

    @property
    def generation_index(self) -> int | None:
        """The chunk as it was generated, from 0; a long one comes in several payloads. None for the trailer."""
        return self.metadata.generation_chunk_index

    @property
    def num_frames(self) -> int:
        """Frames that can be decoded from it, after the payloads before it."""
        return self.metadata.num_frames

    @property
    def started_event_ids(self) -> tuple[str, ...]:
        """Interactions that begin to show with it."""
        return self.metadata.started_event_ids

    @property
    def active_event_ids(self) -> tuple[str, ...]:
        """Interactions that it is under way to."""
        return self.metadata.active_event_ids

    @property
    def completed_event_ids(self) -> tuple[str, ...]:
        """Interactions that are wholly in force with it."""
        return self.metadata.completed_event_ids


@frozen
class VideoReceived:
    """How much of a video has come: whole payloads, read or not.

    Attributes:
        chunks: payloads, the trailer's among them.
        frames: frames in them.
        payload_bytes: their size.
    """

    chunks: int = 0
    frames: int = 0
    payload_bytes: int = 0

    def plus(self, chunk: VideoChunk) -> VideoReceived:
        """As much and one payload."""
        return VideoReceived(
            self.chunks + 1, self.frames + chunk.num_frames, self.payload_bytes + len(chunk.payload)
        )
