"""`session.update`: all or nothing, confirmed by the session in force, and what follows from each change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.cascade.plugin import CascadePlugin
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    AppendAudio,
    Commit,
    ConversationItemDone,
    ConversationItemInputAudioTranscriptionCompleted,
    CreateItem,
    CreateResponse,
    ErrorEvent,
    InputAudioBufferSpeechStarted,
    InputTextPart,
    MessageItem,
    RealtimeError,
    ResponseCreateOptions,
    ResponseDone,
    ResponseOutputAudioDelta,
    SessionCreated,
    SessionUpdated,
    UpdateSession,
)
from duplex_trio.protocol.duplex.session import DialectName, DuplexSessionConfig
from duplex_trio.testing import Talker, open_session


async def update(talker: Talker, patch: dict[str, Any]) -> Mapping[str, Any]:
    """Send an update that must be accepted and return the session object that confirms it."""
    count = len(talker.heard.of(SessionUpdated))
    talker.send(UpdateSession(patch=patch))
    return (await talker.heard.nth(SessionUpdated, count + 1)).session


async def refused(talker: Talker, patch: dict[str, Any]) -> tuple[str, str | None, str | None]:
    count = len(talker.heard.of(ErrorEvent))
    talker.send(UpdateSession(patch=patch, event_id="e1"))
    error = (await talker.heard.nth(ErrorEvent, count + 1)).error
    return error.code, error.param, error.event_id


async def test_an_update_is_confirmed_with_the_session_in_force(autojump_clock: MockClock) -> None:
    """One `session.updated`: the new voice, and everything else as it was created."""
    async with open_session(dialect="ga") as talker:
        created = talker.heard.of(SessionCreated)[0].session
        session = await update(talker, {"type": "realtime", "audio": {"output": {"voice": "marin"}}})
        assert session["audio"]["output"]["voice"] == "marin"
        assert session["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": 24000}
        assert session["audio"]["input"] == created["audio"]["input"]
        changed = {key for key in session if session[key] != created.get(key)}
        assert changed == {"audio"}
        assert len(talker.heard.of(SessionUpdated)) == 1


async def test_only_the_duplex_dialect_is_updated_at_its_opening(autojump_clock: MockClock) -> None:
    """`session.updated` follows `session.created` there; OpenAI's clients wait for their own update's."""
    for dialect, expected in (("ga", 0), ("beta", 0), ("duplex", 1)):
        async with open_session(dialect=dialect) as talker:  # type: ignore[arg-type]
            assert len(talker.heard.of(SessionUpdated)) == expected


async def test_a_threshold_alone_keeps_detection_on(autojump_clock: MockClock) -> None:
    """A partial update merges into the detection in force; an explicit null turns it off."""
    async with open_session(Script(heard=["one", "two"]), dialect="ga") as talker:
        before = talker.heard.of(SessionCreated)[0].session["audio"]["input"]["turn_detection"]
        session = await update(talker, {"audio": {"input": {"turn_detection": {"threshold": 0.8}}}})
        after = session["audio"]["input"]["turn_detection"]
        assert after == {**before, "threshold": 0.8}
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        session = await update(talker, {"audio": {"input": {"turn_detection": None}}})
        assert session["audio"]["input"]["turn_detection"] is None
        begin = len(talker.heard.events)
        await talker.turn()
        await trio.sleep(2)
        assert [name for name in talker.heard.types[begin:] if name.startswith("input_audio_buffer")] == []
        talker.send(Commit(), CreateResponse())
        await talker.heard.nth(ResponseDone, 2)


async def test_detection_can_be_turned_on_again(autojump_clock: MockClock) -> None:
    """What was said while it was off is not detected afterwards, unless it is recent; new speech is."""
    async with open_session(Script(heard=["new"]), patch={"turn_detection": None}) as talker:
        await talker.speak(5.0)
        await update(talker, {"turn_detection": {"type": "server_vad"}})
        await talker.pause(0.5)
        by_hand = talker.heard.of(InputAudioBufferSpeechStarted)
        assert [started.audio_start_ms for started in by_hand] == [0]
        assert "input_audio_buffer.speech_stopped" in talker.heard.types
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        assert talker.heard.of(InputAudioBufferSpeechStarted)[1].audio_start_ms >= 5000


async def test_a_longer_silence_holds_for_speech_in_progress(autojump_clock: MockClock) -> None:
    """The detector takes new values in the middle of a turn."""
    async with open_session(patch={"turn_detection": {"silence_duration_ms": 300}}) as talker:
        await talker.speak(1.0)
        await update(talker, {"turn_detection": {"silence_duration_ms": 1500}})
        await talker.pause(1.2)
        assert "input_audio_buffer.speech_stopped" not in talker.heard.types
        await talker.pause(0.5)
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (
        {"audio": {"output": {"speed": 9}}, "instructions": "lost"},
        "invalid_value",
        "session.audio.output.speed",
    ),
    (
        {"audio": {"input": {"format": {"type": "audio/mp3"}}}, "instructions": "lost"},
        "unsupported_audio_format",
        "session.audio.input.format",
    ),
    (
        {"instructions": "lost", "audio": {"input": {"turn_detection": {"type": "psychic_vad"}}}},
        "unsupported_turn_detection",
        "session.audio.input.turn_detection.type",
    ),
]


@pytest.mark.parametrize(("patch", "code", "param"), REFUSED)
async def test_a_refused_update_changes_nothing(
    autojump_clock: MockClock, patch: dict[str, Any], code: str, param: str
) -> None:
    """The very same configuration stays in force; the error names the field, no `session.updated` comes."""
    script = Script()
    async with open_session(script, dialect="ga", patch={"instructions": "Be kind."}) as talker:
        before = talker.handle._core.state.config
        assert await refused(talker, patch) == (code, param, "e1")
        assert talker.handle._core.state.config is before
        assert not talker.heard.of(SessionUpdated)
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
    assert script.asked[-1].prompt.messages[0].content == "Be kind."


@pytest.mark.parametrize("dialect", ["ga", "duplex"])
async def test_the_voice_is_fixed_once_it_has_spoken(autojump_clock: MockClock, dialect: DialectName) -> None:
    """Another voice is refused, the same is no change, and the next turn works in the old one."""
    async with open_session(dialect=dialect) as talker:
        await update(talker, {"audio": {"output": {"voice": "tone"}}})
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        await update(talker, {"audio": {"output": {"voice": "tone"}}})
        code, param, event_id = await refused(talker, {"audio": {"output": {"voice": "marin"}}})
        assert (code, event_id) == ("cannot_update_voice", "e1")
        assert param == "session.audio.output.voice"
        talker.write("hi")
        done = await talker.heard.nth(ResponseDone, 2)
        assert done.response.audio is not None
        assert done.response.audio.output.voice == "tone"


async def test_text_does_not_fix_the_voice(autojump_clock: MockClock) -> None:
    """A session that only wrote so far may still choose its voice."""
    async with open_session(patch={"output_modalities": ["text"]}) as talker:
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        assert (await update(talker, {"voice": "marin"}))["voice"] == "marin"


async def test_a_response_in_progress_keeps_its_format(autojump_clock: MockClock) -> None:
    """A new output format is for the responses that begin later."""
    async with open_session(Script(otherwise=lambda _: "alpha bravo charlie delta echo foxtrot")) as talker:
        talker.write("hi")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        await update(talker, {"output_audio_format": "g711_ulaw"})
        await talker.heard.nth(ResponseDone, 1)
        first = talker.heard.of(ResponseOutputAudioDelta)
        assert {len(delta.delta) for delta in first} == {4800}
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 2)
        second = talker.heard.of(ResponseOutputAudioDelta)[len(first) :]
        assert sum(len(delta.delta) for delta in second) == pytest.approx(8 * 6 * 300, rel=0.01)


async def test_a_new_input_format_is_for_the_sound_behind_it(autojump_clock: MockClock) -> None:
    """Half a second as 24 kHz PCM, then half a second as 8 kHz mu-law: one second of sound."""
    async with open_session(patch={"turn_detection": None}) as talker:
        talker.append(500, loud=True)
        await update(talker, {"input_audio_format": "g711_ulaw"})
        talker.send(AppendAudio(audio=(b"\x9f" * 20 + b"\x1f" * 20) * 100), Commit())
        completed = await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)
        assert completed.transcript == "sound of 1.0 seconds"


@pytest.mark.parametrize(
    ("options", "code", "param"),
    [
        (
            ResponseCreateOptions(speed=9.0),
            "invalid_value",
            "response.audio.output.speed",
        ),
        (
            ResponseCreateOptions(output_format="pcm_f32le"),
            "unsupported_audio_format",
            "response.audio.output.format",
        ),
        (
            ResponseCreateOptions(output_format={"type": "audio/pcm", "rate": 7}),
            "bad_event",
            "response.audio.output.format.rate",
        ),
    ],
)
async def test_options_that_a_response_cannot_have(
    autojump_clock: MockClock, options: ResponseCreateOptions, code: str, param: str
) -> None:
    """Refused by name before anything begins; the conversation is as it was."""
    async with open_session() as talker:
        item = MessageItem(role="user", content=(InputTextPart("hi"),))
        talker.send(CreateItem(item=item), CreateResponse(options=options, event_id="e1"))
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.param, error.event_id) == (code, param, "e1")
        assert "response.created" not in talker.heard.types
        talker.send(CreateResponse())
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


async def test_a_session_can_begin_with_the_users_words(autojump_clock: MockClock) -> None:
    """`initial_user_text` is an item from the start, to be answered when asked; changed, it is another one."""
    script = Script()
    async with open_session(script, patch={"initial_user_text": "where were we"}) as talker:
        talker.send(CreateResponse())
        await talker.heard.nth(ResponseDone, 1)
        assert [message.content for message in script.asked[-1].prompt.messages] == ["where were we"]
        await update(talker, {"initial_user_text": "where were we"})
        await update(talker, {"initial_user_text": "and now"})
        talker.send(CreateResponse())
        await talker.heard.nth(ResponseDone, 2)
        users = [event for event in talker.heard.of(ConversationItemDone) if event.item.role == "user"]  # type: ignore[union-attr]
        assert len(users) == 2
    assert script.asked[-1].prompt.messages[-1].content.endswith("and now")


class _Choosy(ScriptedPipeline):
    """A model that has one knob, `depth`, from 1 to 3."""

    def build_plugin(self) -> CascadePlugin:
        return _ChoosyPlugin(ChatProfile(default_instructions=None), voices=("tone",))


class _ChoosyPlugin(CascadePlugin):
    async def prepare_runtime_config(self, config: DuplexSessionConfig, model_name: str) -> Mapping[str, Any]:
        return self.runtime_config_for_update(config, {})

    def runtime_config_for_update(
        self, config: DuplexSessionConfig, current: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        depth = config.extra_body.get("depth", 1)
        if not isinstance(depth, int):
            raise ValueError("depth is a number")  # noqa: TRY004  what a plugin may raise
        if depth not in (1, 2, 3):
            raise RealtimeError(
                "invalid_duplex_runtime_config", "depth is 1, 2 or 3", param="session.extra_body.depth"
            )
        return {**current, "depth": depth}


async def test_a_models_knobs_are_checked_by_the_model(autojump_clock: MockClock) -> None:
    """What the plugin refuses changes nothing; what it accepts is its configuration from then on."""
    async with open_session(pipeline=_Choosy()) as talker:
        state = talker.handle._core.state
        assert state.runtime_config == {"depth": 1}
        before = state.config
        found = await refused(talker, {"extra_body": {"depth": 9}})
        assert found == ("invalid_duplex_runtime_config", "session.extra_body.depth", "e1")
        assert (state.config, state.runtime_config) == (before, {"depth": 1})
        found = await refused(talker, {"extra_body": {"depth": "deep"}})
        assert found == ("invalid_duplex_runtime_config", "session.extra_body", "e1")
        await update(talker, {"extra_body": {"depth": 3}})
        assert state.runtime_config == {"depth": 3}
