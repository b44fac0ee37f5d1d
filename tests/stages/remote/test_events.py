from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.stages.remote.events import EVENT_BYTES_MAX, EventReader, EventTooLongError


def read(*parts: bytes) -> list[str]:
    reader = EventReader()
    events = [event for part in parts for event in reader.feed(part)]
    return events + reader.end()


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data\n\n", [""]),
        (b": ping\n\ndata: a\n: ping\n\n", ["a"]),
        (b"event: x\nid: 7\nretry: 10\ndata: a\n\n", ["a"]),
        (b"event: x\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: a", ["a"]),
        (b"data: a\n", ["a"]),
        (b"database: a\n\n", []),
        ("data: é\u2028\x85\x0b\x1c漢😀\n\n".encode(), ["é\u2028\x85\x0b\x1c漢😀"]),
        (b"data: \xff\n\n", ["\N{REPLACEMENT CHARACTER}"]),
        (b"", []),
        (b"\n\n\n", []),
    ],
)
def test_events_are_read_as_the_standard_says(stream: bytes, events: list[str]) -> None:
    assert read(stream) == events


lines = st.lists(
    st.sampled_from(
        [
            "data: {}",
            "data:",
            "data: é漢😀\u2028\x85",
            ": a comment",
            "event: x",
            "data: [DONE]",
            "",
            "id",
            "junk",
        ]
    ),
    max_size=12,
)


@given(
    lines=lines,
    ends=st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=12, max_size=12),
    data=st.data(),
)
def test_events_do_not_depend_on_how_the_bytes_are_cut(
    lines: list[str], ends: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(line.encode() + end for line, end in zip(lines, ends, strict=False))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    parts = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*parts) == read(stream)
    assert read(*(bytes([byte]) for byte in stream)) == read(stream)


@given(stream=st.binary(max_size=200), cut=st.integers(0, 200))
def test_rubbish_is_read_without_a_word_however_it_is_cut(stream: bytes, cut: int) -> None:
    assert read(stream[:cut], stream[cut:]) == read(stream)


def test_a_lone_return_ends_its_line_at_once() -> None:
    reader = EventReader()
    assert reader.feed(b"data: a\r\r") == ["a"]
    assert reader.feed(b"\ndata: b\n\n") == ["b"]


def test_an_endless_line_is_given_up() -> None:
    reader = EventReader()
    assert reader.feed(b"x" * EVENT_BYTES_MAX) == []
    with pytest.raises(EventTooLongError):
        reader.feed(b"x")


def test_an_endless_event_is_given_up() -> None:
    reader = EventReader()
    half = b"data: " + b"x" * (EVENT_BYTES_MAX // 2) + b"\n"
    assert reader.feed(half) == []
    with pytest.raises(EventTooLongError):
        reader.feed(half)
