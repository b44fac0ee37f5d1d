"""The spellings and rates of audio formats."""

from __future__ import annotations

import math
from typing import Any

import pytest

from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.formats import (
    DEFAULT_FORMAT,
    AudioFormat,
    Direction,
    Encoding,
    parse_format,
    parse_rate,
    supported_formats,
    wire_format,
)

PARAM = "session.audio.input.format"
BOTH: tuple[Direction, ...] = ("input", "output")
PCM16 = ("audio/pcm", "pcm", "audio/pcm16", "pcm16", "pcm_s16le", "s16le")
F32 = ("audio/pcm_f32le", "pcm_f32le", "f32le")
ULAW = ("audio/pcmu", "audio/g711_ulaw", "g711_ulaw", "g711-ulaw", "ulaw", "mulaw")
ALAW = ("audio/pcma", "audio/g711_alaw", "g711_alaw", "g711-alaw", "alaw")
WAV = ("audio/wav", "wav")


def _parse(value: object, direction: Direction = "input", **kwargs: Any) -> AudioFormat:
    return parse_format(value, direction=direction, param=PARAM, **kwargs)


def _refusal(value: object, direction: Direction = "input", **kwargs: Any) -> RealtimeError:
    with pytest.raises(RealtimeError) as caught:
        _parse(value, direction, **kwargs)
    return caught.value


@pytest.mark.parametrize(
    ("spellings", "encoding", "rate_hz", "directions"),
    [
        (PCM16, "pcm16", 24000, ("input", "output")),
        (F32, "pcm_f32le", 24000, ("input",)),
        (ULAW, "g711_ulaw", 8000, ("input", "output")),
        (ALAW, "g711_alaw", 8000, ("input", "output")),
        (WAV, "wav", 24000, ("output",)),
    ],
)
def test_every_spelling_is_read_in_its_directions_only(
    spellings: tuple[str, ...], encoding: Encoding, rate_hz: int, directions: tuple[Direction, ...]
) -> None:
    for spelled in spellings:
        for variant in (spelled, spelled.upper(), {"type": spelled}, {"format": spelled}, f" {spelled} "):
            for direction in directions:
                assert _parse(variant, direction) == AudioFormat(encoding, rate_hz, spelled)
        for direction in BOTH:
            if direction not in directions:
                assert _refusal(spelled, direction).code == "unsupported_audio_format"


def test_nothing_declared_is_pcm16_at_24_khz() -> None:
    assert _parse(None) == DEFAULT_FORMAT == AudioFormat("pcm16", 24000, "audio/pcm")
    assert _parse({}) == DEFAULT_FORMAT
    assert _parse({"type": None, "rate": None}) == DEFAULT_FORMAT


def test_openai_sessions_do_not_read_the_hyphenated_names() -> None:
    error = _refusal("g711-ulaw", duplex_names=False)
    assert (error.code, error.param) == ("unsupported_audio_format", PARAM)
    assert all(
        name in error.message for name in ("audio/pcm", "audio/pcmu", "audio/pcma", "g711_ulaw", "pcm16")
    )
    assert "g711-alaw" not in supported_formats("input", duplex_names=False)
    assert "wav" not in supported_formats("input")
    assert "pcm_f32le" not in supported_formats("output")


@pytest.mark.parametrize(
    "value", ["mp3", "", "opus", {"type": "flac"}, 7, True, [], {"type": 5}, "x" * 10_000]
)
def test_unknown_formats_are_refused_with_the_supported_ones(value: object) -> None:
    error = _refusal(value)
    assert error.code == "unsupported_audio_format"
    assert error.param is not None
    assert error.param.startswith(PARAM)
    assert len(error.message) < 500


@pytest.mark.parametrize("key", ["rate", "sample_rate_hz", "sample_rate"])
def test_the_rate_may_stand_in_the_object_under_three_names(key: str) -> None:
    assert _parse({"type": "pcm16", key: 48000}).sample_rate_hz == 48000
    error = _refusal({"type": "pcm16", key: 7999})
    assert (error.code, error.param) == ("bad_event", f"{PARAM}.{key}")


def test_a_rate_beside_the_format_wins_and_is_named_when_wrong() -> None:
    assert _parse({"type": "pcm16", "rate": 48000}, rate=16000).sample_rate_hz == 16000
    error = _refusal("pcm16", rate="16000", rate_param="session.sample_rate_hz")
    assert (error.code, error.param) == ("bad_event", "session.sample_rate_hz")


@pytest.mark.parametrize("rate", [8000, 16000, 24000.0, 44100, 192_000])
def test_whole_rates_in_range_are_taken(rate: float) -> None:
    assert parse_rate(rate, "sample_rate_hz") == int(rate)


@pytest.mark.parametrize("rate", [0, None, 0.0])
def test_no_rate_and_zero_declare_nothing(rate: float | None) -> None:
    assert parse_rate(rate, "sample_rate_hz") is None
    assert _parse({"type": "ulaw", "rate": rate}).sample_rate_hz == 8000


@pytest.mark.parametrize(
    "rate",
    [True, False, "24000", 16000.5, math.nan, math.inf, -16000, 4000, 7999, 192_001, 10**400, [16000], {}],
)
def test_other_rates_are_refused(rate: object) -> None:
    with pytest.raises(RealtimeError) as caught:
        parse_rate(rate, "sample_rate_hz")
    assert (caught.value.code, caught.value.param) == ("bad_event", "sample_rate_hz")


def test_what_an_update_leaves_out_stays_as_long_as_the_encoding_does() -> None:
    current = AudioFormat("pcm16", 16000, "pcm16")
    assert _parse({"rate": 48000}, current=current) == AudioFormat("pcm16", 48000, "pcm16")
    assert _parse("audio/pcm", current=current) == AudioFormat("pcm16", 16000, "audio/pcm")
    assert _parse("g711_ulaw", current=current).sample_rate_hz == 8000
    assert _parse("pcm16", current=AudioFormat("g711_alaw", 8000, "alaw")).sample_rate_hz == 24000


@pytest.mark.parametrize(
    ("fmt", "rendered"),
    [
        (AudioFormat("pcm16", 24000, "pcm16"), {"type": "audio/pcm", "rate": 24000}),
        (AudioFormat("pcm16", 8000, "pcm16"), {"type": "audio/pcm", "rate": 8000}),
        (AudioFormat("g711_ulaw", 8000, "ulaw"), {"type": "audio/pcmu"}),
        (AudioFormat("g711_alaw", 8000, "alaw"), {"type": "audio/pcma"}),
        (AudioFormat("g711_alaw", 16000, "alaw"), {"type": "audio/pcma", "rate": 16000}),
        (AudioFormat("pcm_f32le", 16000, "f32le"), {"type": "audio/pcm_f32le", "rate": 16000}),
        (AudioFormat("wav", 22050, "wav"), {"type": "audio/wav", "rate": 22050}),
    ],
)
def test_the_ga_object_reads_back_as_the_same_format(fmt: AudioFormat, rendered: dict[str, Any]) -> None:
    assert wire_format(fmt) == rendered
    again = _parse(rendered, "output" if fmt.encoding == "wav" else "input")
    assert (again.encoding, again.sample_rate_hz) == (fmt.encoding, fmt.sample_rate_hz)


@pytest.mark.parametrize(
    ("encoding", "rate_hz", "bytes_per_sample", "n_bytes", "ms"),
    [
        ("pcm16", 24000, 2, 4800, 100.0),
        ("pcm_f32le", 16000, 4, 64000, 1000.0),
        ("g711_ulaw", 8000, 1, 8000, 1000.0),
        ("g711_alaw", 8000, 1, 4, 0.5),
        ("wav", 24000, 2, 48, 1.0),
    ],
)
def test_sizes_and_durations(
    encoding: Encoding, rate_hz: int, bytes_per_sample: int, n_bytes: int, ms: float
) -> None:
    fmt = AudioFormat(encoding, rate_hz, encoding)
    assert fmt.bytes_per_sample == bytes_per_sample
    assert fmt.bytes_per_ms == rate_hz * bytes_per_sample / 1000
    assert fmt.duration_ms(n_bytes) == ms
