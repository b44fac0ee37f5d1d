"""Detection of speech in a session, from scores to events: parameters at their edges, and changes in the middle."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    AppendAudio,
    Commit,
    ConversationItemInputAudioTranscriptionCompleted,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    InputAudioBufferSpeechStopped,
    ResponseDone,
    SessionUpdated,
    UpdateSession,
)
from duplex_trio.testing import Talker, open_session

FRAME_S = 0.032
SCORES = {"#": 0.9, "=": 0.45, "-": 0.36, ".": 0.1, "!": 1.0, "1": 0.17, "0": 0.02, "_": 0.005}
"""Speech, two between the bounds of a threshold of 0.5, silence, and others for other thresholds."""


def told(talker: Talker) -> list[tuple[str, int]]:
    """When speech began and ended, in milliseconds of sound."""
    events = []
    for event in talker.heard.events:
        if isinstance(event, InputAudioBufferSpeechStarted):
            events.append(("started", event.audio_start_ms))
        elif isinstance(event, InputAudioBufferSpeechStopped):
            events.append(("stopped", event.audio_end_ms))
    return events


def detection(**params: Any) -> dict[str, Any]:
    settings = {"type": "server_vad", "create_response": False, "silence_duration_ms": 500}
    return {"turn_detection": {**settings, **params}}


async def update(talker: Talker, turn_detection: dict[str, Any] | None) -> SessionUpdated:
    count = len(talker.heard.of(SessionUpdated))
    talker.send(UpdateSession(patch={"turn_detection": turn_detection}))
    return await talker.heard.nth(SessionUpdated, count + 1)


@pytest.mark.parametrize(
    ("script", "params", "expected"),
    [
        # 96 ms of speech are three frames, 500 ms of silence are 16; the start is padded by 300 ms.
        ("." * 20 + "##.##", {}, []),
        ("." * 20 + "###", {}, [("started", 340)]),
        ("..###" + "." * 15, {}, [("started", 0)]),
        ("..###" + "." * 16, {}, [("started", 0), ("stopped", 672)]),
        # Between the bounds neither speech nor silence; silence that runs already runs on.
        ("###" + "=" * 30, {}, [("started", 0)]),
        ("###" + "=" * 10 + "." + "-" * 15, {}, [("started", 0), ("stopped", 29 * 32)]),
        ("###" + "." * 15 + "#" + "." * 15, {}, [("started", 0)]),
        # Nothing is padded.
        ("..###", {"prefix_padding_ms": 0}, [("started", 64)]),
        # More is padded than there is, and than lies between two turns.
        ("." * 50 + "###", {"prefix_padding_ms": 60_000}, [("started", 0)]),
        (
            "###." + "..###.",
            {"prefix_padding_ms": 60_000, "silence_duration_ms": 0},
            [("started", 0), ("stopped", 128), ("started", 128), ("stopped", 320)],
        ),
        # The first frame of silence ends speech, and the first of speech begins it.
        ("###=.", {"silence_duration_ms": 0}, [("started", 0), ("stopped", 160)]),
        (
            ".#.#.",
            {"silence_duration_ms": 0, "min_speech_duration_ms": 0, "prefix_padding_ms": 0},
            [("started", 32), ("stopped", 96), ("started", 96), ("stopped", 160)],
        ),
        # The lowest threshold hears a whisper and needs dead silence; the highest one hears only what is certain.
        ("111" + "0" * 20, {"threshold": 0.16}, [("started", 0)]),
        ("111" + "_" * 16, {"threshold": 0.16}, [("started", 0), ("stopped", 19 * 32)]),
        ("#" * 20, {"threshold": 1.0}, []),
        ("!!!" + "#" * 20, {"threshold": 1.0}, [("started", 0)]),
        ("!!!" + "=" * 16, {"threshold": 1.0}, [("started", 0), ("stopped", 19 * 32)]),
        # Speech is long before it counts; the padding goes before all of it.
        ("." * 20 + "#" * 63, {"min_speech_duration_ms": 2000}, [("started", 340)]),
        ("." * 20 + "#" * 62 + ".", {"min_speech_duration_ms": 2000}, []),
    ],
)
async def test_scores_become_events(
    autojump_clock: MockClock, script: str, params: dict[str, Any], expected: list[tuple[str, int]]
) -> None:
    """Frame by frame as a microphone sends them, and all at once, come to the same."""
    for chunk in (512, 320, 512 * len(script)):
        pipeline = ScriptedPipeline(probabilities=[SCORES[one] for one in script])
        patch = detection(**params) | {"input_audio_format": "pcm16"}
        async with open_session(pipeline=pipeline, patch=patch) as talker:
            left = 512 * len(script)
            while left:
                samples = min(chunk, left)
                talker.send(AppendAudio(audio=bytes(2 * samples), sample_rate_hz=16_000))
                await trio.sleep(samples / 16_000)
                left -= samples
            await trio.sleep(3)
            assert told(talker) == expected
            commits = sum(name == "stopped" for name, _ in expected)
            assert len(talker.heard.of(InputAudioBufferCommitted)) == commits
            assert not talker.heard.of(ErrorEvent)


async def test_padding_beyond_what_is_held_begins_where_that_begins(autojump_clock: MockClock) -> None:
    """A line of four seconds keeps one of silence; the turn has it, and nothing is ever refused."""
    limits = SessionLimits(pending_input_bytes_max=4 * 16_000 * 4)
    async with open_session(patch=detection(prefix_padding_ms=60_000), limits=limits) as talker:
        for _ in range(2):
            await talker.pause(10)
            await talker.turn(0.5)
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 2)
        assert not talker.heard.of(ErrorEvent)
        lengths_ms = [
            stopped - started
            for (_, started), (_, stopped) in zip(told(talker)[::2], told(talker)[1::2], strict=True)
        ]
        assert lengths_ms == pytest.approx([1000 + 500 + 500] * 2, abs=120)
        for transcript, length_ms in zip(
            talker.heard.of(ConversationItemInputAudioTranscriptionCompleted), lengths_ms, strict=True
        ):
            assert float(transcript.transcript.split()[2]) == pytest.approx(length_ms / 1000, abs=0.06)


@pytest.mark.parametrize("eagerness", ["low", "medium", "high", "auto"])
async def test_an_unfinished_sentence_ends_after_its_time(autojump_clock: MockClock, eagerness: str) -> None:
    timeout_s = {"low": 8, "medium": 4, "high": 2, "auto": 4}[eagerness]
    patch = {"turn_detection": {"type": "semantic_vad", "eagerness": eagerness}}
    async with open_session(Script(heard=["Tell me about"]), patch=patch) as talker:
        await talker.speak(1.0)
        await talker.pause(timeout_s - 0.1)
        assert [name for name, _ in told(talker)] == ["started"]
        await talker.pause(0.3)
        ((_, _), (_, stopped_ms)) = told(talker)
        assert stopped_ms == pytest.approx(1000 + timeout_s * 1000, abs=100)
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


async def test_a_turn_after_a_complete_one_has_its_own_time(autojump_clock: MockClock) -> None:
    """A commit by hand behind a complete sentence takes the short silence with it."""
    patch = {"turn_detection": {"type": "semantic_vad", "eagerness": "high"}}
    async with open_session(Script(heard=["Well.", "Well.", "and then"]), patch=patch) as talker:
        await talker.speak(1.0)
        await talker.pause(0.4)
        talker.send(Commit())
        await talker.heard.nth(InputAudioBufferCommitted, 1)
        await talker.speak(1.0)
        await talker.pause(1.8)
        assert [name for name, _ in told(talker)] == ["started", "stopped", "started"]
        await talker.pause(0.4)
        assert [name for name, _ in told(talker)][-1] == "stopped"


# ------------------------------------------------------------------ changes in the middle of speech


async def test_new_settings_hold_for_speech_that_goes_on(autojump_clock: MockClock) -> None:
    """The turn neither ends nor begins anew; its end is found by what is in force then."""
    async with open_session(patch=detection(silence_duration_ms=2000)) as talker:
        await talker.speak(1.0)
        await update(talker, {"type": "server_vad", "silence_duration_ms": 100})
        assert [name for name, _ in told(talker)] == ["started"]
        await talker.pause(0.3)
        ((_, _), (_, stopped_ms)) = told(talker)
        assert stopped_ms == pytest.approx(1128, abs=64)
        await talker.heard.nth(InputAudioBufferCommitted, 1)


async def test_another_kind_of_detection_takes_over_speech(autojump_clock: MockClock) -> None:
    async with open_session(Script(heard=["and"]), patch=detection()) as talker:
        await talker.speak(1.0)
        await update(talker, {"type": "semantic_vad", "eagerness": "high", "create_response": False})
        await talker.pause(1.8)
        assert [name for name, _ in told(talker)] == ["started"]
        await talker.pause(0.4)
        assert [name for name, _ in told(talker)] == ["started", "stopped"]


async def test_an_update_loses_no_sound_that_waits(autojump_clock: MockClock) -> None:
    """Seconds of speech that are still to be scored are judged, by the new settings."""
    async with open_session(patch=detection()) as talker:
        talker.append(3000, loud=True)
        talker.send(UpdateSession(patch=detection(silence_duration_ms=300)))
        talker.append(500, loud=False)
        await talker.heard.nth(InputAudioBufferCommitted, 1)
        ((_, started_ms), (_, stopped_ms)) = told(talker)
        assert (started_ms, stopped_ms) == (0, pytest.approx(3320, abs=64))


async def test_speech_ends_where_detection_is_turned_off(autojump_clock: MockClock) -> None:
    """Nobody listens for its end any more; its sound stays for the client's own commit, which ends nothing again."""
    async with open_session(patch=detection(), dialect="beta") as talker:
        await talker.speak(1.0)
        await update(talker, None)
        ((_, _), (_, stopped_ms)) = told(talker)
        assert stopped_ms == pytest.approx(1000, abs=64)
        names = talker.heard.types
        assert names.index("input_audio_buffer.speech_stopped") < len(names) - 1 - names[::-1].index(
            "session.updated"
        )
        await talker.pause(3.0)
        assert not talker.heard.of(InputAudioBufferCommitted)
        talker.send(Commit())
        committed = await talker.heard.nth(InputAudioBufferCommitted, 1)
        assert committed.item_id == talker.heard.of(InputAudioBufferSpeechStarted)[0].item_id
        transcript = await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)
        assert float(transcript.transcript.split()[2]) == pytest.approx(4.0, abs=0.1)
        assert len(told(talker)) == 2


async def test_detection_that_is_turned_on_again_hears_what_comes_then(autojump_clock: MockClock) -> None:
    """Not what was said while it was off; and at once what follows the command."""
    async with open_session(patch=detection(), dialect="beta") as talker:
        await talker.speak(1.0)
        await update(talker, None)
        await talker.speak(3.0)
        await update(talker, {"type": "server_vad", "create_response": False})
        await talker.pause(1.0)
        assert [name for name, _ in told(talker)] == ["started", "stopped"]
        began_ms = 5000
        await talker.turn(0.5)
        ((_, started_ms), (_, stopped_ms)) = told(talker)[2:]
        assert started_ms == pytest.approx(began_ms - 300, abs=64)
        assert stopped_ms == pytest.approx(began_ms + 500 + 600, abs=100)


async def test_sound_right_behind_the_command_is_heard(autojump_clock: MockClock) -> None:
    """Though the command waits in line and the sound does not."""
    async with open_session(patch={"turn_detection": None}, dialect="beta") as talker:
        talker.send(UpdateSession(patch=detection(prefix_padding_ms=0)))
        talker.append(500, loud=True)
        await trio.sleep(1)
        assert told(talker) == [("started", 0)]


async def test_nothing_is_answered_that_was_prepared_for_detection(autojump_clock: MockClock) -> None:
    """A pause has begun an answer; then detection is turned off, and the pause ends nothing."""
    async with open_session(Script(heard=["hi"])) as talker:
        await talker.speak(1.0)
        await talker.pause(0.4)
        assert talker.handle.counters.speculations_started == 1
        await update(talker, None)
        assert talker.handle.counters.speculations_discarded == 1
        await talker.pause(3.0)
        assert not talker.heard.of(InputAudioBufferCommitted)
