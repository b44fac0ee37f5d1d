"""Synthesis with the packaged voice: what is said, how it is cut and trimmed, what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import soxr

from duplex_trio.models.cascade.asr import WhisperWorker
from duplex_trio.models.cascade.tts import HibariWorker, pause_ms, trim_silence
from duplex_trio.models.references import resolve_reference
from duplex_trio.stages.units import Clause, SpeechChunk, SpeechSegment
from duplex_trio.testing.workers import run_requests, run_units


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("Hello.", 280),
        ("Really?!", 280),
        ("He said “yes.”  ", 280),
        ("**Done!**", 280),
        ("and so on…", 280),
        ("Well,", 150),
        ("my friend;", 150),
        ("I was thinking —", 150),
        ("and then", 60),
        ("", 60),
        ("“”", 60),
    ],
)
def test_the_pause_follows_the_punctuation(text: str, expected_ms: int) -> None:
    assert pause_ms(text) == expected_ms


def sound(*parts: tuple[float, float]) -> np.ndarray:
    return np.concatenate([np.full(int(seconds * 24000), level, np.float32) for seconds, level in parts])


def test_silence_is_trimmed_on_both_sides_only() -> None:
    trimmed = trim_silence(sound((0.5, 0), (0.2, 0.1), (0.7, 0), (0.1, 0.1), (0.6, 0)), 280)
    assert trimmed.size / 24000 == pytest.approx(0.02 + 1.0 + 0.28, abs=0.011)
    assert not trimmed[:400].any()
    assert not trimmed[-6000:].any()


def test_silence_is_never_added() -> None:
    short = sound((0.005, 0), (0.2, 0.1), (0.05, 0))
    assert np.array_equal(trim_silence(short, 280), short)


@pytest.mark.parametrize("seconds", [0.0, 0.003, 1.0])
def test_what_is_silent_throughout_is_dropped(seconds: float) -> None:
    assert trim_silence(sound((seconds, 0.0001)), 280).size == 0


@pytest.fixture(scope="module")
def worker() -> Iterator[HibariWorker]:
    hibari = HibariWorker()
    hibari.load()
    yield hibari
    hibari.close()


def speak(
    worker: HibariWorker, text: str, *, speed: float = 1.0, voice: str | None = None
) -> list[SpeechChunk]:
    return run_units(worker, Clause(text=text, speed=speed, voice=voice)).values("test")


def seconds(chunks: list[SpeechChunk]) -> float:
    return sum(chunk.pcm.size for chunk in chunks) / 24000


@pytest.mark.models
def test_each_sentence_is_a_chunk_with_its_text(worker: HibariWorker) -> None:
    chunks = speak(worker, "Hello there. How are you, Dr. Smith? Fine!")
    assert [chunk.text for chunk in chunks] == ["Hello there.", "How are you, Dr. Smith?", "Fine!"]
    for chunk in chunks:
        assert chunk.sample_rate_hz == 24000
        assert chunk.pcm.dtype == np.float32
        assert 0.05 < np.abs(chunk.pcm).max() < 1.0
        onset = np.flatnonzero(np.abs(chunk.pcm) > 0.002)[0]
        assert onset < 0.15 * 24000


@pytest.mark.models
def test_equal_text_sounds_equal(worker: HibariWorker) -> None:
    first, second = speak(worker, "Good morning."), speak(worker, "Good morning.")
    assert np.array_equal(first[0].pcm, second[0].pcm)


@pytest.mark.models
def test_what_is_spoken_is_understood(worker: HibariWorker) -> None:
    folder = resolve_reference("whisper-tiny.en", "asr").path
    assert folder is not None
    whisper = WhisperWorker(folder)
    whisper.load()
    said = ["I was thinking,", "maybe we should", "go to the park today. It is warm and sunny."]
    chunks = [chunk for clause in said for chunk in speak(worker, clause)]
    pcm = soxr.resample(np.concatenate([chunk.pcm for chunk in chunks]), 24000, 16000)
    (heard,) = run_units(whisper, SpeechSegment(pcm=pcm.astype(np.float32))).values("test")
    assert heard.text.replace(",", "").split() == " ".join(said).replace(",", "").split()


@pytest.mark.models
@pytest.mark.parametrize("text", ["...", "", " ", "\n", "—", "?!", "🙂", "**", "日本語です"])
def test_what_cannot_be_spoken_is_a_chunk_without_sound(worker: HibariWorker, text: str) -> None:
    (chunk,) = speak(worker, text)
    assert chunk.pcm.size == 0
    assert chunk.text == text


@pytest.mark.models
@pytest.mark.parametrize(
    "text", ["a", "x" * 500, "word " * 120, "Привет", "[x](/ab/)", "1/0 %& <b> \x00 \ud83d\ude42", "é ß ø"]
)
def test_strange_text_does_no_harm(worker: HibariWorker, text: str) -> None:
    chunks = speak(worker, text)
    assert chunks
    assert all(np.isfinite(chunk.pcm).all() for chunk in chunks)


@pytest.mark.models
def test_speed_is_a_factor(worker: HibariWorker) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    normal = seconds(speak(worker, text))
    assert seconds(speak(worker, text, speed=2.0)) == pytest.approx(normal / 2, rel=0.15)
    assert seconds(speak(worker, text, speed=0.5)) == pytest.approx(normal * 2, rel=0.15)


@pytest.mark.models
@pytest.mark.parametrize(
    "clause",
    [
        Clause(text="Hello.", voice="emma"),
        Clause(text="Hello.", voice=""),
        Clause(text="Hello.", speed=0.0),
        Clause(text="Hello.", speed=-1.0),
        Clause(text="Hello.", speed=5.0),
        Clause(text="Hello.", speed=float("nan")),
    ],
)
def test_other_voices_and_speeds_fail_their_request_alone(worker: HibariWorker, clause: Clause) -> None:
    context = run_requests(worker, {"bad": [clause], "good": [Clause(text="Hello.", voice="heart")]})
    failure = context.failure("bad")
    assert failure is not None
    assert failure.code == "invalid_value"
    assert context.values("bad") == []
    assert seconds(context.values("good")) > 0.5
