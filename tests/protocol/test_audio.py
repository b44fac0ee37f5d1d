"""Streams of sound from and to the wire: exact sizes, exact seams, no state left by what was refused."""

from __future__ import annotations

import io
import wave
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex_trio.protocol.duplex.audio import (
    AudioFormat,
    AudioInputDecoder,
    AudioOutputEncoder,
    Pcm,
    StreamResampler,
    float_from_pcm16,
    pcm16_bytes,
    read_wav,
    resample,
    split_chunks,
)
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.formats import Encoding

RATES = [
    (24000, 16000),
    (8000, 16000),
    (44100, 16000),
    (48000, 16000),
    (16000, 24000),
    (22050, 24000),
    (24000, 8000),
]
EVERY_RATE_HZ = [8000, 16_000, 22_050, 24_000, 44_100, 48_000]
ALL_PCM16 = np.arange(-32768, 32768, dtype="<i2").tobytes()


def _format(encoding: Encoding, rate_hz: int) -> AudioFormat:
    return AudioFormat(encoding, rate_hz, encoding)


def _noise(n: int, seed: int = 1) -> Pcm:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, n).astype(np.float32)


def _tone(rate_hz: int, seconds: float = 0.5, hz: float = 1000.0, level: float = 0.5) -> Pcm:
    t = np.arange(int(rate_hz * seconds)) / rate_hz
    return (level * np.sin(2 * np.pi * hz * t)).astype(np.float32)


def _cuts(total: int, seed: int, step: int = 700) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    edges = [0, *np.cumsum(rng.integers(1, step, 2 * total // step + 2)).tolist()]
    return list(pairwise([edge for edge in edges if edge < total] + [total]))


def test_every_16_bit_sample_survives_a_round_trip() -> None:
    assert pcm16_bytes(float_from_pcm16(ALL_PCM16)) == ALL_PCM16


def test_16_bit_samples_are_rounded_and_clipped() -> None:
    given = np.array(
        [1.0, -1.0, 2.5, -2.5, 0.6 / 32768, 0.4 / 32768, 1.5 / 32768, np.nan, np.inf, -np.inf, 3e38]
    )
    expected = [32767, -32768, 32767, -32768, 1, 0, 2, 0, 32767, -32768, 32767]
    assert np.frombuffer(pcm16_bytes(given), dtype="<i2").tolist() == expected


def test_float_from_pcm16_refuses_half_a_sample() -> None:
    with pytest.raises(ValueError, match="multiple"):
        float_from_pcm16(b"\x00\x01\x02")


@pytest.mark.parametrize(("from_hz", "to_hz"), RATES)
def test_pieces_resample_to_exactly_what_the_whole_does(from_hz: int, to_hz: int) -> None:
    sound = _noise(from_hz // 2 + 7)
    whole = resample(sound, from_hz, to_hz)
    stream = StreamResampler(from_hz, to_hz)
    pieces = [stream.feed(sound[start:end]) for start, end in _cuts(len(sound), seed=from_hz)]
    before_flush = np.concatenate(pieces)
    np.testing.assert_array_equal(before_flush, whole[: len(before_flush)])
    assert len(whole) - len(before_flush) < 0.2 * to_hz
    np.testing.assert_array_equal(np.concatenate([before_flush, stream.flush()]), whole)
    assert abs(len(whole) - len(sound) * to_hz / from_hz) <= 1
    np.testing.assert_array_equal(np.concatenate([stream.feed(sound), stream.flush()]), whole)


@pytest.mark.slow
@given(
    st.sampled_from(EVERY_RATE_HZ),
    st.sampled_from(EVERY_RATE_HZ),
    st.lists(st.integers(0, 3000), max_size=12),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_way_to_cut_a_sound_changes_it(from_hz: int, to_hz: int, sizes: list[int]) -> None:
    """Of any of the usual rates into any other, and its length is right to a sample."""
    sound = _noise(sum(sizes), seed=len(sizes))
    stream, at, pieces = StreamResampler(from_hz, to_hz), 0, []
    for size in sizes:
        pieces.append(stream.feed(sound[at : at + size]))
        at += size
    made = np.concatenate([*pieces, stream.flush()])
    np.testing.assert_array_equal(made, resample(sound, from_hz, to_hz))
    assert abs(len(made) - len(sound) * to_hz / from_hz) <= 1


def test_resampling_keeps_a_tone_in_place_and_at_its_level() -> None:
    resampled = resample(_tone(24000), 24000, 16000)
    inner = slice(1000, -1000)
    np.testing.assert_allclose(resampled[inner], _tone(16000)[inner], atol=2e-3)


@pytest.mark.parametrize("rate_hz", [16000, 24000])
def test_equal_rates_and_empty_sounds_pass_through(rate_hz: int) -> None:
    sound = _noise(100)
    assert resample(sound, rate_hz, rate_hz) is sound
    stream = StreamResampler(rate_hz, rate_hz)
    assert stream.feed(sound) is sound
    assert len(stream.flush()) == 0
    assert len(StreamResampler(8000, 16000).flush()) == 0
    assert len(StreamResampler(8000, 16000).feed(sound[:0])) == 0
    assert len(resample(sound[:0], 24000, 16000)) == 0


@pytest.mark.parametrize("encoding", ["pcm16", "pcm_f32le", "g711_ulaw", "g711_alaw"])
@pytest.mark.parametrize("step", [1, 3, 5, 700])
def test_input_may_be_cut_at_any_byte(encoding: Encoding, step: int) -> None:
    fmt = _format(encoding, 16000)
    data = np.random.default_rng(3).integers(0, 256, 840, dtype=np.uint8).tobytes()
    if encoding == "pcm_f32le":
        data = _noise(210).tobytes()
    decoder = AudioInputDecoder(fmt, 16000)
    pieces = [decoder.feed(data[start : start + step]) for start in range(0, len(data), step)]
    whole = AudioInputDecoder(fmt, 16000).feed(data)
    assert len(whole) == len(data) // fmt.bytes_per_sample
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


@pytest.mark.parametrize(("rate_hz", "target_hz"), [(24000, 16000), (8000, 16000), (44100, 16000)])
def test_input_is_resampled_across_appends_without_seams(rate_hz: int, target_hz: int) -> None:
    data = pcm16_bytes(_tone(rate_hz))
    decoder = AudioInputDecoder(_format("pcm16", rate_hz), target_hz)
    pieces = [decoder.feed(data[start:end]) for start, end in _cuts(len(data), seed=5)]
    sound = np.concatenate([*pieces, decoder.flush()])
    np.testing.assert_array_equal(sound, resample(float_from_pcm16(data), rate_hz, target_hz))


def test_a_flush_ends_the_utterance_and_drops_half_a_sample_unless_told() -> None:
    data = pcm16_bytes(_noise(50))
    decoder = AudioInputDecoder(_format("pcm16", 16000), 16000)
    decoder.feed(data + b"\x7f")
    assert len(decoder.flush()) == 0
    np.testing.assert_array_equal(decoder.feed(data), float_from_pcm16(data))
    decoder.feed(data[:1])
    decoder.flush(keep_partial=True)
    np.testing.assert_array_equal(decoder.feed(data[1:]), float_from_pcm16(data))


def test_a_reset_forgets_everything() -> None:
    data = pcm16_bytes(_noise(2400))
    decoder = AudioInputDecoder(_format("pcm16", 24000), 16000)
    fresh = decoder.feed(data)
    decoder.feed(data + b"\x01")
    decoder.reset()
    assert len(decoder.flush()) == 0
    np.testing.assert_array_equal(decoder.feed(data), fresh)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_floats_that_are_not_finite_are_refused_and_leave_no_trace(bad: float) -> None:
    good = _noise(40).tobytes()
    decoder = AudioInputDecoder(_format("pcm_f32le", 16000), 16000)
    decoder.feed(good[:6])
    with pytest.raises(RealtimeError) as caught:
        decoder.feed(good[6:80] + np.array([0, bad, 0], dtype="<f4").tobytes())
    assert (caught.value.code, caught.value.param) == ("bad_audio", "audio")
    np.testing.assert_array_equal(decoder.feed(good[6:]), np.frombuffer(good, dtype="<f4")[1:])


def test_floats_beyond_full_scale_are_clipped() -> None:
    decoder = AudioInputDecoder(_format("pcm_f32le", 16000), 16000)
    sound = decoder.feed(np.array([2.0, -3e38, 0.25], dtype="<f4").tobytes())
    assert sound.tolist() == [1.0, -1.0, 0.25]


def test_formats_without_a_direction_are_programming_errors() -> None:
    with pytest.raises(ValueError, match="input"):
        AudioInputDecoder(_format("wav", 24000), 16000)
    with pytest.raises(ValueError, match="output"):
        AudioOutputEncoder(_format("pcm_f32le", 24000), 24000)


def test_a_coder_matches_by_encoding_and_rate_not_by_spelling() -> None:
    decoder = AudioInputDecoder(_format("g711_ulaw", 8000), 16000)
    assert decoder.matches(AudioFormat("g711_ulaw", 8000, "mulaw"))
    assert not decoder.matches(_format("g711_ulaw", 16000))
    assert not decoder.matches(_format("g711_alaw", 8000))
    encoder = AudioOutputEncoder(_format("pcm16", 24000), 22050)
    assert encoder.matches(AudioFormat("pcm16", 24000, "audio/pcm"), 22050)
    assert not encoder.matches(_format("pcm16", 24000), 24000)


@pytest.mark.parametrize(
    ("encoding", "rate_hz", "n_bytes"),
    [("pcm16", 24000, 24000), ("pcm16", 16000, 16000), ("g711_ulaw", 8000, 4000), ("g711_alaw", 8000, 4000)],
)
def test_output_has_the_size_of_its_duration(encoding: Encoding, rate_hz: int, n_bytes: int) -> None:
    encoder = AudioOutputEncoder(_format(encoding, rate_hz), 24000)
    sound = _tone(24000)
    pieces = [encoder.feed(sound[start:end]) for start, end in _cuts(len(sound), seed=8)]
    total = len(b"".join(pieces)) + len(encoder.flush())
    assert total == n_bytes
    assert encoder.flush() == b""


@pytest.mark.parametrize("encoding", ["pcm16", "g711_ulaw", "g711_alaw"])
def test_what_is_sent_is_the_tone_that_was_made(encoding: Encoding) -> None:
    encoder = AudioOutputEncoder(_format(encoding, 8000), 24000)
    data = encoder.feed(_tone(24000)) + encoder.flush()
    heard = AudioInputDecoder(_format(encoding, 8000), 8000).feed(data)
    assert np.abs(heard).max() < 0.55
    inner = slice(500, -500)
    np.testing.assert_allclose(heard[inner], _tone(8000)[inner], atol=0.02)


def test_each_wav_chunk_is_a_file_of_its_own() -> None:
    encoder = AudioOutputEncoder(_format("wav", 24000), 24000)
    sound = _tone(24000)
    chunks = [encoder.feed(sound[:2400]), encoder.feed(sound[2400:7200])]
    assert encoder.feed(sound[:0]) == b""
    assert [len(chunk) for chunk in chunks] == [44 + 4800, 44 + 9600]
    for chunk in chunks:
        with wave.open(io.BytesIO(chunk)) as file:
            assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24000)
    heard = np.concatenate([read_wav(chunk)[0] for chunk in chunks])
    np.testing.assert_allclose(heard, sound[:7200], atol=1 / 32768)


def test_a_broken_sample_is_silence_and_spoils_nothing_after_it() -> None:
    encoder = AudioOutputEncoder(_format("pcm16", 8000), 24000)
    sound = _tone(24000)
    broken = sound.copy()
    broken[100] = np.nan
    silenced = sound.copy()
    silenced[100] = 0.0
    expected = AudioOutputEncoder(_format("pcm16", 8000), 24000)
    assert encoder.feed(broken) + encoder.flush() == expected.feed(silenced) + expected.flush()
    assert np.isnan(broken[100])


def test_a_reset_encoder_sends_nothing_of_the_answer_that_was_cut_off() -> None:
    encoder = AudioOutputEncoder(_format("pcm16", 16000), 24000)
    encoder.feed(_tone(24000))
    encoder.reset()
    assert encoder.flush() == b""


@pytest.mark.parametrize(("rate_hz", "chunk_ms"), [(24000, 100), (22050, 20), (16000, 1000), (44100, 1)])
def test_chunks_follow_the_time_grid(rate_hz: int, chunk_ms: int) -> None:
    sound = _noise(rate_hz + 13)
    chunks = list(split_chunks(sound, rate_hz, chunk_ms))
    np.testing.assert_array_equal(np.concatenate(chunks), sound)
    assert all(abs(len(chunk) - rate_hz * chunk_ms / 1000) < 1 for chunk in chunks[:-1])
    assert sum(len(chunk) for chunk in chunks[: 1000 // chunk_ms]) == rate_hz
    assert list(split_chunks(sound[:0], rate_hz, chunk_ms)) == []


@pytest.mark.parametrize(("rate_hz", "chunk_ms"), [(24000, 0), (24000, -1), (500, 1)])
def test_chunks_without_samples_are_refused(rate_hz: int, chunk_ms: int) -> None:
    with pytest.raises(ValueError, match="no sample"):
        next(split_chunks(_noise(10), rate_hz, chunk_ms))
