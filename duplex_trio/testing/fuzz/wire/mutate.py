"""Changes valid bytes into almost valid ones. Pure: the same seed makes the same bytes.

Two levels: anywhere in the bytes, knowing nothing; and in the headers of WebSocket frames, where a change of
one bit is a different frame.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

_TOKENS = (
    b"\r\n", b"\r\n\r\n", b"\n", b"\x00", b":", b" ", b"\xff", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\xaf", b"0", b"-1",
    b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Content-Length: 99999999999999999999\r\n",
    b"Connection: close\r\n", b"Expect: 100-continue\r\n", b"Upgrade: h2c\r\n", b"HTTP/1.1", b"HTTP/2.0", b"GET /",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"%00", b"%ff", b"/../", b"?duplex=1", b"{",
)  # fmt: skip
_LENGTHS = (0, 1, 125, 126, 127, 65535, 65536, 1 << 24, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)

Change = Callable[[random.Random, bytes], bytes]


def mutated(rng: random.Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """`data` with one to six changes.

    Args:
        rng: decides.
        data: what is changed.
        others: other valid inputs, pieces of which may come in.
    """
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if others and rng.random() < 0.1:
            data = _spliced(rng, data, rng.choice(others))
        else:
            data = rng.choice(_CHANGES)(rng, data)
    return data


def _place(rng: random.Random, data: bytes) -> int:
    # Near the front every byte means something; behind that most are payload.
    return rng.randrange(min(len(data), rng.choice((16, 256, 1 << 30))) + 1)


def _flipped(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    if at >= len(data):
        return data
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _replaced(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    return data[:at] + rng.randbytes(1) + data[at + 1 :]


def _inserted(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    piece = rng.choice(_TOKENS) if rng.random() < 0.7 else rng.randbytes(rng.randrange(1, 20))
    return data[:at] + piece + data[at:]


def _removed(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    return data[:at] + data[at + rng.choice((1, 1, 2, 4, 16, 300)) :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: _place(rng, data)]


def _repeated(rng: random.Random, data: bytes) -> bytes:
    at = _place(rng, data)
    piece = data[at : at + rng.randrange(1, 64)]
    return data[:at] + piece * rng.choice((2, 2, 3, 50, 2000)) + data[at + len(piece) :]


def _spliced(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: _place(rng, data)] + other[_place(rng, other) :]


_CHANGES: tuple[Change, ...] = (_flipped, _flipped, _replaced, _inserted, _removed, _cut, _repeated)


def odd_frame(rng: random.Random, payload: bytes) -> bytes:
    """A client's frame of which anything may be wrong: reserved bits, opcode, mask, the length and its form."""
    first = rng.choice((0x81, 0x81, 0x01, 0x80, 0x82, 0x88, 0x89, 0x8A, rng.randrange(256)))
    length = len(payload) if rng.random() < 0.7 else rng.choice(_LENGTHS)
    masked = 0x80 if rng.random() < 0.9 else 0
    form = rng.choice((0, 0, 0, 126, 127))
    if form == 0:
        form = 0 if length < 126 else 126 if length < 1 << 16 else 127
    if form == 0:
        head = bytes([first, masked | length])
    elif form == 126:
        head = bytes([first, masked | 126]) + struct.pack("!H", length & 0xFFFF)
    else:
        head = bytes([first, masked | 127]) + struct.pack("!Q", length)
    if not masked:
        return head + payload
    mask = rng.randbytes(4)
    return head + mask + masked_payload(payload, mask)


def masked_payload(payload: bytes, mask: bytes) -> bytes:
    """A payload under a mask of four bytes; the same undoes it."""
    key = (mask * (len(payload) // 4 + 1))[: len(payload)]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(len(payload), "big")


def in_pieces(rng: random.Random, data: bytes) -> list[bytes]:
    """`data` as it may arrive: at once, in a few pieces, or byte by byte at its front."""
    match rng.randrange(4):
        case 0:
            return [data]
        case 1:
            front = min(len(data), 40)
            return [data[at : at + 1] for at in range(front)] + [data[front:]]
        case _:
            cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(1, 6)))
            return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
