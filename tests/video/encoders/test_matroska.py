"""The elements are read back by a walker of this file, which shares nothing with what wrote them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.video.encoders.ebml import element, size, text, unsigned
from duplex_trio.video.encoders.matroska import WebmPackager
from duplex_trio.video.encoders.packager import Sample
from duplex_trio.video.encoders.rates import exact_rate

SEGMENT, CLUSTER, CUES = 0x18538067, 0x1F43B675, 0x1C53BB6B
MASTERS = {0x1A45DFA3, SEGMENT, 0x1549A966, 0x1654AE6B, 0xAE, 0xE0, 0x55B0, CLUSTER, CUES, 0xBB, 0xB7}
UNKNOWN = (1 << 56) - 1


def _vint(data: bytes, at: int, *, marked: bool) -> tuple[int, int]:
    length = 9 - data[at].bit_length()
    value = int.from_bytes(data[at : at + length], "big")
    return (value if marked else value & ((1 << 7 * length) - 1)), at + length


def walk(
    data: bytes, at: int, end: int, path: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], int, bytes]]:
    """Every element: its path, where it begins, its content."""
    while at < end:
        begin = at
        identifier, at = _vint(data, at, marked=True)
        length, at = _vint(data, at, marked=False)
        last = end if length == UNKNOWN else at + length
        assert last <= end
        yield (*path, identifier), begin, data[at:last]
        if identifier in MASTERS:
            yield from walk(data, at, last, (*path, identifier))
        at = last


def elements(data: bytes) -> list[tuple[tuple[int, ...], int, bytes]]:
    return list(walk(data, 0, len(data)))


def numbers(data: bytes, identifier: int) -> list[int]:
    return [int.from_bytes(content, "big") for path, _, content in elements(data) if path[-1] == identifier]


def samples(*sizes: int, key: int = 0) -> list[Sample]:
    return [
        Sample(bytes([index % 256]) * length, keyframe=index == key) for index, length in enumerate(sizes)
    ]


def packager(fps: float = 24) -> WebmPackager:
    return WebmPackager(width=66, height=98, rate=exact_rate(fps))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "80"),
        (1, "81"),
        (126, "fe"),
        (127, "407f"),  # 0xff would be unknown
        (128, "4080"),
        (16382, "7ffe"),
        (16383, "203fff"),
        (2**28 - 1, "080fffffff"),
    ],
)
def test_sizes_are_as_short_as_they_may_be(value: int, written: str) -> None:
    assert size(value).hex() == written


@given(st.integers(0, 2**56 - 2))
def test_a_size_is_read_back(value: int) -> None:
    written = size(value)
    assert _vint(written, 0, marked=False) == (value, len(written))


def test_elements_hold_values() -> None:
    assert unsigned(0xD7, 0).hex() == "d78100"
    assert unsigned(0x2AD7B1, 1_000_000).hex() == "2ad7b1830f4240"
    assert text(0x86, "V_VP8").hex() == "8685565f565038"
    assert element(0xAE, b"ab", b"c").hex() == "ae83616263"


def test_the_header_tells_the_track() -> None:
    header = packager(23.976).header
    assert numbers(header, 0xB0) == [66]
    assert numbers(header, 0xBA) == [98]
    assert numbers(header, 0x2AD7B1) == [1_000_000]
    assert numbers(header, 0x23E383) == [41_708_375]  # 1 / 23.976 s in nanoseconds
    kinds = [path for path, _, _ in elements(header)]
    assert kinds.index((0x1A45DFA3,)) == 0
    assert (SEGMENT, 0x1654AE6B, 0xAE, 0x86) in kinds


@pytest.mark.parametrize("fps", [1, 12.5, 16, 23.976, 60])
def test_times_are_rounded_and_do_not_drift(fps: float) -> None:
    made = packager(fps)
    data = made.header + b"".join(made.part(samples(*([4] * 7))) for _ in range(300))
    shown = []
    cluster = 0
    for path, _, content in elements(data):
        if path == (SEGMENT, CLUSTER, 0xE7):
            cluster = int.from_bytes(content, "big")
        elif path == (SEGMENT, CLUSTER, 0xA3):
            track, relative, flags = struct.unpack_from(">BhB", content)
            assert track == 0x81
            assert (flags == 0x80) == (len(shown) % 7 == 0)
            shown.append(cluster + relative)
    assert shown == [round(frame * 1000 / exact_rate(fps)) for frame in range(2100)]


def test_long_parts_are_several_clusters() -> None:
    made = packager(1)
    part = made.part(samples(*([1] * 100)))
    assert numbers(made.header + part, 0xE7) == [0, 30_000, 60_000, 90_000]
    assert len(part) <= made.bytes_max(100, 100) + 4 * 30


@given(st.lists(st.integers(0, 300), min_size=1, max_size=20), st.floats(1, 60))
def test_the_length_of_a_part_is_bounded_before(sizes: list[int], fps: float) -> None:
    made = packager(fps)
    bound = made.bytes_max(len(sizes), sum(sizes))
    assert bound - 32 - 16 * len(sizes) <= len(made.part(samples(*sizes))) <= bound


def test_the_trailer_leads_to_every_cluster_that_begins_with_a_keyframe() -> None:
    made = packager(23.976)
    data = made.header
    began = []
    for number in range(40):
        key = 0 if number % 3 == 0 else -1
        if key == 0:
            began.append((round(number * 2 * 1000 / exact_rate(23.976)), len(data)))
        data += made.part(samples(4, 900, key=key))
    data += made.trailer()
    # The walker finds the segment's content behind its identifier of four bytes and its size of eight.
    (segment,) = (begin for path, begin, _ in elements(data) if path == (SEGMENT,))
    clusters = {begin for path, begin, _ in elements(data) if path == (SEGMENT, CLUSTER)}
    found = list(zip(numbers(data, 0xB3), numbers(data, 0xF1), strict=True))
    assert [(shown_ms, segment + 12 + offset) for shown_ms, offset in found] == began
    assert {segment + 12 + offset for _, offset in found} <= clusters
    assert elements(data)[-1][0][:2] == (SEGMENT, CUES)


def test_without_a_frame_there_is_no_trailer() -> None:
    assert packager().trailer() == b""
