"""Elements of EBML (RFC 8794): bytes from values."""

from __future__ import annotations

UNKNOWN_SIZE = bytes([0x01]) + b"\xff" * 7
"""Of an element that goes on until its file ends (6.2)."""
HEAD_BYTES_MAX = 12
"""An identifier and a size at their longest."""


def size(value: int) -> bytes:
    """A size in as few bytes as it takes (4): one of all ones would be unknown, and takes a byte more."""
    length = 1
    while value >= (1 << 7 * length) - 1:
        length += 1
    return (value | 1 << 7 * length).to_bytes(length, "big")


def element(identifier: int, *contents: bytes) -> bytes:
    """An element of known size."""
    content = b"".join(contents)
    return _identifier(identifier) + size(len(content)) + content


def endless(identifier: int) -> bytes:
    """The head of an element whose size is not known: what follows is in it."""
    return _identifier(identifier) + UNKNOWN_SIZE


def unsigned(identifier: int, value: int) -> bytes:
    """An unsigned number (7.2)."""
    return element(identifier, value.to_bytes(max(1, -(-value.bit_length() // 8)), "big"))


def text(identifier: int, value: str) -> bytes:
    """A string (7.4)."""
    return element(identifier, value.encode())


def _identifier(identifier: int) -> bytes:
    return identifier.to_bytes(-(-identifier.bit_length() // 8), "big")
