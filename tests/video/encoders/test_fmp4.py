"""The boxes are read back by a walker of this file, which shares nothing with what wrote them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duplex_trio.video.encoders.fmp4 import FragmentedMp4
from duplex_trio.video.encoders.h264 import ParameterSets
from duplex_trio.video.encoders.packager import Sample, cut
from duplex_trio.video.encoders.rates import exact_rate

PARAMETERS = ParameterSets(b"\x67\x42\xc0\x0d\xda\x04\x02\x1a", b"\x68\xce\x0f\xc8")
CONTAINERS = {b"moov", b"trak", b"mdia", b"minf", b"dinf", b"stbl", b"mvex", b"moof", b"traf", b"mfra"}


def walk(data: bytes, at: int = 0, path: str = "") -> Iterator[tuple[str, int, bytes]]:
    """Every box: its path, where it begins, its content. Boxes fill their parent exactly."""
    end = at + len(data)
    begin = at
    while at < end:
        size, kind = struct.unpack_from(">I4s", data, at - begin)
        assert 8 <= size <= end - at, kind
        content = data[at - begin + 8 : at - begin + size]
        name = f"{path}/{kind.decode()}"
        yield name, at, content
        if kind in CONTAINERS:
            yield from walk(content, at + 8, name)
        at += size


def contents(data: bytes) -> dict[str, bytes]:
    return {path: content for path, _, content in walk(data)}


def samples(*sizes: int, key: int = 0) -> list[Sample]:
    return [Sample(bytes([index % 256]) * size, keyframe=index == key) for index, size in enumerate(sizes)]


def packager(fps: float = 24, width: int = 66, height: int = 98) -> FragmentedMp4:
    return FragmentedMp4(PARAMETERS, width=width, height=height, rate=exact_rate(fps))


def timescale(header: bytes) -> int:
    return struct.unpack_from(">I", contents(header)["/moov/trak/mdia/mdhd"], 12)[0]


def test_the_header_tells_the_track_and_no_sample() -> None:
    boxes = contents(packager().header)
    assert [path for path in boxes if path.count("/") == 1] == ["/ftyp", "/moov"]
    assert boxes["/ftyp"][:4] == b"iso6"
    assert struct.unpack_from(">II", boxes["/moov/trak/tkhd"], 76) == (66 << 16, 98 << 16)
    entry = boxes["/moov/trak/mdia/minf/stbl/stsd"]
    assert entry[12:16] == b"avc1"
    assert struct.unpack_from(">HH", entry, 16 + 24) == (66, 98)
    inner = contents(entry[16 + 78 :])
    assert set(inner) == {"/avcC", "/colr", "/pasp"}
    assert inner["/avcC"][1:4] == PARAMETERS.sps[1:4]
    assert inner["/colr"] == b"nclx" + struct.pack(">HHHB", 1, 1, 1, 0)  # BT.709, not the full range
    for table in ("stts", "stsc", "stco"):
        assert boxes[f"/moov/trak/mdia/minf/stbl/{table}"] == bytes(8)
    assert boxes["/moov/trak/mdia/hdlr"][8:12] == b"vide"


@pytest.mark.parametrize("fps", [1, 12.5, 16, 23.976, 24000 / 1001, 29.97, 59.94, 60])
def test_frames_last_exactly_as_the_rate_says(fps: float) -> None:
    made = packager(fps)
    scale = timescale(made.header)
    assert 10_000 <= scale < 2**32
    boxes = [contents(made.part(samples(3, 3, 3))) for _ in range(1000)]
    duration = struct.unpack_from(">I", boxes[0]["/moof/traf/tfhd"], 8)[0]
    assert Fraction(scale, duration) == exact_rate(fps)
    starts = [struct.unpack_from(">Q", each["/moof/traf/tfdt"], 4)[0] for each in boxes]
    assert starts == [3 * part * duration for part in range(1000)]  # no rounding that adds up


def test_rates_are_found_in_their_digits() -> None:
    assert exact_rate(23.976) == Fraction(2997, 125)
    assert exact_rate(24000 / 1001) == Fraction(24000, 1001)
    assert exact_rate(12.5) == Fraction(25, 2)
    assert exact_rate(60) == 60


@pytest.mark.parametrize("fps", [0, -1, float("inf"), float("nan")])
def test_what_is_no_rate_is_refused(fps: float) -> None:
    with pytest.raises(ValueError, match="not a rate"):
        exact_rate(fps)


@given(fps=st.floats(1, 60))
@example(fps=1 + 1 / 140_000)
def test_any_rate_is_kept_within_a_hundredth_of_a_frame_over_ten_minutes(fps: float) -> None:
    assert abs(exact_rate(fps) - Fraction(fps)) * 600 < Fraction(1, 100)


def test_a_part_tells_its_samples_and_where_they_are() -> None:
    made = packager()
    made.part(samples(5))
    taken = samples(7, 2, 4)
    part = made.part(taken)
    boxes = contents(part)
    assert list(boxes) == [
        "/moof",
        "/moof/mfhd",
        "/moof/traf",
        "/moof/traf/tfhd",
        "/moof/traf/tfdt",
        "/moof/traf/trun",
        "/mdat",
    ]
    assert struct.unpack(">II", boxes["/moof/mfhd"]) == (0, 2)
    flags, count, data_at = struct.unpack_from(">IIi", boxes["/moof/traf/trun"])
    assert (flags, count) == (0x601, 3)
    table = list(struct.iter_unpack(">II", boxes["/moof/traf/trun"][12:]))
    assert table == [(7, 0x02000000), (2, 0x01010000), (4, 0x01010000)]
    assert part[data_at:] == b"".join(sample.data for sample in taken)
    assert boxes["/mdat"] == part[data_at:]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=20))
def test_the_length_of_a_part_is_known_before(sizes: list[int]) -> None:
    made = packager()
    assert made.bytes_max(len(sizes), sum(sizes)) == len(made.part(samples(*sizes)))


def test_the_trailer_leads_to_every_part_that_begins_with_a_keyframe() -> None:
    made = packager(23.976)
    data = made.header
    began = []
    for number in range(40):
        key = 0 if number % 3 == 0 else -1
        if key == 0:
            began.append((len(data), number))
        data += made.part(samples(4, 9, key=key))
    trailer = made.trailer()
    data += trailer
    boxes = {path: content for path, _, content in walk(data)}
    version_flags, track, lengths, count = struct.unpack_from(">IIII", boxes["/mfra/tfra"])
    assert (version_flags >> 24, track, lengths, count) == (1, 1, 0, 14)
    entries = [struct.unpack_from(">QQ", boxes["/mfra/tfra"], 16 + 19 * index) for index in range(count)]
    duration = struct.unpack_from(">I", contents(made.part(samples(1)))["/moof/traf/tfhd"], 8)[0]
    assert entries == [(number * 2 * duration, offset) for offset, number in began]
    moofs = {at for path, at, _ in walk(data) if path == "/moof"}
    assert {offset for _, offset in entries} <= moofs
    # Readers find the index from the file's end.
    (back,) = struct.unpack(">I", data[-4:])
    assert data[-back:] == trailer


def test_without_a_frame_there_is_no_trailer() -> None:
    assert packager().trailer() == b""


@given(st.lists(st.integers(1, 900), min_size=1, max_size=30), st.integers(0, 800), st.integers(300, 1500))
def test_parts_are_cut_as_large_as_may_be(sizes: list[int], taken: int, bytes_max: int) -> None:
    made = packager()
    whole = samples(*sizes)
    parts = list(cut(whole, made, bytes_max, taken=taken))
    assert [sample for part in parts for sample in part] == whole
    lengths = [made.bytes_max(len(part), sum(len(sample.data) for sample in part)) for part in parts]
    lengths[0] += taken
    for index, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        assert length <= bytes_max or len(part) == 1
        if index + 1 < len(parts):
            assert (
                length + 8 + len(parts[index + 1][0].data) > bytes_max
            )  # the next one would not have fitted
