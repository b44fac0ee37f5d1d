"""Recognition with the packaged Whisper: real speech, no speech, loops, long sound, and the order of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from duplex_trio.models.cascade.asr import WhisperWorker
from duplex_trio.models.references import resolve_reference
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.units import Pcm, SpeechSegment, Transcript
from duplex_trio.testing.speech import Speaker, melody, noise, silence, tone
from duplex_trio.testing.workers import RecordingContext, run_requests, run_units

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def worker() -> Iterator[WhisperWorker]:
    folder = resolve_reference("whisper-tiny.en", "asr").path
    assert folder is not None
    whisper = WhisperWorker(folder)
    whisper.load()
    yield whisper
    whisper.close()


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    return Speaker()


def transcribe(worker: WhisperWorker, pcm: Pcm, *, partial: bool = False) -> Transcript:
    (transcript,) = run_units(worker, SpeechSegment(pcm=pcm, partial=partial)).values("test")
    assert isinstance(transcript, Transcript)
    return transcript


def words(text: str) -> list[str]:
    return "".join(c for c in text.lower() if c.isalnum() or c.isspace()).split()


SENTENCES = [
    "What is the capital of France?",
    "Good morning, how are you today?",
    "Please tell me a story about a dragon.",
    "I feel a bit tired today.",
    "My name is Anna.",
    "Yes.",
    "What should I eat for breakfast tomorrow?",
    "Can you play some music while I cook dinner for my friends?",
    "The weather is nice, so I will walk to the park.",
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_speech_becomes_its_text(worker: WhisperWorker, speaker: Speaker, sentence: str) -> None:
    speech = speaker.say(sentence)
    heard = transcribe(worker, np.concatenate([silence(0.3), speech, noise(0.5, level=0.0005)]))
    assert words(heard.text) == words(sentence)
    assert not heard.partial
    assert heard.duration_s == pytest.approx(speech.size / 16000 + 0.8)
    assert heard.no_speech_probability < 0.5
    assert heard.average_log_probability > -0.7


def test_partials_of_growing_speech_converge(worker: WhisperWorker, speaker: Speaker) -> None:
    speech = speaker.say("Please tell me a story about a dragon.")
    texts = []
    for end in range(8000, speech.size + 8000, 8000):
        heard = transcribe(worker, speech[:end], partial=True)
        assert heard.partial
        texts.append(words(heard.text))
    assert texts[-1] == words("Please tell me a story about a dragon.")
    assert texts[-2][:4] == texts[-1][:4]


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("seconds", [0.3, 2.0, 8.0])
@pytest.mark.parametrize("make", [silence, noise, tone, melody], ids=["silence", "noise", "tone", "melody"])
def test_sound_without_speech_has_no_text(
    worker: WhisperWorker, make: Callable[[float], Pcm], seconds: float, partial: bool
) -> None:
    sound = make(seconds)
    heard = transcribe(worker, sound, partial=partial)
    assert heard.text == ""
    assert heard.no_speech_probability > 0.6


def test_no_sound_at_all_has_no_text(worker: WhisperWorker) -> None:
    assert transcribe(worker, silence(0.0)) == Transcript(
        text="", partial=False, duration_s=0.0, no_speech_probability=1.0
    )


def test_samples_that_are_no_numbers_do_no_harm(worker: WhisperWorker, speaker: Speaker) -> None:
    speech = speaker.say("My name is Anna.")
    speech[100:120] = np.nan
    speech[200] = np.inf
    assert words(transcribe(worker, speech).text) == ["my", "name", "is", "anna"]


def test_a_repetition_that_was_spoken_is_heard_again_and_kept(
    worker: WhisperWorker, speaker: Speaker
) -> None:
    before = worker.statistics()["redone_total"]
    heard = transcribe(worker, speaker.say("I know, I know, I know, I know."))
    assert words(heard.text) == ["i", "know"] * 4
    assert worker.statistics()["redone_total"] == before + 1


def test_a_partial_loses_its_repetition_and_is_not_redone(worker: WhisperWorker, speaker: Speaker) -> None:
    before = worker.statistics()["redone_total"]
    heard = transcribe(worker, speaker.say("I know, I know, I know, I know."), partial=True)
    assert words(heard.text) == ["i", "know"]
    assert worker.statistics()["redone_total"] == before


def test_a_loop_of_the_short_window_is_corrected_by_the_whole_one(
    worker: WhisperWorker, speaker: Speaker
) -> None:
    heard = transcribe(worker, speaker.say("One, two. One, two. One, two. One, two."))
    assert 2 <= words(heard.text).count("1") <= 4
    assert words(heard.text).count("1") == words(heard.text).count("2")


def test_a_loop_that_never_ends_is_said_once(
    worker: WhisperWorker, speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duplex_trio.models.cascade.asr.token_limit", lambda seconds: 5)
    heard = transcribe(worker, speaker.say("I know, I know, I know, I know, I know, I know."))
    assert words(heard.text) == ["i", "know"]


def test_fast_speech_gets_room_in_the_whole_window(
    worker: WhisperWorker, speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duplex_trio.models.cascade.asr.token_limit", lambda seconds: 7)
    heard = transcribe(worker, speaker.say("What should I eat for breakfast tomorrow?"))
    assert words(heard.text) == words("What should I eat for breakfast tomorrow?")


def test_forty_seconds_are_transcribed_in_order(worker: WhisperWorker, speaker: Speaker) -> None:
    said = [
        "The first thing we saw was the old harbour.",
        "Then the road went up the hill and through the forest.",
        "In the evening we sat by the fire and told stories.",
        "On the next day it rained from morning until night.",
        "So we stayed at home and played cards with the children.",
    ]
    pauses = [part for sentence in said * 3 for part in (speaker.say(sentence), silence(0.4))]
    sound = np.concatenate(pauses)
    assert sound.size / 16000 > 40
    heard = transcribe(worker, sound)
    expected = [word for sentence in said * 3 for word in words(sentence)]
    got = words(heard.text.replace("harbor", "harbour"))
    assert len(got) == pytest.approx(len(expected), abs=3)
    assert sum(word in got for word in set(expected)) >= 0.95 * len(set(expected))
    assert heard.duration_s == pytest.approx(sound.size / 16000)


def test_speech_after_a_long_silence_is_found(worker: WhisperWorker, speaker: Speaker) -> None:
    heard = transcribe(worker, np.concatenate([silence(35.0), speaker.say("My name is Anna."), silence(5.0)]))
    assert words(heard.text) == ["my", "name", "is", "anna"]


def test_finals_go_before_partials_of_others(worker: WhisperWorker) -> None:
    sound = noise(0.2)
    partial, final = SpeechSegment(pcm=sound, partial=True), SpeechSegment(pcm=sound)
    context = run_requests(worker, {"talks": [partial], "waits": [final]})
    assert [output.request_id for output in context.outputs] == ["waits", "talks"]


def test_a_waiting_partial_is_dropped_for_newer_sound(worker: WhisperWorker) -> None:
    context = RecordingContext()
    worker.open(StageRequest(request_id="a"), context)
    for seconds, partial in ((0.1, False), (0.2, True), (0.3, True), (0.4, False), (0.5, True)):
        worker.submit("a", SpeechSegment(pcm=silence(seconds), partial=partial), False, context)
    while worker.step(context):
        pass
    worker.abort(["a"])
    assert [(t.duration_s, t.partial) for t in context.values("a")] == [
        (0.1, False),
        (0.4, False),
        (0.5, True),
    ]


def test_aborted_requests_are_not_transcribed(worker: WhisperWorker) -> None:
    context = RecordingContext()
    worker.open(StageRequest(request_id="a"), context)
    worker.submit("a", SpeechSegment(pcm=silence(0.1)), True, context)
    worker.abort(["a"])
    assert not worker.step(context)
    assert context.outputs == []


def test_a_language_that_the_model_does_not_know_fails_its_request_alone(worker: WhisperWorker) -> None:
    sound = silence(0.1)
    context = run_requests(
        worker,
        {
            "german": [SpeechSegment(pcm=sound, language="de")],
            "english": [SpeechSegment(pcm=sound, language="en-US")],
        },
    )
    failure = context.failure("german")
    assert failure is not None
    assert (failure.code, "'de'" in failure.message) == ("invalid_value", True)
    assert [transcript.text for transcript in context.values("english")] == [""]


def test_a_folder_without_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"model\.bin"):
        WhisperWorker(tmp_path).load()
