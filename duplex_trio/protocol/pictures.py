"""Whether bytes are a JPEG or PNG file: its structure from the first byte to the last, and its size in
pixels.

The pixels themselves are not decoded; that is the model's, in its own time. What is checked here is what
makes decoders fail late or at great cost: a file that is cut short, damage that a checksum tells, and a
picture of more pixels than anybody shows to a model (a few kB of PNG can hold gigabytes of them).

`grey_png` makes a file, for warm-up and tests.

JPEG: ITU-T T.81, annex B. PNG: W3C PNG, third edition, sections 5 and 11.2.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from typing import Final

MAX_PICTURE_PIXELS: Final = 4096 * 4096

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_JPEG: Final = b"\xff\xd8"
_URL_KINDS: Final = {"data:image/jpeg;base64,": _JPEG, "data:image/png;base64,": _PNG}
"""How the URL of a picture begins, and the picture itself."""
_PNG_DEPTHS: Final = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""Bits of a sample by the colour type."""
_FRAME_HEADERS: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The JPEG markers that begin a frame."""
_SCAN, _END = 0xDA, 0xD9
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers without a length."""


def picture_size(data: bytes) -> tuple[int, int]:
    """Width and height in pixels of a JPEG or PNG file.

    Raises:
        ValueError: it is no such file, it is damaged or cut short, or it has more than `MAX_PICTURE_PIXELS`.
    """
    if data.startswith(_PNG):
        width, height = _png_size(data)
    elif data.startswith(_JPEG):
        width, height = _jpeg_size(data)
    else:
        raise ValueError("expected a JPEG or PNG file")
    if not width or not height or width * height > MAX_PICTURE_PIXELS:
        raise ValueError(f"expected 1 to {MAX_PICTURE_PIXELS} pixels, got {width} x {height}")
    return width, height


def is_picture_url(url: str) -> bool:
    """Whether a text is a JPEG or PNG file as a `data:` URL in base64, of the kind that it says."""
    for prefix, magic in _URL_KINDS.items():
        if url.startswith(prefix):
            try:
                data = base64.b64decode(url[len(prefix) :], validate=True)
                picture_size(data)
            except ValueError:
                return False
            return data.startswith(magic)
    return False


def picture_url(data: bytes) -> str:
    """A JPEG or PNG file as a `data:` URL.

    Raises:
        ValueError: as `picture_size`.
    """
    picture_size(data)
    prefix = next(prefix for prefix, magic in _URL_KINDS.items() if data.startswith(magic))
    return prefix + base64.b64encode(data).decode()


def _png_size(data: bytes) -> tuple[int, int]:
    size: tuple[int, int] | None = None
    holds_pixels = False
    for kind, body in _png_chunks(data):
        if size is None:
            size = _png_header(kind, body)
        holds_pixels |= kind == b"IDAT" and len(body) > 0
    if size is None or not holds_pixels:
        raise ValueError("the PNG file has no pixels")
    return size


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    view, at = memoryview(data), len(_PNG)
    while len(data) >= at + 12:
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            break
        if zlib.crc32(view[at + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            raise ValueError("a checksum of the PNG file is wrong")
        if kind == b"IEND":
            return
        yield kind, view[at + 8 : end - 4]
        at = end
    raise ValueError("the PNG file is cut short")


def _png_header(kind: bytes, body: memoryview) -> tuple[int, int]:
    if kind != b"IHDR" or len(body) != 13:
        raise ValueError("the PNG file does not begin with its header")
    width, height, depth, colour, compression, filtering, interlace = struct.unpack(">IIBBBBB", body)
    if depth not in _PNG_DEPTHS.get(colour, ()) or compression or filtering or interlace > 1:
        raise ValueError("the PNG file is of no known kind")
    return width, height


def _jpeg_size(data: bytes) -> tuple[int, int]:
    size: tuple[int, int] | None = None
    at = len(_JPEG)
    while True:
        marker, at = _jpeg_marker(data, at)
        if marker in _ALONE:
            continue
        if marker == _END:
            raise ValueError("the JPEG file has no pixels")
        if len(data) < at + 2:
            raise ValueError("the JPEG file is cut short")
        length = int.from_bytes(data[at : at + 2], "big")
        if length < 2 or at + length > len(data):
            raise ValueError("the JPEG file is cut short")
        if marker in _FRAME_HEADERS:
            if length < 8:
                raise ValueError("the JPEG file has no size")
            height, width = struct.unpack_from(">HH", data, at + 3)
            size = (width, height)
        at += length
        if marker == _SCAN:
            break
    # Between here and the end are pixels, and more scans of them.
    if size is None or data.rfind(b"\xff\xd9", at) < at + 1:
        raise ValueError("the JPEG file has no size" if size is None else "the JPEG file is cut short")
    return size


def _jpeg_marker(data: bytes, at: int) -> tuple[int, int]:
    """The marker at a place, and where what it begins goes on; a marker may have more than one 0xFF in front."""
    begin = at
    while at < len(data) and data[at] == 0xFF:
        at += 1
    if at == begin or at >= len(data):
        raise ValueError("the JPEG file is cut short" if at >= len(data) else "the JPEG file is damaged")
    return data[at], at + 1


def grey_png(width: int, height: int, *, filler_bytes: int = 0) -> bytes:
    """A grey picture as a PNG file, with so many bytes in it that mean nothing."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    filler = _png_chunk(b"fiLl", bytes(filler_bytes)) if filler_bytes else b""
    return b"".join(
        (_PNG, _png_chunk(b"IHDR", header), filler, _png_chunk(b"IDAT", rows), _png_chunk(b"IEND", b""))
    )


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
