"""What of a session may change when, row by row, and that both doors refuse the same with the same words."""

from __future__ import annotations

from collections.abc import Mapping
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
    ErrorEvent,
    RealtimeError,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
    SessionUpdated,
    UpdateSession,
)
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.testing import RecordingAttachment, Talker, finish, open_session, open_talker, scripted_omni

DIALECTS: tuple[DialectName, ...] = ("ga", "beta", "duplex")
BY_HAND: dict[str, Any] = {"audio": {"input": {"turn_detection": None}}}
LONG = "one two three four five six seven"


def script() -> Script:
    return Script(otherwise=lambda _: LONG, word_ms=200)


class _Locking(ScriptedPipeline):
    """A model that has read its instructions once it has heard sound."""

    def build_plugin(self) -> CascadePlugin:
        return _LockingPlugin(ChatProfile(default_instructions=None), voices=("tone",))


class _LockingPlugin(CascadePlugin):
    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        return attrs.evolve(super().capabilities(max_sessions), locks_context_after_input=True)


async def updated(talker: Talker, **patch: Any) -> Mapping[str, Any]:
    """The session object that confirms an update."""
    count = len(talker.heard.of(SessionUpdated))
    talker.send(UpdateSession(patch=patch))
    return (await talker.heard.nth(SessionUpdated, count + 1)).session


async def refused(talker: Talker, **patch: Any) -> tuple[str, str | None, str | None]:
    """Code, field and message id of the error that answers an update; no confirmation comes."""
    confirmed, count = len(talker.heard.of(SessionUpdated)), len(talker.heard.of(ErrorEvent))
    config = talker.handle._core.state.config
    talker.send(UpdateSession(patch=patch, event_id="e1"))
    error = (await talker.heard.nth(ErrorEvent, count + 1)).error
    assert len(talker.heard.of(SessionUpdated)) == confirmed
    assert talker.handle._core.state.config is config
    return error.code, error.param, error.event_id


async def answer(talker: Talker) -> None:
    """One answer, from the question to its end."""
    count = len(talker.heard.of(ResponseDone))
    talker.write("go")
    await talker.heard.nth(ResponseDone, count + 1)


# ------------------------------------------------------------------ one row each


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_any_model_name_is_taken(autojump_clock: MockClock, dialect: DialectName) -> None:
    """At any time, mapped to the served model, and echoed as the client spells it."""
    async with open_session(script(), dialect=dialect, patch={"model": "one"}) as talker:
        await answer(talker)
        assert (await updated(talker, model="another"))["model"] == "another"
        assert (await updated(talker, model=None))["model"] == "another"
        await answer(talker)


async def test_null_clears_the_voice_until_it_has_spoken(autojump_clock: MockClock) -> None:
    """It is the default one then; afterwards only what changes nothing is taken."""
    async with open_session(script(), dialect="ga", patch={"voice": {"id": "marin"}}) as talker:
        session = await updated(talker, audio={"output": {"voice": None}})
        assert session["audio"]["output"]["voice"] == "tone"
        await answer(talker)
        assert await refused(talker, voice="marin") == ("cannot_update_voice", "session.voice", "e1")
        await updated(talker, audio={"output": {"voice": None}})


async def test_the_reference_voice_is_there_from_the_beginning_or_never(autojump_clock: MockClock) -> None:
    """It cannot be given later; the same is no change."""
    async with open_session(script(), patch={"ref_audio": "data:,x"}) as talker:
        assert await refused(talker, ref_audio="data:,y") == (
            "ref_audio_update_unsupported",
            "session.ref_audio",
            "e1",
        )
        await updated(talker, ref_audio="data:,x")


async def test_instructions_are_fixed_by_the_first_sound_where_the_model_reads_them_once(
    autojump_clock: MockClock,
) -> None:
    """The same ones may be sent again; other models take others at any time."""
    fixed = ("instructions_update_unsupported", "session.instructions", "e1")
    for pipeline, locks in ((_Locking(script=script()), True), (ScriptedPipeline(script=script()), False)):
        async with open_session(pipeline=pipeline, patch={"instructions": "Be kind."}) as talker:
            await updated(talker, instructions="Be brief.")
            await talker.turn()
            await talker.heard.nth(ResponseDone, 1)
            if locks:
                assert await refused(talker, instructions="Rhyme.") == fixed
            else:
                await updated(talker, instructions="Rhyme.")
            await updated(talker, temperature=1.0)


LATER: dict[str, tuple[dict[str, Any], str, Any, Any]] = {
    "modalities": ({"output_modalities": ["text"]}, "modalities", ("audio",), ("text",)),
    "limit": ({"max_output_tokens": 50}, "max_output_tokens", "inf", 50),
}
"""Patch, the field of the response object, its value before and after."""


@pytest.mark.parametrize("row", LATER)
async def test_an_answer_in_progress_keeps_what_it_began_with(autojump_clock: MockClock, row: str) -> None:
    """The change is for the answers that begin later."""
    patch, field, before, after = LATER[row]
    async with open_session(script(), dialect="ga") as talker:
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        await updated(talker, **patch)
        await talker.heard.nth(ResponseDone, 1)
        await answer(talker)
        for events in (talker.heard.of(ResponseCreated), talker.heard.of(ResponseDone)):
            assert [getattr(event.response, field) for event in events] == [before, after]


async def test_sampling_changes_for_later_answers(autojump_clock: MockClock) -> None:
    """Temperature and limit reach the model with the next question."""
    asked = script()
    async with open_session(asked, patch={"temperature": 0.3}) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        session = await updated(talker, temperature=1.1, max_tokens=40)
        assert (session["temperature"], session["max_output_tokens"]) == (1.1, 40)
        await talker.heard.nth(ResponseDone, 1)
        await answer(talker)
        params = [one.params for one in asked.asked]
        assert [one.temperature for one in params] == [0.3, 1.1]
        assert params[1].max_tokens == 40


async def test_lists_and_objects_of_the_client_are_replaced_and_null_deletes_them(
    autojump_clock: MockClock,
) -> None:
    """Tools, their choice, metadata, include, prompt, transcription, noise reduction and tracing."""
    values: dict[str, tuple[Any, Any, Any]] = {
        "tools": ([{"type": "function", "name": "a"}], [{"type": "function", "name": "b"}], []),
        "tool_choice": ("none", "required", "auto"),
        "metadata": ({"a": "1"}, {"b": "2"}, None),
        "include": (
            ["item.input_audio_transcription.logprobs"],
            ["item.input_audio_transcription.logprobs"],
            None,
        ),
        "prompt": ({"id": "pmpt_1"}, {"id": "pmpt_2"}, None),
        "truncation": ("disabled", {"type": "retention_ratio", "retention_ratio": 0.5}, "auto"),
        "parallel_tool_calls": (False, True, None),
        "reasoning": ({"effort": "low"}, {"effort": "high"}, None),
        "tracing": ({"group_id": "a"}, {"group_id": "b"}, None),
    }
    async with open_session(script(), dialect="ga") as talker:
        for name, (first, second, default) in values.items():
            for sent, shown in ((first, first), (second, second), (None, default)):
                session = await updated(talker, **{name: sent})
                assert session.get(name) == shown, name
        inner: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "transcription": ({"model": "whisper-1"}, {"language": "en"}),
            "noise_reduction": ({"type": "near_field"}, {"type": "far_field"}),
        }
        for name, (one, other) in inner.items():
            await updated(talker, audio={"input": {name: one}})
            session = await updated(talker, audio={"input": {name: other}})
            assert session["audio"]["input"][name] == one | other
            session = await updated(talker, audio={"input": {name: None}})
            assert session["audio"]["input"][name] is None


class _Forgetful(ScriptedPipeline):
    """A language model that reads forty words and writes at most twenty."""

    def build_plugin(self) -> CascadePlugin:
        return CascadePlugin(
            ChatProfile(default_instructions=None, max_tokens=20),
            voices=("tone",),
            context_tokens=40,
            count_tokens=lambda messages, tools: sum(len(m.content.split()) for m in messages),
        )


async def test_a_conversation_that_does_not_fit_is_cut_or_refused(autojump_clock: MockClock) -> None:
    """As `truncation` says, from the next answer on; a refused one fails alone."""
    asked = script()
    async with open_session(pipeline=_Forgetful(script=asked), dialect="ga") as talker:
        for _ in range(4):
            await answer(talker)
        assert len(asked.asked[-1].prompt.messages) < 7
        await updated(talker, truncation="disabled")
        await answer(talker)
        failed = talker.heard.of(ResponseDone)[-1].response
        assert failed.status == "failed"
        assert failed.status_details is not None
        assert failed.status_details.error is not None
        assert failed.status_details.error.code == "context_length_exceeded"
        await updated(
            talker,
            truncation={
                "type": "retention_ratio",
                "retention_ratio": 1,
                "token_limits": {"post_instructions": 3},
            },
        )
        await answer(talker)
        assert talker.heard.of(ResponseDone)[-1].response.status == "completed"
        assert len(asked.asked[-1].prompt.messages) == 1


async def test_the_models_knobs_merge(autojump_clock: MockClock) -> None:
    """One level deep; null takes a knob away."""
    async with open_session(script()) as talker:
        config = talker.handle._core.state
        await updated(talker, extra_body={"a": 1, "b": {"c": 1}})
        await updated(talker, extra_body={"b": {"d": 2}})
        assert config.config.extra_body == {"a": 1, "b": {"d": 2}}
        await updated(talker, extra_body={"a": None})
        assert config.config.extra_body == {"b": {"d": 2}}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_unknown_keys_are_kept_and_shown(autojump_clock: MockClock, dialect: DialectName) -> None:
    """At every depth, over later updates, until null; a field that OpenAI adds stops no session."""
    async with open_session(script(), dialect=dialect) as talker:
        await updated(talker, shiny={"a": 1}, temperature=1.0)
        session = await updated(talker, shiny={"b": 2}, speed=1.2)
        assert session["shiny"] == {"a": 1, "b": 2}
        session = await updated(talker, shiny=None)
        assert "shiny" not in session


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_every_update_shows_all_that_is_in_force(
    autojump_clock: MockClock, dialect: DialectName
) -> None:
    """Update after update about one field each: the object equals that of a session opened with all of them."""
    steps: list[dict[str, Any]] = [
        {"instructions": "Be kind."},
        {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "eagerness": "high"}}}},
        {"audio": {"input": {"turn_detection": {"interrupt_response": False}}}},
        {"audio": {"input": {"format": {"type": "audio/pcmu"}}}},
        {"audio": {"output": {"format": {"type": "audio/pcma"}}}},
        {"audio": {"output": {"speed": 1.25}}},
        {"audio": {"input": {"noise_reduction": {"type": "far_field"}}}},
        {"max_output_tokens": "inf"},
        {"max_output_tokens": 7},
        {"tracing": "auto"},
    ]
    everything: dict[str, Any] = {
        "instructions": "Be kind.",
        "audio": {
            "input": {
                "turn_detection": {"type": "semantic_vad", "eagerness": "high", "interrupt_response": False},
                "format": {"type": "audio/pcmu"},
                "noise_reduction": {"type": "far_field"},
            },
            "output": {"format": {"type": "audio/pcma"}, "speed": 1.25},
        },
        "max_output_tokens": 7,
        "tracing": "auto",
    }
    async with scripted_omni(script()) as omni:
        talker = await open_talker(omni, dialect=dialect)
        for step in steps:
            shown = await updated(talker, **step)
        at_once = await open_talker(omni, dialect=dialect, patch=everything)
        expected = await updated(at_once)
        assert {**shown, "id": ""} == {**expected, "id": ""}
        await finish(omni, talker, at_once)


# ------------------------------------------------------------------ both doors


DOORS: dict[str, tuple[dict[str, Any], str, str]] = {
    "format": ({"input_audio_format": "mp3"}, "unsupported_audio_format", "session.input_audio_format"),
    "nested format": (
        {"audio": {"output": {"format": {"type": "audio/mp3"}}}},
        "unsupported_audio_format",
        "session.audio.output.format",
    ),
    "rate": (
        {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 4000}}}},
        "bad_event",
        "session.audio.input.format.rate",
    ),
    "detection": (
        {"turn_detection": {"type": "psychic_vad"}},
        "unsupported_turn_detection",
        "session.turn_detection.type",
    ),
    "threshold": (
        {"audio": {"input": {"turn_detection": {"threshold": 2}}}},
        "unsupported_turn_detection",
        "session.audio.input.turn_detection.threshold",
    ),
    "overlap": (
        {"turn_detection": None, "overlap_policy": "barge_in_on_speech"},
        "unsupported_turn_detection",
        "session.overlap_policy",
    ),
    "speed": ({"audio": {"output": {"speed": 9}}}, "invalid_value", "session.audio.output.speed"),
    "voice": ({"voice": {"id": ""}}, "invalid_value", "session.voice.id"),
    "limit": ({"max_output_tokens": 0}, "invalid_value", "session.max_output_tokens"),
    "tools": ({"tools": [{"type": "mcp"}]}, "invalid_value", "session.tools[0].type"),
    "kind": ({"type": "transcription"}, "invalid_value", "session.type"),
}


@pytest.mark.parametrize("fault", DOORS)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_both_doors_refuse_alike(autojump_clock: MockClock, dialect: DialectName, fault: str) -> None:
    """At the opening and later, with code and field; what came with the fault is not adopted either."""
    patch, code, param = DOORS[fault]
    patch = {"instructions": "lost", **patch}
    async with scripted_omni(script()) as omni:
        with pytest.raises(RealtimeError) as caught:
            await omni.open_session(dialect=dialect, attachment=RecordingAttachment(), patch=patch)
        assert (caught.value.code, caught.value.param) == (code, param)
        assert omni.statistics().sessions == 0
        talker = await open_talker(omni, dialect=dialect)
        assert await refused(talker, **patch) == (code, param, "e1")
        await answer(talker)
        await trio.sleep(0.1)
        await finish(omni, talker)
