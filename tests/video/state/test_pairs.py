"""What is said of each payload: indices, ids, frames and bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.protocol.video import VideoChunkMetadata
from duplex_trio.video.encoders.encoder import EncodedPayload
from duplex_trio.video.state.pairs import PairBook
from duplex_trio.video.state.timeline import ResolvedChunk

Ids = tuple[str, ...]


def a_chunk(index: int, started: Ids = (), active: Ids = (), completed: Ids = ()) -> ResolvedChunk[str]:
    return ResolvedChunk(
        index=index,
        state="",
        changed=False,
        hard=False,
        started=started,
        active=active,
        completed=completed,
    )


def at_once(index: int, event_id: str) -> ResolvedChunk[str]:
    return a_chunk(index, (event_id,), (event_id,), (event_id,))


def a_payload(chunk: int, frames: int = 9, data: bytes = b"data", *, last: bool = True) -> EncodedPayload:
    return EncodedPayload(chunk, data, frames, last)


def numbers(metadata: VideoChunkMetadata) -> tuple[int, int | None, int]:
    return metadata.transport_chunk_index, metadata.generation_chunk_index, metadata.num_frames


def ids(metadata: VideoChunkMetadata) -> tuple[Ids, Ids, Ids]:
    return metadata.started_event_ids, metadata.active_event_ids, metadata.completed_event_ids


def test_w18_pairs_are_numbered_through_and_the_last_chunk_may_be_short() -> None:
    book = PairBook("r")
    told = []
    for index, frames in enumerate((9, 9, 2)):
        book.resolved(a_chunk(index))
        told.append(book.media(a_payload(index, frames)))
    told.append(book.trailer(b"mfra"))
    assert [numbers(metadata) for metadata in told] == [(0, 0, 9), (1, 1, 9), (2, 2, 2), (3, None, 0)]
    assert [metadata.kind for metadata in told] == ["media", "media", "media", "trailer"]
    assert {metadata.request_id for metadata in told} == {"r"}
    assert [metadata.byte_length for metadata in told] == [4, 4, 4, 4]
    assert (book.pairs, sum(metadata.num_frames for metadata in told)) == (4, 20)


def test_w19_an_encoder_that_holds_a_chunk_back_loses_no_id() -> None:
    book = PairBook("r")
    book.resolved(a_chunk(0))
    book.resolved(at_once(1, "a"))
    first = book.media(a_payload(0))
    book.resolved(a_chunk(2))
    told = [first, book.media(a_payload(1)), book.media(a_payload(2)), book.trailer(b"t")]
    assert [numbers(metadata)[:2] for metadata in told] == [(0, 0), (1, 1), (2, 2), (3, None)]
    assert [ids(metadata) for metadata in told] == [
        ((), (), ()),
        (("a",), ("a",), ("a",)),
        ((), (), ()),
        ((), (), ()),
    ]


def test_w20_a_chunk_in_two_payloads_starts_with_the_first_and_completes_with_the_last() -> None:
    book = PairBook("r")
    for chunk in (a_chunk(0), at_once(1, "a"), a_chunk(2)):
        book.resolved(chunk)
    told = [
        book.media(a_payload(0)),
        book.media(a_payload(1, 5, last=False)),
        book.media(a_payload(1, 4)),
        book.media(a_payload(2)),
    ]
    assert [numbers(metadata) for metadata in told] == [(0, 0, 9), (1, 1, 5), (2, 1, 4), (3, 2, 9)]
    assert ids(told[1]) == (("a",), ("a",), ())
    assert ids(told[2]) == ((), ("a",), ("a",))
    assert sum(metadata.num_frames for metadata in told) == 27


def test_a_chunk_that_was_never_resolved_has_no_pair() -> None:
    """Nor has one that is over."""
    book = PairBook("r")
    book.resolved(a_chunk(0))
    book.media(a_payload(0))
    for chunk in (0, 1):
        with pytest.raises(KeyError):
            book.media(a_payload(chunk))
    assert book.pairs == 1


@given(
    chunks=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=6),
    held=st.integers(0, 3),
)
def test_nothing_is_lost_however_it_is_cut_and_held(chunks: list[list[int]], held: int) -> None:
    """Each id starts once and completes once, in this order; frames add up; indices have no gap."""
    book = PairBook("r")
    told: list[VideoChunkMetadata] = []

    def give(index: int) -> None:
        for part, frames in enumerate(chunks[index]):
            last = part == len(chunks[index]) - 1
            told.append(book.media(a_payload(index, frames, bytes(frames), last=last)))

    for index in range(len(chunks)):
        book.resolved(at_once(index, f"i{index}"))
        if index >= held:
            give(index - held)
    for index in range(max(0, len(chunks) - held), len(chunks)):
        give(index)
    names = [f"i{index}" for index in range(len(chunks))]
    assert [name for metadata in told for name in metadata.started_event_ids] == names
    assert [name for metadata in told for name in metadata.completed_event_ids] == names
    assert all(metadata.active_event_ids == (f"i{metadata.generation_chunk_index}",) for metadata in told)
    assert [metadata.transport_chunk_index for metadata in told] == list(range(book.pairs))
    frames = sum(metadata.num_frames for metadata in told)
    assert frames == sum(map(sum, chunks)) == sum(metadata.byte_length for metadata in told)
