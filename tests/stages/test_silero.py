"""Voice-activity scores: the same as the network's own, per request, and what they say about real sound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from duplex_trio.models.references import resolve_reference
from duplex_trio.session.state.endpointing import Endpointer, EndpointingParams, SpeechStarted, SpeechStopped
from duplex_trio.stages.silero import SileroWorker
from duplex_trio.stages.units import Pcm, VadBatch
from duplex_trio.testing.speech import Speaker, melody, noise, silence, tone
from duplex_trio.testing.workers import run_requests, run_units

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def model_path() -> Path:
    path = resolve_reference("silero", "vad").path
    assert path is not None
    return path


@pytest.fixture(scope="module")
def worker(model_path: Path) -> Iterator[SileroWorker]:
    silero = SileroWorker(model_path)
    silero.load()
    yield silero
    silero.close()


@pytest.fixture(scope="module")
def sentence() -> Pcm:
    return Speaker().say("Good morning, how are you today?")


def whole_frames(*parts: Pcm) -> Pcm:
    sound = np.concatenate(parts)
    return sound[: sound.size // 512 * 512]


def scores(worker: SileroWorker, *units: Pcm) -> np.ndarray:
    outputs = run_units(worker, *(VadBatch({0: unit}) for unit in units)).values("test")
    return np.concatenate([output.probabilities[0] for output in outputs])


def test_the_scores_are_those_of_the_network_itself(
    model_path: Path, worker: SileroWorker, sentence: Pcm
) -> None:
    import onnxruntime

    sound = whole_frames(silence(0.3), sentence, noise(0.5))
    session = onnxruntime.InferenceSession(str(model_path), providers=["CPUExecutionProvider"])
    state = np.zeros((2, 1, 128), np.float32)
    padded = np.concatenate([np.zeros(64, np.float32), sound])
    expected = []
    for start in range(0, sound.size, 512):
        window = padded[None, start : start + 576]
        probability, state = session.run(None, {"input": window, "state": state, "sr": np.array(16000)})
        expected.append(probability[0, 0])
    got = scores(worker, sound)
    assert got.dtype == np.float32
    assert got == pytest.approx(np.array(expected), abs=1e-5)
    assert got.max() > 0.9


def test_units_of_any_length_continue_one_another(worker: SileroWorker, sentence: Pcm) -> None:
    sound = whole_frames(silence(0.2), sentence)
    pieces = [sound[:512], sound[512:512], sound[512 : 512 * 9], sound[512 * 9 :]]
    assert scores(worker, *pieces) == pytest.approx(scores(worker, sound), abs=1e-6)


def test_speakers_who_are_scored_together_do_not_hear_each_other(worker: SileroWorker, sentence: Pcm) -> None:
    """Each is scored as if alone, however unequally they speak and whoever comes and goes."""
    sounds = {
        1: whole_frames(sentence),
        2: whole_frames(noise(1.0, level=0.001)),
        3: whole_frames(silence(0.1), sentence, tone(0.5)),
        4: whole_frames(sentence)[512 * 7 :],
    }
    alone = {number: scores(worker, sound) for number, sound in sounds.items()}
    got: dict[int, list[float]] = {number: [] for number in sounds}
    batches, takes = [], {1: 3, 2: 1, 3: 2, 4: 5}
    positions = dict.fromkeys(sounds, 0)
    while any(positions[number] < len(sound) for number, sound in sounds.items()):
        frames = {}
        for number, sound in sounds.items():
            begin = positions[number]
            positions[number] = min(len(sound), begin + 512 * takes[number])
            if begin < positions[number]:
                frames[number] = sound[begin : positions[number]]
        batches.append(VadBatch(frames))
    for batch, output in zip(batches, run_units(worker, *batches).values("test"), strict=True):
        for number, probabilities in zip(batch.frames, output.probabilities, strict=True):
            got[number] += probabilities.tolist()
    for number, expected in alone.items():
        assert got[number] == pytest.approx(expected.tolist(), abs=1e-6)


def test_a_speaker_who_is_gone_is_forgotten(worker: SileroWorker, sentence: Pcm) -> None:
    """Whoever gets the number next starts from silence, as a new request does."""
    speech = whole_frames(sentence)
    expected = scores(worker, speech)
    outputs = run_units(worker, VadBatch({0: speech}), VadBatch({0: speech}, gone=[0])).values("test")
    assert outputs[1].probabilities[0] == pytest.approx(expected, abs=1e-6)


def test_samples_that_are_no_numbers_do_not_deafen_the_request(worker: SileroWorker, sentence: Pcm) -> None:
    broken = np.full(512, np.nan, np.float32)
    broken[::2] = np.inf
    got = scores(worker, broken, whole_frames(silence(0.5), sentence))
    assert np.isfinite(got).all()
    assert got.max() > 0.9


@pytest.mark.parametrize("shape", [(511,), (1, 512)])
def test_sound_that_is_not_whole_frames_fails_its_request_alone(
    worker: SileroWorker, sentence: Pcm, shape: tuple[int, ...]
) -> None:
    bad = VadBatch({0: np.zeros(shape, np.float32)})
    context = run_requests(worker, {"bad": [bad], "good": [VadBatch({0: whole_frames(sentence)})]})
    failure = context.failure("bad")
    assert failure is not None
    assert failure.code == "engine_error"
    assert "512" in failure.message
    assert context.values("good")[0].probabilities[0].max() > 0.9


def test_speech_is_found_where_it_is(worker: SileroWorker, sentence: Pcm) -> None:
    sound = whole_frames(noise(1.0, level=0.001), sentence, noise(1.5, level=0.001))
    endpointer = Endpointer(EndpointingParams(prefix_padding_ms=0))
    events = endpointer.feed(scores(worker, sound).tolist()).events
    assert [type(event) for event in events] == [SpeechStarted, SpeechStopped]
    started, stopped = events
    assert isinstance(started, SpeechStarted)
    assert isinstance(stopped, SpeechStopped)
    assert 1.0 <= started.start_sample / 16000 <= 1.35
    end_of_speech_s = 1.0 + sentence.size / 16000
    assert end_of_speech_s - 0.5 <= stopped.speech_end_sample / 16000 <= end_of_speech_s + 0.1
    assert stopped.end_sample - stopped.speech_end_sample >= 16 * 512


@pytest.mark.parametrize(
    "sound",
    [
        silence(3.0),
        noise(3.0, level=0.001),
        noise(3.0, level=0.05),
        noise(3.0, level=0.3),
        tone(3.0),
        tone(3.0, frequency_hz=120.0),
        melody(3.0),
    ],
    ids=["silence", "faint noise", "noise", "loud noise", "tone", "hum", "melody"],
)
def test_other_sound_is_no_speech(worker: SileroWorker, sound: Pcm) -> None:
    assert Endpointer().feed(scores(worker, whole_frames(sound)).tolist()).events == ()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.onnx"):
        SileroWorker(tmp_path / "nothing.onnx").load()
