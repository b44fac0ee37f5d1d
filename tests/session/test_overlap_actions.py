"""What the session does with sound over an answer, where no detector listens: each action, end to end.

Also what explicit hints do where a detector does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.cascade.plugin import CascadePlugin
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex import (
    Commit,
    CommitRecord,
    ConversationItemInputAudioTranscriptionCompleted,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    OverlapDecision,
    ResponseDone,
    ResponseListen,
    ResponseOutputAudioDelta,
)
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing import Talker, open_session

Transcribed = ConversationItemInputAudioTranscriptionCompleted
LONG = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike november oscar papa"
"""Sixteen words, 4.8 seconds of sound."""
BY_HAND = {"turn_detection": None}
CUT = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
    "rate_limits.updated",
]


class Deaf(ScriptedPipeline):
    """The scripted model on a deployment without voice activity."""

    def build_vad_worker(self) -> StageWorker | None:
        return None


class Steadfast(ScriptedPipeline):
    """The scripted model, which cannot be interrupted."""

    class _Plugin(CascadePlugin):
        def capabilities(self, max_sessions: int) -> DuplexCapabilities:
            return attrs.evolve(super().capabilities(max_sessions), supports_barge_in=False)

    def build_plugin(self) -> CascadePlugin:
        return self._Plugin(ChatProfile(default_instructions=None), voices=("tone",))


def script() -> Script:
    return Script(otherwise=lambda text: LONG if text.endswith("go") else "short")


@asynccontextmanager
async def answering(patch: dict[str, Any] | None = None, **engine: Any) -> AsyncIterator[Talker]:
    """A second into an answer of almost five."""
    engine.setdefault("pipeline", ScriptedPipeline(script=script()))
    async with open_session(patch=patch or BY_HAND, **engine) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        await trio.sleep(1.05)
        yield talker


async def behind(talker: Talker, wait_s: float = 0.005) -> list[str]:
    """The types of the events that come now, shortly."""
    begin = len(talker.heard.events)
    await trio.sleep(wait_s)
    return talker.heard.types[begin:]


def decisions(talker: Talker) -> list[tuple[str, str]]:
    return [(event.action, event.reason) for event in talker.heard.of(OverlapDecision)]


def record(talker: Talker, number: int = -1) -> CommitRecord:
    extension = talker.heard.of(InputAudioBufferCommitted)[number].duplex
    assert extension is not None
    assert extension.commit is not None
    return extension.commit


async def kept(talker: Talker) -> str | None:
    """What a commit of what was said finds: its transcript, or None for nothing."""
    talker.send(Commit())
    count = len(talker.heard.of(Transcribed))
    await talker.heard.wait_for(InputAudioBufferCommitted)
    await trio.sleep(5)
    transcripts = talker.heard.of(Transcribed)[count:]
    return transcripts[0].transcript if transcripts else None


async def finished(talker: Talker) -> None:
    """The answer is given to its end."""
    assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


# ------------------------------------------------------------------ the client's word


@pytest.mark.parametrize(
    ("hints", "reason"),
    [
        ({"overlap_action": "barge_in"}, "client_overlap_action"),
        ({"overlap_action": "Interrupt"}, "client_overlap_action"),
        ({"force_barge_in": True}, "client_force_barge_in"),
    ],
)
async def test_a_client_cuts_the_answer(
    autojump_clock: MockClock, hints: dict[str, Any], reason: str
) -> None:
    """The decision, the flush, the cancelled block, and only then the speech; the sound is kept."""
    async with answering() as talker:
        talker.append(900, loud=True, **hints)
        assert await behind(talker) == [
            "overlap.decision",
            "output_audio_buffer.cleared",
            *CUT,
            "input_audio_buffer.speech_started",
        ]
        (decision,) = talker.heard.of(OverlapDecision)
        assert (decision.action, decision.reason, decision.epoch) == ("barge_in", reason, 0)
        assert decision.metadata["cancel_reason"] == "barge_in"
        (done,) = talker.heard.of(ResponseDone)
        assert done.response.status_details is not None
        assert done.response.status_details.reason == "client_cancelled"
        assert done.duplex is not None
        assert done.duplex.cancel_reason == "barge_in"
        assert await kept(talker) == "sound of 0.9 seconds"


async def test_a_client_cuts_what_is_only_played(autojump_clock: MockClock) -> None:
    """The answer is done and still heard: the flush names it, and nothing is cancelled a second time."""
    async with open_session(script(), patch=BY_HAND) as talker:
        talker.write("hi")
        done = await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(0.01)
        talker.append(300, loud=True, force_barge_in=True)
        assert await behind(talker) == [
            "overlap.decision",
            "output_audio_buffer.cleared",
            "input_audio_buffer.speech_started",
        ]
        assert done.response.status == "completed"
        assert talker.handle.counters.barge_ins == 1


@pytest.mark.parametrize(
    ("hints", "action", "reason", "heard"),
    [
        ({"overlap_action": "listen"}, "listen", "client_overlap_action", "sound of 0.9 seconds"),
        ({"overlap_action": "listen", "duration_ms": 700}, "listen", "client_overlap_action", None),
        ({"overlap_action": "continue_output"}, "listen", "client_overlap_action", None),
        ({"overlap_action": "ack"}, "listen", "client_overlap_action", None),
        ({"overlap_action": "drop"}, "drop", "client_overlap_action", None),
        ({"force_listen": True}, "listen", "client_force_listen", "sound of 0.9 seconds"),
        ({"transcript": "Go on."}, "listen", "short_ack_transcript", None),
        ({"transcript": "wait"}, "listen", "policy_listen_only", "wait"),
        ({"is_speech": False}, "drop", "silence_or_noise", None),
        ({"overlap_action": "nonsense"}, "listen", "policy_listen_only", "sound of 0.9 seconds"),
    ],
)
async def test_a_client_lets_the_answer_go_on(
    autojump_clock: MockClock, hints: dict[str, Any], action: str, reason: str, heard: str | None
) -> None:
    """It is given to its end; a commit afterwards finds the sound that was kept and no other."""
    async with answering() as talker:
        talker.append(900, loud=True, **hints)
        await finished(talker)
        assert decisions(talker) == [(action, reason)]
        assert (await kept(talker)) == heard
        assert bool(talker.heard.of(InputAudioBufferSpeechStarted)) == (heard is not None)
        assert bool(record(talker).empty) == (heard is None)


async def test_hints_in_silence_are_no_overlap(autojump_clock: MockClock) -> None:
    """With nothing to talk over there is nothing to decide: all of it is heard."""
    async with open_session(patch=BY_HAND) as talker:
        for word in ("barge_in", "listen", "ack", "drop"):
            talker.append(100, loud=True, overlap_action=word)
        talker.append(100, loud=True, force_barge_in=True, force_listen=True)
        assert await kept(talker) == "sound of 0.5 seconds"
        assert decisions(talker) == []


async def test_dropped_sound_leaves_a_pause(autojump_clock: MockClock) -> None:
    """The line's clock goes on, so what comes behind it has its place and its length."""
    async with answering() as talker:
        talker.append(400, loud=True)
        talker.append(300, loud=True, overlap_action="drop")
        talker.append(400, loud=True)
        await finished(talker)
        assert await kept(talker) == "sound of 1.1 seconds"
        started = talker.heard.of(InputAudioBufferSpeechStarted)
        assert [event.audio_start_ms for event in started] == [0]


# ------------------------------------------------------------------ verdicts, policies


async def test_a_decision_says_what_it_rests_on(autojump_clock: MockClock) -> None:
    """All of the wire's keys, with the numbers of this append."""
    async with answering() as talker:
        talker.append(400, loud=True)
        await trio.sleep(0.01)
        talker.append(400, loud=True, overlap_action="listen", duration_ms=500)
        await trio.sleep(0.01)
        first, second = talker.heard.of(OverlapDecision)
        assert first.policy == "listen_only"
        assert first.metadata["duration_ms"] == pytest.approx(400, abs=50)
        assert {**first.metadata, "duration_ms": 400.0, "overlap_speech_ms": 400.0} == {
            "duration_ms": 400.0,
            "overlap_speech_ms": 400.0,
            "buffer_audio": True,
            "defer_runtime_append": True,
            "force_listen": False,
            "cancel_reason": None,
        }
        assert second.metadata["duration_ms"] == 500
        assert second.metadata["overlap_speech_ms"] == 0
        assert second.metadata["buffer_audio"] is False


async def test_the_same_decision_is_told_once_in_a_row(autojump_clock: MockClock) -> None:
    """Fifty appends a second are a handful of events; the next answer has decisions of its own."""
    async with answering() as talker:
        await talker.speak(0.5)
        await talker.pause(0.5)
        await talker.speak(0.5)
        expected = [
            ("listen", "policy_listen_only"),
            ("drop", "silence_or_noise"),
            ("listen", "policy_listen_only"),
        ]
        assert decisions(talker) == expected
        await finished(talker)
        await talker.pause(2.0)
        assert decisions(talker)[3:] in (
            [],
            [("drop", "silence_or_noise")],
        )  # it may still be played a little
        told = len(decisions(talker))
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, len(talker.heard.of(ResponseOutputAudioDelta)) + 1)
        await talker.pause(0.5)
        await talker.speak(0.5)
        assert decisions(talker)[told:] == expected[1:]


async def test_silence_is_listened_to_once_a_stretch(autojump_clock: MockClock) -> None:
    """Seconds of it are one event; speech ends the stretch."""
    async with open_session(patch=BY_HAND) as talker:
        await talker.pause(2.0)
        await talker.speak(0.3)
        await talker.pause(2.0)
        reasons = [event.response.metadata.reason for event in talker.heard.of(ResponseListen)]
        assert reasons == ["silence_or_noise"] * 2
        assert all(event.response_id is None for event in talker.heard.of(ResponseListen))


async def test_hours_of_silence_fit(autojump_clock: MockClock) -> None:
    """Quiet sound in front of speech is let go, so a client that streams without speaking is never refused."""
    async with open_session(patch=BY_HAND) as talker:
        for _ in range(400):
            talker.append(1000, loud=False)
            await trio.lowlevel.checkpoint()
        talker.append(500, loud=True)
        talker.send(Commit())
        assert (await talker.heard.nth(Transcribed, 1)).transcript.startswith("sound of")
        assert not talker.heard.of(ErrorEvent)


async def test_the_line_between_silence_and_speech_is_the_clients(autojump_clock: MockClock) -> None:
    """With a higher `overlap_silence_rms` the same tone is noise, until the client says otherwise."""
    async with answering({**BY_HAND, "overlap_silence_rms": 0.5}) as talker:
        talker.append(400, loud=True)
        talker.append(400, loud=True, is_speech=True)
        talker.append(400, loud=False, vad={"probability": 0.5})
        await finished(talker)
        assert decisions(talker) == [("drop", "silence_or_noise"), ("listen", "policy_listen_only")]


async def test_by_duration_long_speech_cuts(autojump_clock: MockClock) -> None:
    """Short it may be an acknowledgement, then it adds up, and from `overlap_barge_in_ms` on it takes the turn."""
    patch = {
        **BY_HAND,
        "overlap_policy": "by_duration",
        "overlap_short_ack_ms": 300,
        "overlap_barge_in_ms": 900,
    }
    async with answering(patch) as talker:
        await talker.speak(0.8)
        assert not talker.heard.of(ResponseDone)
        await talker.speak(0.2)
        assert decisions(talker) == [
            ("listen", "short_ack"),
            ("listen", "accumulating_overlap_speech"),
            ("barge_in", "long_overlap_speech"),
        ]
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "cancelled"
        assert {event.policy for event in talker.heard.of(OverlapDecision)} == {"by_duration"}
        assert await kept(talker) == "sound of 1.0 seconds"


async def test_by_duration_a_pause_does_not_reset(autojump_clock: MockClock) -> None:
    """Two halves of a sentence with a breath between them add up."""
    patch = {**BY_HAND, "overlap_policy": "by_duration"}
    async with answering(patch) as talker:
        for _ in range(2):
            await talker.speak(0.62)
            await talker.pause(0.2)
        assert decisions(talker)[-1] == ("barge_in", "long_overlap_speech")
        assert ("drop", "silence_or_noise") in decisions(talker)


async def test_a_model_that_cannot_be_interrupted(autojump_clock: MockClock) -> None:
    """It is told once in a row, with the id and the field of the append; the session goes on."""
    async with answering(pipeline=Steadfast(script=script())) as talker:
        talker.append(400, loud=True, event_id="e1", force_barge_in=True)
        talker.append(400, loud=True, event_id="e2", force_barge_in=True)
        talker.append(400, loud=True, event_id="e3", overlap_action="cancel", is_speech=False)
        await finished(talker)
        errors = [(e.error.code, e.error.param, e.error.event_id) for e in talker.heard.of(ErrorEvent)]
        assert errors == [
            ("barge_in_unsupported", "force_barge_in", "e1"),
            ("barge_in_unsupported", "overlap_action", "e3"),
        ]
        assert decisions(talker) == [("listen", "barge_in_unsupported")] * 2
        assert await kept(talker) is not None


async def test_long_speech_over_a_model_that_cannot_be_interrupted(autojump_clock: MockClock) -> None:
    """By duration as well it is only listened to."""
    patch = {**BY_HAND, "overlap_policy": "by_duration"}
    async with answering(patch, pipeline=Steadfast(script=script())) as talker:
        await talker.speak(1.5)
        assert decisions(talker)[-1] == ("listen", "long_overlap_speech")
        await finished(talker)


# ------------------------------------------------------------------ other dialects, detectors


async def test_openais_dialects_know_no_verdicts(autojump_clock: MockClock) -> None:
    """What is appended by hand is in the buffer, loud or not, over an answer or not; only hints are obeyed."""
    patch = {"audio": {"input": {"turn_detection": None}}}
    async with answering(patch, dialect="ga") as talker:
        await talker.speak(0.3)
        await talker.pause(0.3)
        assert decisions(talker) == []
        assert not talker.heard.of(InputAudioBufferSpeechStarted)
        talker.append(300, loud=True, overlap_action="drop")
        await finished(talker)
        assert decisions(talker) == [("drop", "client_overlap_action")]
        assert await kept(talker) == "sound of 0.9 seconds"


@pytest.mark.parametrize(
    ("hints", "reason", "speaks"),
    [
        ({"force_listen": True}, "client_force_listen", True),
        ({"overlap_action": "listen"}, "client_overlap_action", True),
        ({"overlap_action": "ack"}, "client_overlap_action", False),
        ({"overlap_action": "drop"}, "client_overlap_action", False),
    ],
)
async def test_a_detector_does_not_overrule_the_client(
    autojump_clock: MockClock, hints: dict[str, Any], reason: str, speaks: bool
) -> None:
    """The answer goes on under speech that the client told to listen to; what it told to drop is not heard at all."""
    async with answering({"turn_detection": {"type": "server_vad"}}) as talker:
        await talker.speak(0.6, **hints)
        await talker.pause(1.0)
        assert bool(talker.heard.of(InputAudioBufferSpeechStarted)) == speaks
        await finished(talker)
        assert {made for _, made in decisions(talker)} == {
            reason,
            *(["client_force_listen"] if speaks else []),
        }
        assert {action for action, _ in decisions(talker)} <= {"listen", "drop"}


async def test_a_detector_decides_about_what_the_client_says_nothing_of(autojump_clock: MockClock) -> None:
    """Behind hinted sound, speech without a hint cuts the answer as ever."""
    async with answering({"turn_detection": {"type": "server_vad"}}) as talker:
        await talker.speak(0.3, overlap_action="drop")
        await talker.pause(0.4)
        await talker.speak(0.6)
        assert decisions(talker) == [
            ("drop", "client_overlap_action"),
            ("barge_in", "server_vad_speech_started"),
        ]
        (done,) = talker.heard.of(ResponseDone)
        assert done.duplex is not None
        assert done.duplex.cancel_reason == "turn_detected"


async def test_where_the_detector_is_missing_loudness_takes_its_place(autojump_clock: MockClock) -> None:
    """The policy is still to cut: what the client says, or how loud it is, decides; silence is dropped."""
    async with open_session(pipeline=Deaf(script=script())) as talker:
        talker.append(100, loud=False)
        await talker.heard.wait_for(ErrorEvent)
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        await trio.sleep(1.0)
        await talker.pause(0.3)
        await talker.speak(0.5, is_speech=False)
        assert not talker.heard.of(ResponseDone)
        await talker.speak(0.3)
        assert decisions(talker) == [
            ("drop", "silence_or_noise"),
            ("barge_in", "policy_barge_in_on_speech"),
        ]
        (done,) = talker.heard.of(ResponseDone)
        assert done.duplex is not None
        assert done.duplex.cancel_reason == "barge_in"
