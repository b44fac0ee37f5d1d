"""Fragmented MP4, written part by part without holding a frame back (ISO/IEC 14496-12, chapter 8).

`ftyp` and `moov` first; each part is one `moof` and its `mdat`; the trailer is `mfra`, an index over the parts that
begin with a keyframe. A library's muxer learns a frame's duration from the next one, and so is always one behind:
here all frames last equally long, so that nothing has to be waited for.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from fractions import Fraction

from duplex_trio.video.encoders.boxes import UNITY_MATRIX, box, full_box, u16, u32, u64
from duplex_trio.video.encoders.h264 import ParameterSets
from duplex_trio.video.encoders.packager import Packager, Sample

_TRACK = 1
_UNKNOWN_DURATION = 0
"""The fragments tell it (8.2.2: what `moov` holds itself is nothing)."""
_MOVIE_TIMESCALE = 1000
_TICKS_MIN = 10_000
"""Players round times of a coarser clock."""
_BT709 = 1
_DATA_OFFSET, _SIZES, _FLAGS = 0x1, 0x200, 0x400
_FROM_MOOF, _DEFAULT_DURATION = 0x20000, 0x8
_SYNC_SAMPLE = 0x02000000
_OTHER_SAMPLE = 0x01010000
"""8.8.3.1: whether it depends on others, and whether one can begin with it."""
_MOOF_FIXED = 8 + 16 + 8 + 20 + 20 + 20
"""moof, mfhd, traf, tfhd, tfdt, trun without samples."""
_MDAT_HEADER = 8
_PER_SAMPLE = 8


class FragmentedMp4(Packager):
    """Packages H.264."""

    def __init__(self, parameters: ParameterSets, *, width: int, height: int, rate: Fraction) -> None:
        factor = -(-_TICKS_MIN // rate.numerator)
        self._timescale = rate.numerator * factor
        self._frame_ticks = rate.denominator * factor
        self._header = _brands() + self._movie(parameters, width, height)
        self._frames = 0
        self._parts = 0
        self._offset = len(self._header)
        self._key_ticks = array("Q")
        self._key_offsets = array("Q")

    @property
    def header(self) -> bytes:
        """`ftyp` and `moov`."""
        return self._header

    def bytes_max(self, count: int, sample_bytes: int) -> int:
        """Exactly what a part takes."""
        return _MOOF_FIXED + _PER_SAMPLE * count + _MDAT_HEADER + sample_bytes

    def part(self, samples: Sequence[Sample]) -> bytes:
        """One fragment: `moof` and `mdat`."""
        begin = self._frames * self._frame_ticks
        self._parts += 1
        if samples[0].keyframe:
            self._key_ticks.append(begin)
            self._key_offsets.append(self._offset)
        table = b"".join(
            u32(len(sample.data), _SYNC_SAMPLE if sample.keyframe else _OTHER_SAMPLE) for sample in samples
        )
        data_at = _MOOF_FIXED + len(table) + _MDAT_HEADER
        moof = box(
            b"moof",
            full_box(b"mfhd", 0, 0, u32(self._parts)),
            box(
                b"traf",
                full_box(b"tfhd", 0, _FROM_MOOF | _DEFAULT_DURATION, u32(_TRACK, self._frame_ticks)),
                full_box(b"tfdt", 1, 0, u64(begin)),
                full_box(b"trun", 0, _DATA_OFFSET | _SIZES | _FLAGS, u32(len(samples), data_at), table),
            ),
        )
        part = moof + box(b"mdat", *(sample.data for sample in samples))
        self._frames += len(samples)
        self._offset += len(part)
        return part

    def trailer(self) -> bytes:
        """`mfra`: where and when the parts begin that begin with a keyframe (8.8.9 to 8.8.11)."""
        if not self._key_ticks:
            return b""
        entries = b"".join(
            u64(ticks, offset) + b"\x01\x01\x01"  # traf, trun and sample: the first of each
            for ticks, offset in zip(self._key_ticks, self._key_offsets, strict=True)
        )
        index = full_box(b"tfra", 1, 0, u32(_TRACK, 0, len(self._key_ticks)), entries)
        end = full_box(b"mfro", 0, 0, u32(8 + len(index) + 16))
        return box(b"mfra", index, end)

    def _movie(self, parameters: ParameterSets, width: int, height: int) -> bytes:
        times = u32(0, 0, self._timescale, _UNKNOWN_DURATION)
        tables = box(
            b"stbl",
            full_box(b"stsd", 0, 0, u32(1), _entry(parameters, width, height)),
            full_box(b"stts", 0, 0, u32(0)),
            full_box(b"stsc", 0, 0, u32(0)),
            full_box(b"stsz", 0, 0, u32(0, 0)),
            full_box(b"stco", 0, 0, u32(0)),
        )
        here = box(b"dinf", full_box(b"dref", 0, 0, u32(1), full_box(b"url ", 0, 1)))
        media = box(
            b"mdia",
            full_box(b"mdhd", 0, 0, times, u16(0x55C4, 0)),  # language "und"
            full_box(b"hdlr", 0, 0, u32(0), b"vide", bytes(12), b"video\x00"),
            box(b"minf", full_box(b"vmhd", 0, 1, bytes(8)), here, tables),
        )
        return box(
            b"moov",
            full_box(
                b"mvhd",
                0,
                0,
                u32(0, 0, _MOVIE_TIMESCALE, _UNKNOWN_DURATION, 0x10000),  # at its own speed
                u16(0x100, 0),
                bytes(8),
                UNITY_MATRIX,
                bytes(24),
                u32(_TRACK + 1),
            ),
            box(
                b"trak",
                full_box(
                    b"tkhd",
                    0,
                    3,  # enabled, part of the movie
                    u32(0, 0, _TRACK, 0, _UNKNOWN_DURATION),
                    bytes(16),
                    UNITY_MATRIX,
                    u32(width << 16, height << 16),
                ),
                media,
            ),
            box(b"mvex", full_box(b"trex", 0, 0, u32(_TRACK, 1, self._frame_ticks, 0, _OTHER_SAMPLE))),
        )


def _brands() -> bytes:
    return box(b"ftyp", b"iso6", u32(0), b"iso6", b"iso5", b"avc1", b"mp41")


def _entry(parameters: ParameterSets, width: int, height: int) -> bytes:
    """The `avc1` sample entry (12.1.3), with the colours that the parameter sets tell too (12.1.5)."""
    return box(
        b"avc1",
        bytes(6),
        u16(1),
        bytes(16),
        u16(width, height),
        u32(72 << 16, 72 << 16, 0),
        u16(1),
        bytes(32),
        u16(24, 0xFFFF),
        parameters.configuration(),
        box(b"colr", b"nclx", u16(_BT709, _BT709, _BT709), b"\x00"),
        box(b"pasp", u32(1, 1)),
    )
