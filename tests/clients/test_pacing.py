from __future__ import annotations

import pytest

from duplex_trio.clients import AudioFormat
from duplex_trio.clients.pacing import Chunk, plan_chunks

PCM16 = AudioFormat("pcm16", 16000)


def test_chunks_cover_every_byte_and_are_due_when_spoken() -> None:
    chunks = list(plan_chunks(PCM16.byte_count(50), PCM16, chunk_ms=20))
    assert chunks == [Chunk(0, 640, 20), Chunk(640, 1280, 40), Chunk(1280, 1600, 50)]


def test_a_frame_rides_the_chunk_that_crosses_its_unit_and_the_last_is_held() -> None:
    chunks = plan_chunks(
        PCM16.byte_count(4000), PCM16, chunk_ms=300, video_frames=["a", "b"], stacked_video_frames=["A"]
    )
    assert {chunk.due_ms: chunk.frames for chunk in chunks if chunk.frames} == {
        1200: ("a", "A"),
        2100: ("b", "A"),
        3000: ("b", "A"),
        4000: ("b", "A"),
    }


@pytest.mark.parametrize(("byte_count", "chunk_ms"), [(3, 20), (640, 0.01), (640, 0)])
def test_what_cannot_be_cut_is_refused(byte_count: int, chunk_ms: float) -> None:
    with pytest.raises(ValueError, match="sample"):
        list(plan_chunks(byte_count, PCM16, chunk_ms=chunk_ms))
