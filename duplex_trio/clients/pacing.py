"""How a recording is cut for a real-time stream: which bytes, when, and which video frames ride along. No
clock in here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from duplex_trio.clients.config import AudioFormat

UNIT_MS = 1000
"""Length of a model unit: frame k belongs to the chunk that crosses 1000 + 1000 k ms."""


@frozen
class Chunk:
    """One piece of a stream.

    `start` and `end` are byte positions, `due_ms` is when its last sample has been spoken, `frames` are its
    video frames (at most the base frame and one composite).
    """

    start: int
    end: int
    due_ms: float
    frames: Sequence[str] = ()


def plan_chunks(
    byte_count: int,
    audio: AudioFormat,
    *,
    chunk_ms: float = 200,
    video_frames: Sequence[str] = (),
    stacked_video_frames: Sequence[str] = (),
) -> Iterator[Chunk]:
    """Cut `byte_count` bytes into chunks of `chunk_ms` (the last may be shorter).

    When the frames run out, the last one is held for the units that follow.

    Raises:
        ValueError: a chunk would hold no sample, or the bytes are no whole samples.
    """
    step = audio.byte_count(chunk_ms)
    if step <= 0:
        raise ValueError(f"chunk_ms={chunk_ms:g} holds no sample")
    if byte_count % audio.bytes_per_sample:
        raise ValueError(f"{byte_count} bytes are no whole samples of {audio.encoding}")
    units = 0
    for start in range(0, byte_count, step):
        end = min(start + step, byte_count)
        due_ms = audio.duration_ms(end)
        frames: Sequence[str] = ()
        if due_ms >= UNIT_MS * (units + 1):
            frames = tuple(f[min(units, len(f) - 1)] for f in (video_frames, stacked_video_frames) if f)
            units = int(due_ms // UNIT_MS)
        yield Chunk(start, end, due_ms, frames)
