"""WebM (Matroska, RFC 9559), written part by part without holding a frame back.

EBML header, then one `Segment` without an end: `Info`, `Tracks`, and clusters of `SimpleBlock`s; the trailer is `Cues`.
Times are whole milliseconds, as WebM wants it; players learn how long the last frame of a part lasts from the
`DefaultDuration` of the track, so that nothing has to be waited for.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from fractions import Fraction

from duplex_trio.video.encoders.ebml import HEAD_BYTES_MAX, element, endless, size, text, unsigned
from duplex_trio.video.encoders.packager import Packager, Sample
from duplex_trio.video.encoders.rates import start_ms

_EBML, _SEGMENT, _INFO, _TRACKS = 0x1A45DFA3, 0x18538067, 0x1549A966, 0x1654AE6B
_CLUSTER, _TIMESTAMP, _SIMPLE_BLOCK, _CUES = 0x1F43B675, 0xE7, 0xA3, 0x1C53BB6B
_TRACK = 1
_VIDEO = 1
_MILLISECOND_NS = 1_000_000
_WRITER = "duplex-trio"
_BT709, _SMPTE170M, _BROADCAST = 1, 6, 1
_KEYFRAME = 0x80
_CLUSTER_SPAN_MS = 30_000
"""Times of blocks are 16 bits, counted from their cluster's (10.2)."""
_CLUSTER_HEAD_MAX = HEAD_BYTES_MAX + 10
_BLOCK_HEAD_MAX = HEAD_BYTES_MAX + 4


class WebmPackager(Packager):
    """Packages VP8."""

    def __init__(self, *, width: int, height: int, rate: Fraction) -> None:
        self._rate = rate
        ebml = element(
            _EBML,
            unsigned(0x4286, 1),  # EBMLVersion
            unsigned(0x42F7, 1),  # EBMLReadVersion
            unsigned(0x42F2, 4),  # EBMLMaxIDLength
            unsigned(0x42F3, 8),  # EBMLMaxSizeLength
            text(0x4282, "webm"),  # DocType
            unsigned(0x4287, 4),  # DocTypeVersion: Colour is of the fourth
            unsigned(0x4285, 2),  # DocTypeReadVersion
        )
        info = element(
            _INFO,
            unsigned(0x2AD7B1, _MILLISECOND_NS),  # TimestampScale
            text(0x4D80, _WRITER),  # MuxingApp
            text(0x5741, _WRITER),  # WritingApp
        )
        self._header = ebml + endless(_SEGMENT) + info + _tracks(width, height, rate)
        self._segment_begin = len(ebml) + len(endless(_SEGMENT))
        self._frames = 0
        self._offset = len(self._header)
        self._cue_ms = array("Q")
        self._cue_offsets = array("Q")

    @property
    def header(self) -> bytes:
        """All that comes before the first cluster."""
        return self._header

    def bytes_max(self, count: int, sample_bytes: int) -> int:
        """At most so much: heads are as long as what they tell the size of wants them."""
        span_ms = start_ms(self._frames + count, self._rate) - start_ms(self._frames, self._rate)
        clusters = 1 + span_ms // _CLUSTER_SPAN_MS
        return _CLUSTER_HEAD_MAX * clusters + _BLOCK_HEAD_MAX * count + sample_bytes

    def part(self, samples: Sequence[Sample]) -> bytes:
        """A cluster, or several where the frames last long."""
        clusters: list[bytes] = []
        blocks: list[bytes] = []
        begin_ms = start_ms(self._frames, self._rate)
        if samples[0].keyframe:
            self._cue_ms.append(begin_ms)
            self._cue_offsets.append(self._offset - self._segment_begin)
        for index, sample in enumerate(samples):
            shown_ms = start_ms(self._frames + index, self._rate)
            if shown_ms - begin_ms >= _CLUSTER_SPAN_MS:
                clusters.append(_cluster(begin_ms, blocks))
                blocks, begin_ms = [], shown_ms
            flags = _KEYFRAME if sample.keyframe else 0
            head = size(_TRACK) + struct.pack(">hB", shown_ms - begin_ms, flags)
            blocks.append(element(_SIMPLE_BLOCK, head, sample.data))
        part = b"".join((*clusters, _cluster(begin_ms, blocks)))
        self._frames += len(samples)
        self._offset += len(part)
        return part

    def trailer(self) -> bytes:
        """`Cues`: where and when the clusters are that begin with a keyframe."""
        if not self._cue_ms:
            return b""
        points = (
            element(
                0xBB,  # CuePoint
                unsigned(0xB3, shown_ms),  # CueTime
                element(0xB7, unsigned(0xF7, _TRACK), unsigned(0xF1, offset)),  # CueTrackPositions
            )
            for shown_ms, offset in zip(self._cue_ms, self._cue_offsets, strict=True)
        )
        return element(_CUES, *points)


def _cluster(begin_ms: int, blocks: Sequence[bytes]) -> bytes:
    return element(_CLUSTER, unsigned(_TIMESTAMP, begin_ms), *blocks)


def _tracks(width: int, height: int, rate: Fraction) -> bytes:
    colour = element(
        0x55B0,  # Colour
        unsigned(0x55B1, _SMPTE170M),  # MatrixCoefficients: VP8 knows no other (RFC 6386 9.2)
        unsigned(0x55B9, _BROADCAST),  # Range
        unsigned(0x55BA, _BT709),  # TransferCharacteristics
        unsigned(0x55BB, _BT709),  # Primaries
    )
    entry = element(
        0xAE,  # TrackEntry
        unsigned(0xD7, _TRACK),  # TrackNumber
        unsigned(0x73C5, _TRACK),  # TrackUID
        unsigned(0x83, _VIDEO),  # TrackType
        unsigned(0x9C, 0),  # FlagLacing
        text(0x22B59C, "und"),  # Language
        text(0x86, "V_VP8"),  # CodecID
        unsigned(0x23E383, round(10**9 / rate)),  # DefaultDuration, in nanoseconds
        element(0xE0, unsigned(0xB0, width), unsigned(0xBA, height), colour),  # Video
    )
    return element(_TRACKS, entry)
