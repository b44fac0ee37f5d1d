"""Boxes of ISO base media files (ISO/IEC 14496-12): bytes from fields."""

from __future__ import annotations

import struct

UNITY_MATRIX = struct.pack(">9i", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
"""A picture shown as it is (6.2.2)."""


def box(kind: bytes, *contents: bytes) -> bytes:
    """A box of less than 4 GiB."""
    content = b"".join(contents)
    return struct.pack(">I4s", 8 + len(content), kind) + content


def full_box(kind: bytes, version: int, flags: int, *contents: bytes) -> bytes:
    """A box with a version and 24 bits of flags."""
    return box(kind, struct.pack(">I", version << 24 | flags), *contents)


def u16(*values: int) -> bytes:
    """16-bit numbers."""
    return struct.pack(f">{len(values)}H", *values)


def u32(*values: int) -> bytes:
    """32-bit numbers."""
    return struct.pack(f">{len(values)}I", *values)


def u64(*values: int) -> bytes:
    """64-bit numbers."""
    return struct.pack(f">{len(values)}Q", *values)
