"""What a model cannot do is refused by the session, and everything else still works."""

from __future__ import annotations

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
    AckPlayback,
    AppendAudio,
    BargeIn,
    CancelInput,
    CancelResponse,
    Commit,
    ConversationItemInputAudioTranscriptionDelta,
    CreateItem,
    CreateResponse,
    DuplexCommand,
    DuplexEvent,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputTextPart,
    MessageItem,
    OverlapDecision,
    PlaybackAcknowledged,
    ResponseDone,
    ResponseOutputAudioDelta,
    SessionCreated,
    SignalTurn,
    TurnEvent,
    UpdateSession,
)
from duplex_trio.testing import Talker, open_session
from duplex_trio.testing.snapshots import snapshot

LONG = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima"


class _Limited(ScriptedPipeline):
    """The scripted model with other abilities."""

    def __init__(self, script: Script, **abilities: Any) -> None:
        super().__init__(script=script)
        self.abilities = abilities

    def build_plugin(self) -> CascadePlugin:
        return _LimitedPlugin(self.abilities)


class _LimitedPlugin(CascadePlugin):
    def __init__(self, abilities: dict[str, Any]) -> None:
        super().__init__(ChatProfile(default_instructions=None), voices=("tone",))
        self._abilities = abilities

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        return attrs.evolve(super().capabilities(max_sessions), **self._abilities)


def limited(**abilities: Any) -> _Limited:
    return _Limited(Script(otherwise=lambda _: LONG), **abilities)


async def refused(talker: Talker) -> tuple[str, str | None, str | None]:
    error = (await talker.heard.nth(ErrorEvent, 1)).error
    return error.code, error.param, error.event_id


async def test_a_model_that_cannot_be_interrupted(autojump_clock: MockClock) -> None:
    """`barge_in` is refused and speech only listened to; the client's own cancel still works."""
    async with open_session(pipeline=limited(supports_barge_in=False)) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        talker.send(BargeIn(event_id="e1"))
        assert await refused(talker) == ("barge_in_unsupported", None, "e1")
        await talker.speak(0.5)
        (decision,) = talker.heard.of(OverlapDecision)
        assert decision.action == "listen"
        assert not talker.heard.of(ResponseDone)
        talker.send(CancelInput())
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "cancelled"
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 20)
        talker.send(CancelResponse())
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "cancelled"


async def test_a_model_that_answers_speech_only(autojump_clock: MockClock) -> None:
    """A written turn alone is refused; one that was spoken is answered."""
    pipeline = limited(supports_text_only_turn=False, supports_chat_completions=False)
    async with open_session(
        pipeline=pipeline, patch={"turn_detection": {"create_response": False}}
    ) as talker:
        item = MessageItem(role="user", content=(InputTextPart("hi"),))
        talker.send(CreateItem(item=item), CreateResponse(event_id="e1"))
        assert await refused(talker) == ("text_only_turn_unsupported", None, "e1")
        await talker.turn()
        assert "response.created" not in talker.heard.types


async def test_a_model_without_partial_transcripts(autojump_clock: MockClock) -> None:
    """Speech in progress is not transcribed; its turn is."""
    async with open_session(pipeline=limited(partial_transcript_interval_ms=0)) as talker:
        await talker.turn(3.0)
        await talker.heard.nth(ResponseDone, 1)
        assert not talker.heard.of(ConversationItemInputAudioTranscriptionDelta)
        assert talker.handle.counters.partial_transcripts == 0


async def test_a_model_that_prepares_nothing(autojump_clock: MockClock) -> None:
    """Its answer is computed after the turn's end."""
    async with open_session(pipeline=limited(speculation_pause_ms=0)) as talker:
        await talker.turn()
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "completed"
        assert talker.handle.counters.speculations_started == 0
        assert done.duplex is not None
        assert done.duplex.request_metrics is not None
        assert not done.duplex.request_metrics.speculative


async def test_a_model_whose_context_is_locked(autojump_clock: MockClock) -> None:
    """Once it has heard sound its instructions stay; the same ones again are no change."""
    pipeline = limited(locks_context_after_input=True)
    async with open_session(pipeline=pipeline, patch={"instructions": "Be kind."}) as talker:
        talker.send(UpdateSession(patch={"instructions": "Be brief."}))
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        talker.send(UpdateSession(patch={"instructions": "Be brief."}))
        await trio.sleep(0.1)
        assert not talker.heard.of(ErrorEvent)
        talker.send(UpdateSession(patch={"instructions": "Be loud."}, event_id="e1"))
        assert await refused(talker) == ("instructions_update_unsupported", "session.instructions", "e1")


@pytest.mark.parametrize(
    ("command", "param"),
    [
        (AppendAudio(video_frames=(b"\xff\xd8",), event_id="e1"), "video_frames"),
        (AppendAudio(audio=b"\0\0", video_frames=(b"\xff\xd8",), event_id="e1"), "video_frames"),
        (AppendAudio(event_id="e1"), "audio"),
    ],
)
async def test_a_model_that_only_hears(autojump_clock: MockClock, command: AppendAudio, param: str) -> None:
    """Video, and an append of nothing, are refused by field; the sound beside them is not taken either."""
    async with open_session() as talker:
        talker.send(command)
        assert await refused(talker) == ("invalid_input_modality", param, "e1")
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (
            AppendAudio(audio=b"\0\0", format="mp3", event_id="e1"),
            ("unsupported_audio_format", "format", "e1"),
        ),
        (
            AppendAudio(audio=b"\0\0\xc0\x7f" * 4, format="pcm_f32le", event_id="e1"),
            ("bad_audio", "audio", "e1"),
        ),
    ],
)
async def test_sound_that_cannot_be_read(
    autojump_clock: MockClock, command: AppendAudio, refusal: tuple[str, str, str]
) -> None:
    """The append is dropped, whatever format it names for itself; the next one is heard."""
    async with open_session() as talker:
        talker.send(command)
        assert await refused(talker) == refusal
        await talker.turn()
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


async def test_abilities_are_shown(autojump_clock: MockClock) -> None:
    """In the session object of the duplex dialect, as the session enforces them."""
    async with open_session(pipeline=limited(supports_barge_in=False)) as talker:
        shown = talker.heard.of(SessionCreated)[0].session["capabilities"]
        assert shown["supports_barge_in"] is False
        assert shown["required_input_modalities"] == ["audio"]


# ------------------------------------------------------------------ commands that a model may not take

SIGNALS: dict[str, tuple[str, DuplexCommand]] = {
    "appends": ("supports_input_append", AppendAudio(audio=bytes(960), event_id="e1")),
    "commits": ("supports_client_commit", Commit(event_id="e1")),
    "turn signals": ("supports_external_turn_signal", SignalTurn(event="user_started", event_id="e1")),
    "acknowledgements": ("supports_playback_ack", AckPlayback(played_ms=10, event_id="e1")),
}


@pytest.mark.parametrize("name", SIGNALS)
async def test_a_model_that_takes_no(autojump_clock: MockClock, name: str) -> None:
    """The command is refused by its type, changes nothing, and the session goes on."""
    ability, command = SIGNALS[name]
    async with open_session(pipeline=limited(**{ability: False})) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 2)
        before = snapshot(talker.handle._core.state)
        talker.send(command)
        assert snapshot(talker.handle._core.state) == before
        assert await refused(talker) == ("unsupported", "type", "e1")
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (Commit(response_create=False), InputAudioBufferCommitted),
        (SignalTurn(event="user_started"), TurnEvent),
        (AckPlayback(played_ms=10), PlaybackAcknowledged),
    ],
)
async def test_a_model_that_takes_them(
    autojump_clock: MockClock, command: DuplexCommand, answer: type[DuplexEvent]
) -> None:
    """Each command has its answer."""
    patch = {"turn_detection": None}
    async with open_session(pipeline=limited(), patch=patch) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseDone, 1)
        await talker.pause(6.0)
        talker.append(1000, loud=True)
        talker.send(command)
        await talker.heard.nth(answer, 1)
        assert not talker.heard.of(ErrorEvent)


@pytest.mark.parametrize(("acknowledges", "told"), [(True, ""), (False, LONG)])
async def test_without_acknowledgements_what_was_sent_was_heard(
    autojump_clock: MockClock, acknowledges: bool, told: str
) -> None:
    """Of a client that acknowledges nothing the model believes that it heard nothing, unless it cannot know."""
    async with open_session(pipeline=limited(supports_playback_ack=acknowledges)) as talker:
        shown = talker.heard.of(SessionCreated)[0].session
        policy = "ack_only" if acknowledges else "commit_all_on_done"
        assert shown["playback_commit_policy"] == policy
        talker.write("go")
        await talker.heard.nth(ResponseDone, 1)
        texts = [entry.text for entry in talker.handle._core.state.conversation.entries()]
        assert texts == ["go", told]


async def test_a_model_that_can_be_interrupted(autojump_clock: MockClock) -> None:
    """By the client and by speech."""
    async with open_session(pipeline=limited()) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 4)
        talker.send(BargeIn())
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "cancelled"
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 10)
        await talker.speak(0.5)
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "cancelled"
