"""Messages on the connection of a process, cut anywhere."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex_trio.stages.process.frames import (
    BUFFER_BYTES_MIN,
    MAGIC,
    OUTPUT,
    PREFIX,
    RECEIVE_BYTES,
    Frame,
    FrameReader,
    GarbledError,
    frame_of,
    to_bytes,
    unsent,
)

VALUES = st.one_of(
    st.text(max_size=50),
    st.integers(0, 3 * RECEIVE_BYTES).map(lambda size: bytes(size)),
    st.lists(st.integers(0, 2 * BUFFER_BYTES_MIN), max_size=4).map(
        lambda sizes: [np.arange(size, dtype=np.float32) for size in sizes]
    ),
    st.integers(RECEIVE_BYTES // 4 - 10, RECEIVE_BYTES // 2).map(lambda size: np.ones(size, np.float32)),
)


def feed(reader: FrameReader, data: bytes, cuts: list[int]) -> list[Frame]:
    """Receive in pieces of these sizes, over and over."""
    frames, turn = [], 0
    while data:
        target = reader.target()
        count = min(len(target), cuts[turn % len(cuts)], len(data))
        target[:count], data = data[:count], data[count:]
        frames += reader.received(count)
        turn += 1
    return frames


def plain(value: object) -> object:
    return [array.tolist() for array in value] if isinstance(value, list | np.ndarray) else value


@settings(max_examples=150, deadline=None)
@given(values=st.lists(VALUES, max_size=6), cuts=st.lists(st.integers(1, 2 * RECEIVE_BYTES), min_size=1))
def test_frames_are_the_same_however_they_are_cut(values: list[object], cuts: list[int]) -> None:
    sent = [frame_of(OUTPUT, number, value) for number, value in enumerate(values)]
    reader = FrameReader()
    if sum(cuts) / len(cuts) < 100:
        cuts = [*cuts, 1000]
    received = feed(reader, b"".join(bytes(piece) for frame in sent for piece in to_bytes(frame)), cuts)
    assert [frame.number for frame in received] == list(range(len(values)))
    assert [plain(frame.value()) for frame in received] == [plain(value) for value in values]
    assert reader.between_frames


def test_large_arrays_travel_beside_the_head_and_can_be_written_to() -> None:
    array = np.arange(100_000, dtype=np.float32)
    frame = frame_of(OUTPUT, 1, {"pcm": array, "small": np.zeros(10)})
    assert len(frame.head) < 1000
    assert [len(buffer) for buffer in frame.buffers] == [400_000]
    pieces = to_bytes(frame)
    assert np.shares_memory(np.frombuffer(pieces[1], np.float32), array)
    (received,) = feed(FrameReader(), b"".join(map(bytes, pieces)), [1 << 20])
    value = received.value()
    assert value["pcm"].tolist() == array.tolist()
    value["pcm"][0] = 1.0
    value["small"][0] = 1.0


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\n\r\n" * 3,
        PREFIX.pack(MAGIC, OUTPUT, 0, 1001, 0),
        PREFIX.pack(MAGIC, OUTPUT, 1, 0, 0) + (1 << 62).to_bytes(8, "little"),
        PREFIX.pack(MAGIC, OUTPUT, 1 << 30, 0, 0),
    ],
    ids=["another protocol", "a large head", "a large buffer", "many buffers"],
)
def test_nonsense_is_refused_before_room_is_made_for_it(data: bytes) -> None:
    with pytest.raises(GarbledError):
        feed(FrameReader(bytes_max=1000), data, [len(data)])


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_frames_or_refused(data: bytes) -> None:
    with suppress(GarbledError):
        feed(FrameReader(bytes_max=100), data, [7])


def test_what_is_too_large_is_not_sent() -> None:
    with pytest.raises(ValueError, match="2000 bytes are more than the 1000"):
        to_bytes(Frame(OUTPUT, head=bytes(2000)), bytes_max=1000)


@given(sizes=st.lists(st.integers(1, 5), max_size=6), data=st.data())
def test_what_is_left_to_send(sizes: list[int], data: st.DataObject) -> None:
    pieces = [memoryview(bytes([index] * size)) for index, size in enumerate(sizes)]
    sent = data.draw(st.integers(0, sum(sizes)))
    assert b"".join(map(bytes, unsent(pieces, sent))) == b"".join(map(bytes, pieces))[sent:]
