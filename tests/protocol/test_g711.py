"""Both G.711 laws against the standard library's implementation, over every value there is."""

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
