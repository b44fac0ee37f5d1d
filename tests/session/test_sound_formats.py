"""Sound in every format both ways through a session: what is understood, what is sent, and what is refused."""

from __future__ import annotations

import base64
import io
import json
import wave
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.workers import TONE_HZ
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.protocol.duplex import (
    AppendAudio,
    Commit,
    ConversationItemInputAudioTranscriptionCompleted,
    ConversationItemTruncated,
    CreateItem,
    CreateResponse,
    ErrorEvent,
    InputAudioPart,
    InputTextPart,
    MessageItem,
    RealtimeError,
    ResponseCreated,
    ResponseCreateOptions,
    ResponseDone,
    ResponseOutputAudioDelta,
    TruncateItem,
    decode_command,
)
from duplex_trio.protocol.duplex.audio import AudioInputDecoder, AudioOutputEncoder, parse_format, wire_format
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.testing import Talker, open_session
from duplex_trio.testing.invariants import core_of

BY_HAND: dict[str, Any] = {"turn_detection": None}
NAMES = [
    "audio/pcm", "pcm", "audio/pcm16", "pcm16", "pcm_s16le", "s16le",
    "audio/pcmu", "audio/g711_ulaw", "g711_ulaw", "g711-ulaw", "ulaw", "mulaw",
    "audio/pcma", "audio/g711_alaw", "g711_alaw", "g711-alaw", "alaw",
]  # fmt: skip
"""Of formats that are both heard and spoken."""
RATES_HZ = [8000, 16_000, 22_050, 24_000, 44_100, 48_000]


def square(rate_hz: int, seconds: float) -> Any:
    time_s = np.arange(round(rate_hz * seconds)) / rate_hz
    return np.where(np.sin(2 * np.pi * 200 * time_s) >= 0, 0.3, -0.3).astype(np.float32)


def spoken(declared: object, seconds: float) -> bytes:
    """A loud sound as a client of that format sends it."""
    fmt = parse_format(declared, direction="input", param="format")
    if fmt.encoding == "pcm_f32le":
        return bytes(square(fmt.sample_rate_hz, seconds).tobytes())
    encoder = AudioOutputEncoder(fmt, fmt.sample_rate_hz)
    return encoder.feed(square(fmt.sample_rate_hz, seconds)) + encoder.flush()


async def heard_seconds(talker: Talker) -> str:
    completed = await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)
    return completed.transcript


# ------------------------------------------------------------------ in


@pytest.mark.parametrize("name", [*NAMES, "pcm_f32le", "audio/pcm_f32le", "f32le"])
async def test_every_name_is_heard_in_pieces_of_any_size(autojump_clock: MockClock, name: str) -> None:
    """A second is a second: a piece may end inside of a sample."""
    async with open_session(patch=BY_HAND | {"input_audio_format": name}) as talker:
        data = spoken(name, 1.0)
        for begin in range(0, len(data), 1001):
            talker.send(AppendAudio(audio=data[begin : begin + 1001]))
        talker.send(Commit())
        assert await heard_seconds(talker) == "sound of 1.0 seconds"


@pytest.mark.parametrize("rate_hz", RATES_HZ)
@pytest.mark.parametrize("name", ["pcm16", "pcm_f32le"])
async def test_the_model_hears_exactly_the_sound_at_its_own_rate(
    autojump_clock: MockClock, name: str, rate_hz: int
) -> None:
    """To the sample, whatever the pieces: what a session hears is what one resampler makes of the whole."""
    declared = {"type": name, "rate": rate_hz}
    async with open_session(patch=BY_HAND | {"audio": {"input": {"format": declared}}}) as talker:
        data = spoken(declared, 0.5)
        state = core_of(talker.handle).state
        for begin in range(0, len(data), 777):
            talker.send(AppendAudio(audio=data[begin : begin + 777]))
        talker.send(Commit())
        await wait_all_tasks_blocked()
        assert abs(state.timeline.end - 8000) <= 1
        whole = AudioInputDecoder(parse_format(declared, direction="input", param="f"), 16_000)
        expected = np.concatenate([whole.feed(data), whole.flush()])
        assert state.timeline.end == len(expected)


async def test_telephone_sound_at_another_rate_is_taken_at_that_rate(autojump_clock: MockClock) -> None:
    """G.711 that declares none has 8000 Hz; the law itself is of no rate, so one that is declared is believed."""
    fmt = {"type": "audio/pcmu", "rate": 16_000}
    async with open_session(patch=BY_HAND | {"audio": {"input": {"format": fmt}}}) as talker:
        talker.send(AppendAudio(audio=spoken(fmt, 1.0)), Commit())
        assert await heard_seconds(talker) == "sound of 1.0 seconds"


@pytest.mark.parametrize(
    ("audio", "code"),
    [
        ("AAA", "bad_audio"),
        ("AA=A", "bad_audio"),
        ("AA==AA==", "bad_audio"),
        ("AAAA====", "bad_audio"),
        ("AA\nAA", "bad_audio"),
        ("AA AA", "bad_audio"),
        ("-_-_", "bad_audio"),
        ("\u00a0AAAA", "bad_audio"),
        ("AAAA\u3000", "bad_audio"),
        ("\uff21\uff21\uff21\uff21", "bad_audio"),
        ("@@@@", "bad_audio"),
        ("AAAA\x00", "bad_audio"),
        ("", "bad_event"),
        (" \t\r\n", "bad_event"),
    ],
)
def test_base64_is_strict(audio: str, code: str) -> None:
    message = {"type": "input_audio_buffer.append", "event_id": "mine", "audio": audio}
    with pytest.raises(RealtimeError) as caught:
        decode_command(json.dumps(message))
    assert (caught.value.code, caught.value.param, caught.value.event_id) == (code, "audio", "mine")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
async def test_what_is_no_sound_leaves_the_sound_around_it_whole(
    autojump_clock: MockClock, bad: float
) -> None:
    """Refused with the client's event id; a sample whose first half came before it is completed behind it."""
    patch = BY_HAND | {"audio": {"input": {"format": {"type": "pcm_f32le", "rate": 16_000}}}}
    async with open_session(patch=patch) as talker:
        data = spoken({"type": "pcm_f32le", "rate": 16_000}, 1.0)
        talker.send(AppendAudio(audio=data[:10_002]))
        talker.send(AppendAudio(audio=np.array([0, bad, 0], dtype="<f4").tobytes()[2:], event_id="mine"))
        talker.send(AppendAudio(audio=data[10_002:]), Commit())
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.param, error.event_id) == ("bad_audio", "audio", "mine")
        assert await heard_seconds(talker) == "sound of 1.0 seconds"


def sound_item(audio: bytes, **part: Any) -> CreateItem:
    spoken_part = InputAudioPart(audio=base64.b64encode(audio).decode(), **part)
    return CreateItem(item=MessageItem(role="user", content=(spoken_part,)), event_id="mine")


async def test_an_item_whose_sound_is_none(autojump_clock: MockClock) -> None:
    """Refused by the place of the sound in the item; the conversation is as it was."""
    async with open_session(patch=BY_HAND) as talker:
        talker.send(sound_item(np.array([0, np.nan], dtype="<f4").tobytes(), format="pcm_f32le"))
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.param, error.event_id) == ("bad_audio", "item.content[0].audio", "mine")
        assert not list(core_of(talker.handle).state.conversation.entries())


# ------------------------------------------------------------------ out


def sent(talker: Talker) -> list[bytes]:
    return [delta.delta for delta in talker.heard.of(ResponseOutputAudioDelta)]


@pytest.mark.parametrize("name", [*NAMES, "wav", "audio/wav"])
async def test_every_name_is_spoken_and_echoed(autojump_clock: MockClock, name: str) -> None:
    """As the client spelled it; each piece of wav is a file of its own."""
    fmt = parse_format(name, direction="output", param="format")
    async with open_session(Script(word_ms=250), patch=BY_HAND | {"output_audio_format": name}) as talker:
        talker.write("hello there")
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.audio is not None
        pieces = sent(talker)
        if fmt.encoding == "wav":
            for piece in pieces:
                with wave.open(io.BytesIO(piece)) as file:
                    assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
            pieces = [piece[44:] for piece in pieces]
        assert done.duplex is not None
        assert done.duplex.playback is not None
        total = sum(map(len, pieces))
        assert total == pytest.approx(
            done.duplex.playback.sent_ms * fmt.bytes_per_ms, abs=fmt.bytes_per_sample
        )
        session = core_of(talker.handle).state.config
        assert session.output_format.spelled == name


@pytest.mark.parametrize("rate_hz", RATES_HZ)
async def test_the_client_hears_its_rate_to_the_sample(autojump_clock: MockClock, rate_hz: int) -> None:
    fmt = {"type": "audio/pcm", "rate": rate_hz}
    async with open_session(
        Script(word_ms=250), patch=BY_HAND | {"audio": {"output": {"format": fmt}}}
    ) as talker:
        talker.write("hello there")
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.duplex is not None
        assert done.duplex.playback is not None
        samples = sum(map(len, sent(talker))) / 2
        assert abs(samples - done.duplex.playback.sent_ms * rate_hz / 1000) <= 1


@pytest.mark.parametrize(
    "own", ["g711_alaw", "wav", {"type": "audio/pcm", "rate": 8000}, {"type": "audio/pcmu"}]
)
async def test_a_response_in_a_format_of_its_own(autojump_clock: MockClock, own: Any) -> None:
    """Only that one: the next response is as the session has it."""
    fmt = parse_format(own, direction="output", param="format")
    async with open_session(Script(word_ms=250), patch=BY_HAND) as talker:
        talker.write("hello there")
        await talker.heard.nth(ResponseDone, 1)
        item = MessageItem(role="user", content=(InputTextPart("hello there"),))
        talker.send(CreateItem(item=item), CreateResponse(options=ResponseCreateOptions(output_format=own)))
        done = await talker.heard.nth(ResponseDone, 2)
        created = talker.heard.of(ResponseCreated)[1].response
        assert created.audio is not None
        assert created.audio.output.format == wire_format(fmt)
        deltas = talker.heard.of(ResponseOutputAudioDelta)
        own_deltas = [delta for delta in deltas if delta.response_id == done.response.id]
        assert {delta.duplex and delta.duplex.format for delta in own_deltas} == {fmt.encoding}
        assert {delta.duplex and delta.duplex.sample_rate_hz for delta in own_deltas} == {fmt.sample_rate_hz}
        talker.write("hello there")
        await talker.heard.nth(ResponseDone, 3)
        last = talker.heard.of(ResponseOutputAudioDelta)[len(deltas) :]
        assert {delta.duplex and (delta.duplex.format, delta.duplex.sample_rate_hz) for delta in last} == {
            ("pcm16", 24_000)
        }


@pytest.mark.parametrize(
    ("dialect", "own"),
    [
        ("ga", {"audio": {"output": {"format": {"type": "audio/pcmu"}}}}),
        ("beta", {"output_audio_format": "g711_ulaw"}),
        ("duplex", {"audio": {"output": {"format": "g711-ulaw"}}}),
        ("duplex", {"response_format": "ulaw"}),
    ],
)
async def test_a_format_of_its_own_in_each_dialect(
    autojump_clock: MockClock, dialect: DialectName, own: dict[str, Any]
) -> None:
    """What leaves is G.711, and the response says so; a format that there is not is refused."""
    async with open_session(Script(word_ms=250), patch=BY_HAND, dialect=dialect) as talker:
        item = MessageItem(role="user", content=(InputTextPart("hello there"),))
        talker.send(CreateItem(item=item))
        talker.send(decode_command(json.dumps({"type": "response.create", "response": own})))
        done = await talker.heard.nth(ResponseDone, 1)
        (created,) = talker.heard.of(ResponseCreated)
        for response in (created.response, done.response):
            assert response.audio is not None
            assert response.audio.output.format["type"] == "audio/pcmu"
        assert sum(map(len, sent(talker))) == 8 * 4 * 250  # "You said: hello there"
        bad = {"audio": {"output": {"format": {"type": "audio/mp3"}}}}
        talker.send(decode_command(json.dumps({"type": "response.create", "event_id": "e", "response": bad})))
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.param, error.event_id) == (
            "unsupported_audio_format",
            "response.audio.output.format",
            "e",
        )
        assert len(talker.heard.of(ResponseCreated)) == 1


async def test_telephone_sound_is_cut_at_eight_bytes_a_millisecond(autojump_clock: MockClock) -> None:
    """A client that played 2000 bytes says 250 ms, and that is the word it heard."""
    patch = BY_HAND | {"audio": {"output": {"format": {"type": "audio/pcma"}}}}
    async with open_session(Script(word_ms=250, replies={"go": "one two three four"}), patch=patch) as talker:
        talker.write("go")
        done = await talker.heard.nth(ResponseDone, 1)
        data = b"".join(sent(talker))
        assert len(data) == 8 * 1000
        loudest = AudioInputDecoder(parse_format("alaw", direction="input", param="f"), 8000).feed(data)
        assert 0.05 < np.abs(loudest).max() < 0.9
        item = done.response.output[0]
        talker.send(TruncateItem(item_id=item.id, audio_end_ms=2000 // 8))
        assert (await talker.heard.nth(ConversationItemTruncated, 1)).audio_end_ms == 250
        told = core_of(talker.handle).state.conversation.messages()[-1]
        assert told.content.strip() == "one"
        talker.send(TruncateItem(item_id=item.id, audio_end_ms=2000, event_id="mine"))
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.event_id) == ("bad_event", "mine")


def test_a_client_that_sends_base64_of_both_kinds_of_padding() -> None:
    for n_bytes in range(6):
        text = base64.b64encode(bytes(n_bytes)).decode()
        message = {"type": "input_audio_buffer.append", "audio": f" {text}\r\n", "delta": None}
        if n_bytes:
            command = decode_command(json.dumps(message))
            assert isinstance(command, AppendAudio)
            assert command.audio == bytes(n_bytes)


# ------------------------------------------------------------------ speed


@pytest.mark.parametrize("make", [ScriptedPipeline, TurnsPipeline], ids=["speaks at it", "is stretched"])
@pytest.mark.parametrize("speed", [0.25, 0.8, 1.5])
async def test_an_answer_at_another_speed(
    autojump_clock: MockClock, make: Callable[..., Pipeline], speed: float
) -> None:
    """As long as it is to be, at its own pitch; all that is said of its length is of the sound that is heard."""
    script = Script(word_ms=250, replies={"go": "one two three four"})
    patch = BY_HAND | {"audio": {"output": {"speed": speed}}}
    async with open_session(pipeline=make(script=script), patch=patch) as talker:
        talker.write("go")
        done = await talker.heard.nth(ResponseDone, 1)
        data = b"".join(sent(talker))
        assert len(data) / 48 == pytest.approx(1000 / speed, rel=0.01)
        sound = np.frombuffer(data, dtype="<i2") / 32768
        spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound)), 1 << 19))
        assert np.argmax(spectrum) * 24_000 / (1 << 19) == pytest.approx(TONE_HZ, rel=0.02)
        assert done.duplex is not None
        assert done.duplex.playback is not None
        assert done.duplex.playback.sent_ms == pytest.approx(1000 / speed, rel=0.01)
        item = done.response.output[0]
        talker.send(TruncateItem(item_id=item.id, audio_end_ms=round(500 / speed)))
        await talker.heard.nth(ConversationItemTruncated, 1)
        told = core_of(talker.handle).state.conversation.messages()[-1].content
        assert told.startswith("one tw")
        assert "thr" not in told


async def test_one_response_at_a_speed_of_its_own(autojump_clock: MockClock) -> None:
    script = Script(word_ms=250, replies={"go": "one two three four"})
    async with open_session(pipeline=TurnsPipeline(script=script), patch=BY_HAND) as talker:
        item = MessageItem(role="user", content=(InputTextPart("go"),))
        talker.send(CreateItem(item=item), CreateResponse(options=ResponseCreateOptions(speed=1.25)))
        await talker.heard.nth(ResponseDone, 1)
        assert len(b"".join(sent(talker))) / 48 == pytest.approx(800, rel=0.01)
        talker.write("go")
        await talker.heard.nth(ResponseDone, 2)
        assert len(b"".join(sent(talker))) / 48 == pytest.approx(1800, rel=0.01)
