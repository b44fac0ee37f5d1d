"""The frame layer: every rule, every way to cut the bytes, and the same as `websockets` on what nobody thought of."""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from websockets.frames import Close, Opcode
from websockets.protocol import OPEN, SERVER, Protocol

from duplex_trio.serving.native.frames import (
    BinaryMessage,
    FrameDecoder,
    PeerClose,
    Ping,
    Received,
    Violation,
    close_frame,
    encode_frame,
    text_frame,
)
from duplex_trio.testing.raw_websocket import BINARY, CLOSE, FIN, MASK, PING, PONG, TEXT, frame

LIMIT = 1000


def decode(*pieces: bytes, limit: int = LIMIT) -> list[Received]:
    decoder = FrameDecoder(limit)
    return [received for piece in pieces for received in decoder.feed(piece)]


def every_cut(data: bytes, limit: int = LIMIT) -> list[Received]:
    """Decode whole, byte by byte and cut in two anywhere; all must agree."""
    whole = decode(data, limit=limit)
    assert decode(*(data[i : i + 1] for i in range(len(data))), limit=limit) == whole
    for cut in range(1, len(data)):
        assert decode(data[:cut], data[cut:], limit=limit) == whole
    return whole


GOOD: dict[str, tuple[bytes, list[Received]]] = {
    "nothing": (b"", []),
    "a text": (frame(FIN | TEXT, b"hello"), ["hello"]),
    "an empty text": (frame(FIN | TEXT, b""), [""]),
    "UTF-8": (frame(FIN | TEXT, "é😀".encode()), ["é😀"]),
    "another mask": (frame(FIN | TEXT, b"hello", mask=b"\xff\x00\x80\x01"), ["hello"]),
    "two": (frame(FIN | TEXT, b"a") + frame(FIN | TEXT, b"b"), ["a", "b"]),
    "125 bytes": (frame(FIN | TEXT, b"a" * 125), ["a" * 125]),
    "126 bytes": (frame(FIN | TEXT, b"a" * 126), ["a" * 126]),
    "a binary": (frame(FIN | BINARY, b"\xff\x00"), [BinaryMessage(b"\xff\x00")]),
    "a fragmented binary": (
        frame(BINARY, b"\xff") + frame(FIN, b"\x00"),
        [BinaryMessage(b"\xff\x00")],
    ),
    "a character in two fragments": (frame(TEXT, b"\xc3") + frame(FIN, b"\xa9"), ["é"]),
    "empty fragments": (frame(TEXT, b"") + frame(0, b"") + frame(0, b"a") + frame(FIN, b""), ["a"]),
    "control frames inside a message": (
        frame(TEXT, b"he")
        + frame(FIN | PING, b"p")
        + frame(0, b"l")
        + frame(FIN | PONG, b"q")
        + frame(FIN, b"lo"),
        [Ping(b"p"), "hello"],
    ),
    "the longest ping": (frame(FIN | PING, b"p" * 125), [Ping(b"p" * 125)]),
    "a pong": (frame(FIN | PONG, b"p"), []),
    "a close": (frame(FIN | CLOSE, b""), [PeerClose(1005, "")]),
    "a close with a code": (frame(FIN | CLOSE, struct.pack("!H", 1000)), [PeerClose(1000, "")]),
    "a close with a reason": (
        frame(FIN | CLOSE, struct.pack("!H", 4999) + "é".encode()),
        [PeerClose(4999, "é")],
    ),
    "a close inside a message": (frame(TEXT, b"he") + frame(FIN | CLOSE, b""), [PeerClose(1005, "")]),
    "nothing counts after a close": (
        frame(FIN | CLOSE, b"") + frame(FIN | TEXT, b"late") + b"\x00\x00",
        [PeerClose(1005, "")],
    ),
}


@pytest.mark.parametrize(("data", "received"), GOOD.values(), ids=GOOD)
def test_frames_become_messages_however_they_are_cut(data: bytes, received: list[Received]) -> None:
    assert every_cut(data) == received


BAD: dict[str, tuple[bytes, int]] = {
    "unmasked": (frame(FIN | TEXT, b"ab", mask=None), 1002),
    "unmasked, cut behind its head": (b"\x81\x02", 1002),
    **{f"reserved bit {bit:#x}": (frame(FIN | bit | TEXT, b"ab"), 1002) for bit in (0x40, 0x20, 0x10)},
    **{
        f"opcode {opcode}": (frame(FIN | opcode, b""), 1002) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)
    },
    "a fragmented ping": (frame(PING, b""), 1002),
    "a fragmented close": (frame(CLOSE, b""), 1002),
    "a ping of 126 bytes": (frame(FIN | PING, b"p" * 126), 1002),
    "a message inside a message": (frame(TEXT, b"ab") + frame(FIN | TEXT, b"cd"), 1002),
    "a binary inside a text": (frame(TEXT, b"ab") + frame(BINARY, b"cd"), 1002),
    "a continuation of nothing": (frame(FIN, b"ab"), 1002),
    "a continuation of what is over": (frame(TEXT, b"a") + frame(FIN, b"b") + frame(0, b"c"), 1002),
    "a short length in two bytes": (b"\x81\xfe\x00\x7d", 1002),
    "a short length in eight bytes": (b"\x81\xff" + struct.pack("!Q", 65535), 1002),
    "a length of 64 bits": (b"\x81\xff" + struct.pack("!Q", 1 << 63), 1002),
    "a close of one byte": (frame(FIN | CLOSE, b"\x03"), 1002),
    **{
        f"a close with {code}": (frame(FIN | CLOSE, struct.pack("!H", code)), 1002)
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535)
    },
    "a close whose reason is no UTF-8": (frame(FIN | CLOSE, b"\x03\xe8\xff"), 1007),
    "bad UTF-8": (frame(FIN | TEXT, b"\xff\xfe"), 1007),
    "a surrogate": (frame(FIN | TEXT, b"\xed\xa0\x80"), 1007),
    "half a character at the end": (frame(TEXT, b"a") + frame(FIN, b"\xc3"), 1007),
    "a message over the limit": (frame(FIN | TEXT, b"a" * (LIMIT + 1)), 1009),
    "only the announcement of one": (b"\x81\xff" + struct.pack("!Q", (1 << 63) - 1), 1009),
    "fragments over the limit": (frame(TEXT, b"a" * LIMIT) + frame(0, b"a"), 1009),
    "a binary over the limit": (frame(FIN | BINARY, b"a" * (LIMIT + 1)), 1009),
}


@pytest.mark.parametrize(("data", "code"), BAD.values(), ids=BAD)
def test_a_broken_rule_is_the_last_thing_told(data: bytes, code: int) -> None:
    before = frame(FIN | TEXT, b"before")
    first, *between, violation = every_cut(before + data + frame(FIN | TEXT, b"after"))
    assert first == "before"
    assert all(isinstance(received, str) for received in between)
    assert isinstance(violation, Violation)
    assert violation.code == code
    assert 0 < len(violation.reason.encode()) <= 123


def test_the_limit_counts_bytes_of_all_fragments_together() -> None:
    at_limit = frame(TEXT, "é".encode() * 250) + frame(FIN, "é".encode() * 250)
    assert decode(at_limit) == ["é" * 500]
    assert decode(at_limit + at_limit) == ["é" * 500] * 2


def test_what_is_over_the_limit_is_not_kept() -> None:
    decoder = FrameDecoder(LIMIT)
    assert decoder.feed(frame(TEXT, b"a" * LIMIT)) == []
    (violation,) = decoder.feed(frame(0, b"a" * 100_000))
    assert isinstance(violation, Violation)
    kept = [getattr(decoder, name) for name in FrameDecoder.__slots__]
    assert sum(len(value) for value in kept if isinstance(value, bytes | bytearray)) <= len(MASK)


def test_the_buffer_may_be_used_again() -> None:
    buffer, decoder = bytearray(64), FrameDecoder(LIMIT)
    received: list[Received] = []
    data = frame(FIN | TEXT, b"hello") + frame(FIN | BINARY, b"bytes") + frame(FIN | PING, b"ping")
    for start in range(0, len(data), 7):
        piece = data[start : start + 7]
        buffer[: len(piece)] = piece
        received += decoder.feed(memoryview(buffer)[: len(piece)])
        buffer[:] = b"\xaa" * 64
    assert received == ["hello", BinaryMessage(b"bytes"), Ping(b"ping")]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 100_000])
def test_what_a_server_writes_can_be_read(size: int) -> None:
    peer = Protocol(SERVER)  # reads unmasked frames only as a client
    peer.side, peer.state = peer.side.__class__.CLIENT, OPEN
    for data in (text_frame(b"a" * size), encode_frame(BINARY, b"b" * size)):
        peer.receive_data(data)
    assert [(read.opcode, len(read.data)) for read in peer.events_received()] == [(1, size), (2, size)]


@pytest.mark.parametrize(("code", "payload"), [(1005, b""), (1000, b"\x03\xe8ok"), (4000, b"\x0f\xa0ok")])
def test_a_close_frame_has_its_code_unless_there_is_none(code: int, payload: bytes) -> None:
    assert close_frame(code, "ok") == bytes([FIN | CLOSE, len(payload)]) + payload


# ---------------------------------------------------------------- against the library


def as_websockets(data: bytes, limit: int) -> list[Any]:
    """What `websockets` makes of the bytes, in our terms."""
    peer = Protocol(SERVER, max_size=limit)
    peer.state = OPEN
    peer.receive_data(data)
    received: list[Any] = []
    message, kind = b"", Opcode.TEXT
    for read in peer.events_received():
        if read.opcode is Opcode.PING:
            received.append(Ping(bytes(read.data)))
        elif read.opcode is Opcode.CLOSE:
            close = Close.parse(read.data)
            received.append(PeerClose(close.code, close.reason))
        elif read.opcode is not Opcode.PONG:
            kind, message = (kind, message) if read.opcode is Opcode.CONT else (Opcode(read.opcode), b"")
            message += bytes(read.data)
            if not read.fin:
                continue
            if kind is Opcode.BINARY:
                received.append(BinaryMessage(message))
                continue
            try:
                received.append(message.decode())
            except UnicodeDecodeError:  # the library leaves this to its users
                return [*received, 1007]
    if peer.parser_exc is not None:
        assert peer.close_sent is not None
        received.append(peer.close_sent.code)
    return received


payloads = st.one_of(
    st.binary(max_size=20),
    st.text(max_size=20).map(str.encode),
    st.integers(100, 300).map(lambda size: b"a" * size),
    st.sampled_from([struct.pack("!H", code) for code in (1000, 1004, 1005, 1011, 1016, 2999, 3000, 4999)]),
)
first_bytes = st.one_of(
    st.sampled_from(
        [FIN | TEXT, FIN | TEXT, TEXT, 0, FIN, FIN | BINARY, FIN | PING, FIN | PONG, FIN | CLOSE]
    ),
    st.integers(0, 255),
)
masks = st.one_of(st.binary(min_size=4, max_size=4), st.just(MASK))
frames = st.builds(
    lambda first, payload, mask: frame(first, payload, mask=mask), first_bytes, payloads, masks
)
cuts = st.lists(st.integers(0, 2000), max_size=12)


def cut(data: bytes, at: Sequence[int]) -> list[bytes]:
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    return [data[start:end] for start, end in pairwise(places)]


def compare(data: bytes, at: Sequence[int], limit: int) -> None:
    ours: list[Any] = decode(*cut(data, at), limit=limit)
    assert ours == decode(data, limit=limit)
    theirs = as_websockets(data, limit)
    if ours and isinstance(ours[-1], Violation):
        ours[-1] = ours[-1].code
        # We judge a head before its payload has come, and insist on the shortest length.
        early = ours[-1] == 1002 and (not theirs or not isinstance(theirs[-1], int))
        if early:
            assert theirs[: len(ours) - 1] == ours[:-1]
            return
        assert ours[:-1] == theirs[:-1]
        # What breaks two rules is judged by the one that is looked at first.
        assert ours[-1] == theirs[-1] or {ours[-1], theirs[-1]} in ({1002, 1009}, {1002, 1007})
        return
    # A close is allowed between fragments (RFC 6455 5.4); the library minds.
    if ours and isinstance(ours[-1], PeerClose) and theirs != ours:
        assert theirs == [*ours[:-1], 1002]
        return
    assert ours == theirs


FUZZ = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.slow
@FUZZ
@given(st.lists(frames, max_size=8), cuts, st.sampled_from([300, 10_000]))
def test_frames_read_as_the_library_reads_them(parts: list[bytes], at: list[int], limit: int) -> None:
    compare(b"".join(parts), at, limit)


@pytest.mark.slow
@FUZZ
@given(st.lists(frames, min_size=1, max_size=5), st.integers(0, 10_000), st.integers(1, 255), cuts)
def test_a_flipped_byte_reads_as_the_library_reads_it(
    parts: list[bytes], place: int, flip: int, at: list[int]
) -> None:
    data = bytearray(b"".join(parts))
    data[place % len(data)] ^= flip
    assume(len(data) < 5000)
    compare(bytes(data), at, 10_000)


@pytest.mark.slow
@FUZZ
@given(st.binary(max_size=200), cuts)
def test_any_bytes_read_as_the_library_reads_them(data: bytes, at: list[int]) -> None:
    compare(data, at, 10_000)
