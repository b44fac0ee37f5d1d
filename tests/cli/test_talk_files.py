"""What a conversation leaves behind: the recording, the picture, the JSON."""

from __future__ import annotations

import base64
import wave
from pathlib import Path

import numpy as np
import pytest

from duplex_trio.cli.talk.latency import Exchange, exchanges
from duplex_trio.cli.talk.picture import ASSISTANT_COLOUR, CUT_COLOUR, USER_COLOUR, draw_picture
from duplex_trio.cli.talk.recording import RECORDING_HZ, Recording, Sound
from duplex_trio.cli.talk.report import TalkResult
from duplex_trio.cli.talk.scenario import FRAME_SAMPLES, Said
from duplex_trio.cli.talk.timeline import Timeline
from duplex_trio.clients.events import parse_event
from duplex_trio.protocol.duplex.audio import Pcm, pcm16_bytes, write_wav

BEGIN_S = 100.0


def tone(duration_s: float, level: float) -> Pcm:
    time_s = np.arange(round(duration_s * RECORDING_HZ)) / RECORDING_HZ
    return (np.sin(2 * np.pi * 220 * time_s) * level).astype(np.float32)


class Recorded:
    """A conversation out of a list of events: the user interrupts the first of two answers."""

    def __init__(self) -> None:
        self.timeline, self.recording = Timeline(), Recording(BEGIN_S)
        self.said = [
            Said("1.wav", BEGIN_S + 0.2, BEGIN_S + 0.2, BEGIN_S + 1.0, BEGIN_S + 1.0),
            Said("2.wav", BEGIN_S + 3.0, BEGIN_S + 3.0, BEGIN_S + 4.0, BEGIN_S + 4.0),
        ]
        self._input("u1", 0.4, 1.5, "What is this?")
        self._answer("r1", 1.6, 2.0, "This is an answer that is long.")
        self._event(3.2, "output_audio_buffer.cleared", response_id="r1")
        self._event(3.2, "response.done", response={"id": "r1", "status": "cancelled"})
        self._input("u2", 3.1, 4.5, "Stop it.")
        self._answer("r2", 4.8, 1.0, "All right.")
        self._event(5.0, "response.done", response={"id": "r2", "status": "completed"})
        for index in range(300):
            self.recording.microphone(self._frame(index * 0.02))

    @property
    def sound(self) -> Sound:
        return self.recording.sound(self.timeline.cursor)

    @property
    def exchanges(self) -> list[Exchange]:
        return exchanges(self.timeline, self.said, BEGIN_S + 7)

    def _frame(self, at_s: float) -> Pcm:
        speaking = any(said.start_s <= BEGIN_S + at_s < said.end_s for said in self.said)
        time_s = at_s + np.arange(FRAME_SAMPLES) / 16_000
        return (np.sin(2 * np.pi * 110 * time_s) * (0.4 if speaking else 0)).astype(np.float32)

    def _event(self, at_s: float, event_type: str, **fields: object) -> None:
        event = parse_event({"type": event_type, **fields}, received_at_s=BEGIN_S + at_s)
        self.timeline.cursor.observe(event)
        self.timeline.observe(event)
        self.recording.observe(event)

    def _input(self, item_id: str, started_s: float, stopped_s: float, text: str) -> None:
        self._event(started_s, "input_audio_buffer.speech_started", item_id=item_id)
        self._event(stopped_s, "input_audio_buffer.speech_stopped", item_id=item_id)
        done = "conversation.item.input_audio_transcription.completed"
        self._event(stopped_s, done, item_id=item_id, transcript=text)

    def _answer(self, rid: str, at_s: float, duration_s: float, text: str) -> None:
        self._event(at_s, "response.created", response={"id": rid})
        pcm = tone(duration_s, 0.5)
        for begin in range(0, len(pcm), 2400):
            delta = base64.b64encode(pcm16_bytes(pcm[begin : begin + 2400])).decode()
            fields = {"response_id": rid, "delta": delta, "sample_rate_hz": RECORDING_HZ}
            self._event(at_s, "response.output_audio.delta", **fields)
            if begin == 0:
                self._event(at_s, "response.output_audio_transcript.delta", response_id=rid, delta=text)


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return Recorded()


def at(pcm: Pcm, begin_s: float, end_s: float) -> float:
    return float(np.abs(pcm[round(begin_s * RECORDING_HZ) : round(end_s * RECORDING_HZ)]).max())


def test_the_recording_has_each_voice_where_it_was_heard_and_nothing_after_a_cut(
    recorded: Recorded, tmp_path: Path
) -> None:
    sound = recorded.sound
    path = tmp_path / "talk.wav"
    write_wav(path, [sound.user, sound.assistant], RECORDING_HZ)
    with wave.open(str(path)) as reader:
        assert (reader.getnchannels(), reader.getframerate(), reader.getsampwidth()) == (2, 24_000, 2)
        frames = np.frombuffer(reader.readframes(reader.getnframes()), "<i2").reshape(-1, 2) / 32768
    left, right = frames[:, 0].astype(np.float32), frames[:, 1].astype(np.float32)
    assert len(frames) == pytest.approx(6 * RECORDING_HZ, abs=2)
    assert at(left, 0.25, 0.95) == pytest.approx(0.4, abs=0.02)
    assert at(left, 1.1, 2.9) < 0.01
    assert at(left, 3.05, 3.95) == pytest.approx(0.4, abs=0.02)
    assert at(right, 0, 1.59) == 0
    assert at(right, 1.6, 3.19) == pytest.approx(0.5, abs=0.01)
    assert at(right, 3.2001, 4.79) == 0
    assert at(right, 4.8, 5.8) == pytest.approx(0.5, abs=0.01)
    assert at(right, 5.81, 6) == 0
    # The 5 ms before the cut fade out, so that it does not click.
    assert at(right, 3.199, 3.2) < 0.15


def test_what_was_cut_is_kept_apart_where_it_would_have_been_heard(recorded: Recorded) -> None:
    unheard = recorded.sound.unheard
    assert at(unheard, 0, 3.19) == 0
    assert at(unheard, 3.21, 3.59) == pytest.approx(0.5, abs=0.01)
    assert at(unheard, 3.61, 6) == 0


def test_pieces_join_without_a_seam(recorded: Recorded) -> None:
    heard = recorded.sound.assistant[round(4.8 * RECORDING_HZ) : round(5.8 * RECORDING_HZ)]
    assert np.abs(heard - tone(1.0, 0.5)).max() < 1e-3


def test_loudness_of_the_last_moments(recorded: Recorded) -> None:
    user, assistant = recorded.recording.loudness(recorded.timeline.cursor, BEGIN_S + 4.0, 40, 0.1)
    assert user.shape == assistant.shape == (40,)
    assert (user[3:9] > 0.3).all()
    assert (user[11:29] < 0.01).all()
    assert (assistant[:15] == 0).all()
    assert (assistant[17:31] > 0.4).all()
    assert (assistant[33:] == 0).all()


@pytest.mark.slow
def test_the_picture_shows_both_voices_the_waits_and_the_cut(recorded: Recorded, tmp_path: Path) -> None:
    from matplotlib.image import imread

    path = tmp_path / "talk.png"
    draw_picture(path, recorded.sound, recorded.exchanges, BEGIN_S, title="A title", subtitle="more")
    pixels = np.round(imread(path)[:, :, :3] * 255).astype(int)
    height, width, _ = pixels.shape
    assert width == 1950
    assert 700 < height < 1600

    def share(colour: str) -> float:
        red_green_blue = [int(colour[index : index + 2], 16) for index in (1, 3, 5)]
        return float((np.abs(pixels - red_green_blue).max(axis=2) < 12).mean())

    assert share(USER_COLOUR) > 0.004
    assert share(ASSISTANT_COLOUR) > 0.004
    assert share(CUT_COLOUR) > 0.0003
    assert share("#f2b54a") > 0.0003
    assert share("#ffffff") > 0.7


@pytest.mark.slow
def test_a_picture_of_nothing_said_and_of_very_much_said(recorded: Recorded, tmp_path: Path) -> None:
    silence = Sound(*(np.zeros(0, np.float32) for _ in range(3)))
    draw_picture(tmp_path / "nothing.png", silence, [], BEGIN_S, title="Nothing")
    crowded = Recorded()
    for answer in crowded.timeline.answers.values():
        answer.parts = [type(answer.parts[0])("word " * 400, 0.0)]
    draw_picture(tmp_path / "much.png", crowded.sound, crowded.exchanges, BEGIN_S, title="Much")
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("nothing.png", "much.png"))


def test_the_result_as_json(recorded: Recorded) -> None:
    result = TalkResult(
        url="ws://h",
        model="m",
        begin_s=BEGIN_S,
        exchanges=recorded.exchanges,
        sound=recorded.sound,
        files={"wav": Path("out/talk.wav")},
    )
    assert result.complete
    found = result.to_json()
    first, second = found["exchanges"]
    assert first["answer"] == {
        "response_id": "r1",
        "status": "cancelled",
        "text": "This is an answer that is long.",
        "heard_text": "This is an answer that",
        "kept_text": None,
        "interrupted": True,
        "server_metrics": {},
    }
    assert (first["speech_start_ms"], first["speech_end_ms"]) == (200, 1000)
    assert first["wait_ms"] == pytest.approx(600)
    assert first["interruption"] is None
    assert second["interruption"] == {"to_silence_ms": 200, "to_detection_ms": 100}
    assert second["transcript"] == "Stop it."
    assert found["files"] == {"wav": "out/talk.wav"}
    assert found["complete"] is True


def test_a_conversation_without_exchanges_is_not_complete(recorded: Recorded) -> None:
    result = TalkResult(url="ws://h", model="m", begin_s=BEGIN_S, exchanges=[], sound=recorded.sound)
    assert not result.complete
