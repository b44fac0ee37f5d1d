"""H.264 as a codec writes it and as a file keeps it (ITU-T H.264 annex B; ISO/IEC 14496-15 chapter 5)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Self

from attrs import frozen

from duplex_trio.video.encoders.boxes import box, u16, u32

_START_CODE = re.compile(rb"\x00\x00\x01")
_SEI, _SPS, _PPS, _DELIMITER = 6, 7, 8, 9
_LENGTH_BYTES = 4
_WITH_FORMAT = frozenset({100, 110, 122, 144})
"""Profiles whose configuration also tells the format of colours (14496-15, 5.3.3.1.2)."""
_YUV420_8_BITS = bytes([0xFC | 1, 0xF8, 0xF8, 0])


def nal_units(stream: bytes) -> Iterator[bytes]:
    """The units between the start codes of a byte stream, without the zeros around them.

    A unit never ends in a zero byte (7.4.1), so zeros at its end belong to the next start code.
    """
    codes = list(_START_CODE.finditer(stream))
    for index, code in enumerate(codes):
        end = codes[index + 1].start() if index + 1 < len(codes) else len(stream)
        unit = stream[code.end() : end].rstrip(b"\x00")
        if unit:
            yield unit


def kind_of(unit: bytes) -> int:
    """The type of a unit (table 7-1)."""
    return unit[0] & 0x1F


@frozen
class ParameterSets:
    """What a decoder needs before the first picture.

    Attributes:
        sps: the sequence's, with the size of the picture, its cropping and its colours.
        pps: the picture's.
    """

    sps: bytes
    pps: bytes

    @classmethod
    def read(cls, extradata: bytes) -> Self:
        """Find them in what a codec tells when it is opened.

        Raises:
            ValueError: one is missing.
        """
        units = {kind_of(unit): unit for unit in nal_units(extradata)}
        if _SPS not in units or _PPS not in units or len(units[_SPS]) < 4:
            raise ValueError("the codec told no parameter sets")
        return cls(units[_SPS], units[_PPS])

    @property
    def codec(self) -> str:
        """Its name in a MIME type (RFC 6381 3.3): profile, constraints and level in hexadecimal digits."""
        return f"avc1.{self.sps[1:4].hex().upper()}"

    def configuration(self) -> bytes:
        """The `avcC` box (14496-15, 5.3.3)."""
        profile, constraints, level = self.sps[1:4]
        lengths = 0xFC | (_LENGTH_BYTES - 1)
        return box(
            b"avcC",
            bytes([1, profile, constraints, level, lengths, 0xE0 | 1]),
            u16(len(self.sps)),
            self.sps,
            bytes([1]),
            u16(len(self.pps)),
            self.pps,
            _YUV420_8_BITS if profile in _WITH_FORMAT else b"",
        )


def sample_of(packet: bytes) -> bytes:
    """A packet as a file keeps it: a length before each unit in place of a start code.

    Parameter sets and delimiters stand elsewhere; of remarks (SEI), encoders put their name into one, and nothing that
    a picture needs.
    """
    left_out = (_SEI, _SPS, _PPS, _DELIMITER)
    kept = [unit for unit in nal_units(packet) if kind_of(unit) not in left_out]
    return b"".join(part for unit in kept for part in (u32(len(unit)), unit))
