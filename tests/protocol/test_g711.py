"""Both G.711 laws over every value there is, against the tables of the recommendation and the standard library's.

The recommendation's are computed here from its words alone: the values of ITU-T G.711 (11/88), tables 1a to 2b,
are the ends of segments that double, and an encoder gives each sample the code whose range it falls in.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

from duplex_trio.protocol.realtime import g711

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import audioop

EVERY_SAMPLE = np.arange(65536, dtype=np.uint16).view(np.int16)
EVERY_CODE = bytes(range(256))
LAWS = [("ulaw", audioop.lin2ulaw, audioop.ulaw2lin), ("alaw", audioop.lin2alaw, audioop.alaw2lin)]


@pytest.mark.parametrize(("law", "compress", "expand"), LAWS)
def test_every_sample_and_every_code_agree_with_audioop(
    law: g711.Law, compress: Callable[[bytes, int], bytes], expand: Callable[[bytes, int], bytes]
) -> None:
    assert g711.encode(EVERY_SAMPLE, law) == compress(EVERY_SAMPLE.tobytes(), 2)
    expanded = np.frombuffer(expand(EVERY_CODE, 2), dtype=np.int16)
    np.testing.assert_array_equal(g711.decode_table(law), expanded)
    np.testing.assert_array_equal(g711.decode(EVERY_CODE, law), expanded.astype(np.float32) / 32768)


@pytest.mark.parametrize("law", ["ulaw", "alaw"])
def test_codes_survive_a_round_trip(law: g711.Law) -> None:
    samples = g711.decode_table(law)
    again = np.frombuffer(g711.encode(samples, law), dtype=np.uint8)
    # mu-law has two codes for zero; all others come back as themselves.
    np.testing.assert_array_equal(g711.decode_table(law)[again], samples)


@pytest.mark.parametrize("law", ["ulaw", "alaw"])
def test_tables_cannot_be_changed(law: g711.Law) -> None:
    for table in (g711.encode_table(law), g711.decode_table(law), g711.float_table(law)):
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 0


def ulaw_of_the_recommendation(magnitude: int) -> int:
    """Tables 2: 8 segments of 16 steps; a 14-bit magnitude, 33 added, says segment and step in its leading bits."""
    biased = min(magnitude, 8158) + 33
    segment = next(number for number in range(8) if biased < 64 << number)
    return segment << 4 | (biased - (32 << segment)) // (2 << segment)


def alaw_of_the_recommendation(magnitude: int) -> int:
    """Tables 1: two linear segments of 16 steps of 2, then each twice as wide; a magnitude of 12 bits."""
    if magnitude < 64:
        return magnitude // 2
    segment = next(number for number in range(2, 8) if magnitude < 64 << (number - 1))
    return segment << 4 | (magnitude - (32 << (segment - 1))) // (2 << (segment - 1))


@pytest.mark.slow
def test_every_sample_has_the_code_of_the_recommendation() -> None:
    """16-bit samples are those of 14 bits (mu-law) and 13 bits (A-law), shifted: the lowest bits say nothing.

    The sign is the first bit of a code, 1 for positive; mu-law sends all bits inverted, A-law every other one.
    """
    ulaw, alaw = bytearray(), bytearray()
    for sample in EVERY_SAMPLE.tolist():
        linear = sample >> 2
        code = ulaw_of_the_recommendation(abs(linear)) | (0 if linear >= 0 else 0x80)
        ulaw.append(code ^ 0xFF)
        linear = sample >> 3
        code = alaw_of_the_recommendation(linear if linear >= 0 else -linear - 1) | (
            0x80 if linear >= 0 else 0
        )
        alaw.append(code ^ 0x55)
    assert g711.encode(EVERY_SAMPLE, "ulaw") == ulaw
    assert g711.encode(EVERY_SAMPLE, "alaw") == alaw


def test_every_code_has_the_value_of_the_recommendation() -> None:
    """The middle of its range; of mu-law's first range that is 0."""
    for byte in range(256):
        code = byte ^ 0xFF
        segment, step = code >> 4 & 7, code & 15
        value = ((2 * step + 33) << segment) - 33
        assert g711.decode_table("ulaw")[byte] == (-4 * value if code & 0x80 else 4 * value)
        code = byte ^ 0x55
        segment, step = code >> 4 & 7, code & 15
        value = 2 * step + 1 if segment == 0 else (2 * step + 33) << (segment - 1)
        assert g711.decode_table("alaw")[byte] == (8 * value if code & 0x80 else -8 * value)
