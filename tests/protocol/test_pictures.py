"""JPEG and PNG files told from what only begins like one."""

import struct
import zlib

import pytest

from duplex_trio.protocol.pictures import MAX_PICTURE_PIXELS, grey_png, picture_size
from duplex_trio.testing.pictures import JPEG, PNG

SIDE = 4096


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def header(
    width: int = 1, height: int = 1, depth: int = 8, colour: int = 0, *rest: int
) -> tuple[bytes, bytes]:
    return b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, *(rest or (0, 0, 0)))


PIXELS, END = (b"IDAT", zlib.compress(b"\0\0")), (b"IEND", b"")


def sized_jpeg(width: int, height: int) -> bytes:
    at = JPEG.index(b"\xff\xc0") + 5
    return JPEG[:at] + struct.pack(">HH", height, width) + JPEG[at + 4 :]


def test_the_size_of_both() -> None:
    assert picture_size(JPEG) == (16, 16)
    assert picture_size(sized_jpeg(640, 480)) == (640, 480)
    assert picture_size(grey_png(640, 480)) == (640, 480)
    assert picture_size(grey_png(3, 2, filler_bytes=100_000)) == (3, 2)
    for depth, colour in ((1, 0), (16, 2), (4, 3), (8, 4), (16, 6)):
        assert picture_size(png(header(9, 7, depth, colour), PIXELS, END)) == (9, 7)


def test_what_stands_behind_the_end_is_nobodys_business() -> None:
    assert picture_size(PNG + b"more") == (1, 1)
    assert picture_size(JPEG + b"more") == (16, 16)


def test_a_jpeg_may_be_filled_up_between_its_segments() -> None:
    """T.81 B.1.1.2: any number of 0xFF in front of a marker; and there may be several scans."""
    assert picture_size(JPEG[:2] + b"\xff\xff\xff" + JPEG[2:]) == (16, 16)
    progressive = JPEG.replace(b"\xff\xc0", b"\xff\xc2")
    assert picture_size(progressive[:-2] + progressive[progressive.index(b"\xff\xda") :]) == (16, 16)


@pytest.mark.parametrize("picture", [JPEG, PNG], ids=["jpeg", "png"])
def test_a_file_that_is_cut_short_anywhere_is_refused(picture: bytes) -> None:
    for end in range(len(picture)):
        with pytest.raises(ValueError, match=r"JPEG|PNG"):
            picture_size(picture[:end])


def test_each_flipped_bit_of_a_png_is_found() -> None:
    for at in range(len(PNG)):
        for bit in range(8):
            with pytest.raises(ValueError, match=r"PNG|pixels"):
                picture_size(PNG[:at] + bytes([PNG[at] ^ (1 << bit)]) + PNG[at + 1 :])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "JPEG or PNG"),
        (b"GIF89a" + bytes(100), "JPEG or PNG"),
        (b"\xff\xd8\xff\xd9", "no pixels"),
        (b"\xff\xd8hello", "damaged"),
        (b"\xff\xd8\xff\xe0\x00\x01", "cut short"),
        (b"\xff\xd8\xff\xc0\x00\x05\x08\x00\x01", "no size"),
        (b"\xff\xd8\xff\xda\x00\x02\x00\xff\xd9", "no size"),
        (png(PIXELS, header(), END), "begin with its header"),
        (png((b"IHDR", bytes(12)), PIXELS, END), "begin with its header"),
        (png(header(), END), "no pixels"),
        (png(END), "no pixels"),
        (png(header(1, 1, 3), PIXELS, END), "no known kind"),
        (png(header(1, 1, 8, 5), PIXELS, END), "no known kind"),
        (png(header(1, 1, 8, 0, 0, 0, 2), PIXELS, END), "no known kind"),
    ],
)
def test_what_is_none_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        picture_size(data)


def test_a_picture_has_so_many_pixels() -> None:
    """A few bytes of PNG can say that they are gigabytes."""
    assert SIDE * SIDE == MAX_PICTURE_PIXELS
    assert picture_size(sized_jpeg(SIDE, SIDE)) == (SIDE, SIDE)
    for width, height in ((SIDE + 1, SIDE), (1, 0), (0, 1), (65535, 65535)):
        with pytest.raises(ValueError, match="pixels"):
            picture_size(sized_jpeg(width, height))
    for width, height in ((0, 5), (5, 0), (2**31, 2**31), (SIDE, SIDE + 1)):
        with pytest.raises(ValueError, match="pixels"):
            picture_size(png(header(width, height), PIXELS, END))
