from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.video.encoders.h264 import ParameterSets, kind_of, nal_units, sample_of

SPS = bytes.fromhex("6742c00dda04021a100000")[:8] + b"\x01"
PPS = bytes.fromhex("68ce0fc8")
SLICE, IDR, REMARK, DELIMITER = b"\x41\x9a\x10", b"\x65\x88\x84", b"\x06\x05\x01\x80", b"\x09\x10"
SHORT, LONG = b"\x00\x00\x01", b"\x00\x00\x00\x01"


@pytest.mark.parametrize(
    ("stream", "units"),
    [
        (b"", []),
        (b"\x65\x88", []),  # no start code, no unit
        (SHORT + IDR, [IDR]),
        (LONG + IDR, [IDR]),
        (LONG + SPS + LONG + PPS + SHORT + IDR, [SPS, PPS, IDR]),
        (SHORT + IDR + b"\x00\x00\x00" + LONG + SLICE, [IDR, SLICE]),  # zeros before a start code are its own
        (SHORT + b"\x65\x00\x00\x03\x01\x80" + LONG + SLICE, [b"\x65\x00\x00\x03\x01\x80", SLICE]),
        (SHORT + SHORT + IDR, [IDR]),
    ],
)
def test_units_stand_between_start_codes(stream: bytes, units: list[bytes]) -> None:
    assert list(nal_units(stream)) == units


_unit = st.binary(min_size=1, max_size=40).filter(
    lambda unit: b"\x00\x00\x00" not in unit and b"\x00\x00\x01" not in unit and unit[-1] != 0
)


@given(units=st.lists(_unit, max_size=6), long=st.booleans())
def test_units_come_back_as_they_were_put_together(units: list[bytes], long: bool) -> None:
    stream = b"".join((LONG if long else SHORT) + unit for unit in units)
    assert list(nal_units(stream)) == units


def test_a_sample_has_lengths_and_no_more_than_the_picture() -> None:
    packet = LONG + DELIMITER + LONG + SPS + LONG + PPS + SHORT + REMARK + LONG + IDR + SHORT + IDR
    assert sample_of(packet) == 2 * (struct.pack(">I", len(IDR)) + IDR)


def test_the_parameter_sets_name_the_codec() -> None:
    sets = ParameterSets.read(LONG + SPS + SHORT + PPS)
    assert (sets.sps, sets.pps) == (SPS, PPS)
    assert sets.codec == "avc1.42C00D"
    assert kind_of(sets.sps) == 7


@pytest.mark.parametrize("extradata", [b"", LONG + SPS, LONG + PPS, LONG + b"\x67\x42" + LONG + PPS])
def test_a_codec_without_parameter_sets_is_told(extradata: bytes) -> None:
    with pytest.raises(ValueError, match="no parameter sets"):
        ParameterSets.read(extradata)


@pytest.mark.parametrize(("profile", "more"), [(66, b""), (77, b""), (100, b"\xfd\xf8\xf8\x00")])
def test_the_configuration_holds_both_sets_and_what_high_profiles_add(profile: int, more: bytes) -> None:
    sps = bytes([0x67, profile]) + SPS[2:]
    head = bytes([1, profile, SPS[2], SPS[3], 0xFF, 0xE1])
    lengths = [struct.pack(">H", len(item)) for item in (sps, PPS)]
    body = head + lengths[0] + sps + b"\x01" + lengths[1] + PPS + more
    assert ParameterSets(sps, PPS).configuration() == struct.pack(">I", 8 + len(body)) + b"avcC" + body
