"""The session object in each dialect, against the SDK's classes and what updates leave in it."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from openai.types.beta.realtime.session import Session as BetaSession
from openai.types.realtime import SessionCreatedEvent, SessionUpdatedEvent
from openai.types.realtime.realtime_session_create_request import RealtimeSessionCreateRequest

from duplex_trio.protocol.duplex.session import (
    DialectName,
    DuplexSessionConfig,
    SessionDefaults,
    SessionLocks,
    SessionState,
    apply_patch,
    default_config,
    render_session,
)
from duplex_trio.protocol.realtime.errors import RealtimeError

DEFAULTS = SessionDefaults(model="served", voice="mary", silence_duration_ms=600)
STATE = SessionState(
    session_id="duplex-1", epoch=3, turn_state="user_speaking", capabilities={"supports_barge_in": True}
)
DIALECTS: tuple[DialectName, ...] = ("ga", "beta", "duplex")

EVERYTHING = {
    "type": "realtime",
    "model": "gpt-realtime",
    "output_modalities": ["audio"],
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "noise_reduction": {"type": "near_field", "strength": 0.5},
            "transcription": {"model": "whisper-1", "language": "en", "prompt": "names"},
            "turn_detection": {"type": "semantic_vad", "eagerness": "medium"},
        },
        "output": {"format": {"type": "audio/pcm", "rate": 24000}, "speed": 1.25, "voice": "ash"},
    },
    "tools": [{"type": "function", "name": "weather", "description": "", "parameters": {"type": "object"}}],
    "instructions": "Help.",
    "tool_choice": {"type": "function", "name": "weather"},
    "max_output_tokens": 99,
    "tracing": {"workflow_name": "w", "metadata": {"a": 1}},
    "include": ["item.input_audio_transcription.logprobs"],
    "prompt": {"id": "p", "version": "2", "variables": {"city": "Oslo"}},
    "parallel_tool_calls": True,
    "reasoning": {"effort": "low"},
    "truncation": {
        "type": "retention_ratio",
        "retention_ratio": 0.5,
        "token_limits": {"post_instructions": 9},
    },
    "metadata": {"k": "v"},
    "temperature": 0.5,
    "x_app": {"deep": [1, {"a": None}]},
}


def _open(patches: list[dict[str, Any]], dialect: DialectName) -> DuplexSessionConfig:
    config = default_config(DEFAULTS, dialect)
    for patch in patches:
        config = apply_patch(config, patch, dialect=dialect)
    return config


def _render(config: DuplexSessionConfig, dialect: DialectName) -> dict[str, Any]:
    return render_session(config, dialect=dialect, state=STATE)


def _validate_ga(session: dict[str, Any]) -> None:
    for event, name in ((SessionCreatedEvent, "session.created"), (SessionUpdatedEvent, "session.updated")):
        parsed = event.model_validate({"type": name, "event_id": "event_1", "session": session}, strict=True)
        assert isinstance(parsed.session, RealtimeSessionCreateRequest)


def _validate_beta(session: dict[str, Any]) -> None:
    # The beta class knows a fixed list of model names; any other server's names fail it.
    BetaSession.model_validate({key: value for key, value in session.items() if key != "model"}, strict=True)


def test_a_full_ga_session_validates_strictly_and_reads_back() -> None:
    config = _open([EVERYTHING], "ga")
    session = _render(config, "ga")
    _validate_ga(session)
    for key in (
        "tools",
        "tool_choice",
        "tracing",
        "include",
        "prompt",
        "truncation",
        "metadata",
        "reasoning",
    ):
        assert session[key] == EVERYTHING[key]
    assert session["x_app"] == {"deep": [1, {"a": None}]}
    assert "expires_at" not in session
    assert apply_patch(config, session, dialect="ga") == config


def test_the_default_ga_session_in_full() -> None:
    session = _render(_open([], "ga"), "ga")
    _validate_ga(session)
    assert session == {
        "type": "realtime",
        "object": "realtime.session",
        "id": "duplex-1",
        "model": "served",
        "output_modalities": ["audio"],
        "instructions": None,
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "tracing": None,
        "truncation": "auto",
        "prompt": None,
        "include": None,
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "transcription": None,
                "noise_reduction": None,
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.5,
                    "prefix_padding_ms": 300,
                    "silence_duration_ms": 600,
                    "create_response": True,
                    "interrupt_response": True,
                    "idle_timeout_ms": None,
                },
            },
            "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "mary", "speed": 1.0},
        },
    }


def test_the_default_beta_session_in_full() -> None:
    session = _render(_open([], "beta"), "beta")
    _validate_beta(session)
    assert session == {
        "object": "realtime.session",
        "id": "duplex-1",
        "model": "served",
        "modalities": ["text", "audio"],
        "instructions": None,
        "voice": "mary",
        "speed": 1.0,
        "input_audio_format": "pcm16",
        "output_audio_format": "pcm16",
        "input_audio_transcription": None,
        "input_audio_noise_reduction": None,
        "turn_detection": {
            "type": "server_vad",
            "threshold": 0.5,
            "prefix_padding_ms": 300,
            "silence_duration_ms": 600,
            "create_response": True,
            "interrupt_response": True,
        },
        "tools": [],
        "tool_choice": "auto",
        "temperature": None,
        "max_response_output_tokens": "inf",
        "tracing": None,
    }


def test_the_duplex_session_is_the_ga_one_with_flat_names_and_state() -> None:
    config = _open([EVERYTHING, {"overlap_short_ack_ms": 50}], "duplex")
    session = _render(config, "duplex")
    _validate_ga(session)
    always = [
        "id",
        "state",
        "turn_state",
        "epoch",
        "turn_id",
        "active_request_id",
        "active_response_id",
        "active_response_turn_id",
        "model",
        "modalities",
        "instructions",
        "voice",
        "response_format",
        "temperature",
        "max_tokens",
        "speed",
        "idle_timeout_s",
        "overlap_policy",
        "overlap_short_ack_ms",
        "overlap_barge_in_ms",
        "overlap_silence_rms",
        "playback_commit_policy",
        "playback",
        "capabilities",
        "object",
        "type",
        "input_audio_format",
        "output_audio_format",
        "output_modalities",
        "audio",
        "turn_detection",
        "input_audio_transcription",
        "tracing",
        "max_output_tokens",
    ]
    assert set(always) <= session.keys()
    assert session["epoch"] == 3
    assert session["turn_state"] == "user_speaking"
    assert session["capabilities"] == {"supports_barge_in": True}
    assert session["playback"] == {"generated_ms": 0, "sent_ms": 0, "played_ms": 0, "committed_ms": 0}
    assert session["overlap_short_ack_ms"] == 50
    assert (session["max_tokens"], session["max_output_tokens"]) == (99, 99)
    assert session["turn_detection"] == session["audio"]["input"]["turn_detection"]
    assert apply_patch(config, session, dialect="duplex") == config


def test_duplex_turn_detection_shows_its_extra_field_and_openai_ones_do_not() -> None:
    for dialect in DIALECTS:
        config = _open([{"turn_detection": {"min_speech_duration_ms": 64, "idle_timeout_ms": 6000}}], dialect)
        session = _render(config, dialect)
        detection = (
            session["turn_detection"] if dialect == "beta" else session["audio"]["input"]["turn_detection"]
        )
        assert ("min_speech_duration_ms" in detection) == (dialect == "duplex")
        assert detection["idle_timeout_ms"] == 6000


def test_case_13_a_voice_update_is_echoed_and_changes_nothing_else() -> None:
    before = _open([EVERYTHING], "ga")
    after = apply_patch(before, {"type": "realtime", "audio": {"output": {"voice": "marin"}}}, dialect="ga")
    session = _render(after, "ga")
    assert session["audio"]["output"] == {
        "format": {"type": "audio/pcm", "rate": 24000},
        "voice": "marin",
        "speed": 1.25,
    }
    assert after == evolve(before, voice="marin")


def test_case_14_detection_stays_through_partial_updates_until_null() -> None:
    config = _open([{"turn_detection": {"type": "server_vad", "silence_duration_ms": 700}}], "ga")
    config = apply_patch(config, {"audio": {"input": {"turn_detection": {"threshold": 0.8}}}}, dialect="ga")
    config = apply_patch(config, {"instructions": "x"}, dialect="ga")
    detection = _render(config, "ga")["audio"]["input"]["turn_detection"]
    assert (detection["type"], detection["threshold"], detection["silence_duration_ms"]) == (
        "server_vad",
        0.8,
        700,
    )
    config = apply_patch(config, {"audio": {"input": {"turn_detection": None}}}, dialect="ga")
    assert _render(config, "ga")["audio"]["input"]["turn_detection"] is None


def test_case_16_only_another_voice_is_refused_after_speech() -> None:
    config = _open([{"voice": "ash"}], "ga")
    spoken = SessionLocks(voice_spoken=True)
    full = _render(config, "ga")
    assert apply_patch(config, full, dialect="ga", locked=spoken) == config
    full["audio"]["output"]["voice"] = "marin"
    with pytest.raises(RealtimeError) as caught:
        apply_patch(config, full, dialect="ga", locked=spoken)
    assert (caught.value.code, caught.value.param) == ("cannot_update_voice", "session.audio.output.voice")
    assert config.voice == "ash"


def test_case_18_telephone_formats_are_echoed_as_the_client_named_them() -> None:
    nested = {
        "audio": {"input": {"format": {"type": "audio/pcmu"}}, "output": {"format": {"type": "audio/pcma"}}}
    }
    session = _render(_open([nested], "ga"), "ga")
    _validate_ga(session)
    assert session["audio"]["input"]["format"] == {"type": "audio/pcmu"}
    assert session["audio"]["output"]["format"] == {"type": "audio/pcma"}
    assert "input_audio_format" not in session
    flat = {"input_audio_format": "g711_ulaw", "output_audio_format": "g711_alaw"}
    for dialect in DIALECTS:
        session = _render(_open([flat], dialect), dialect)
        assert {key: session[key] for key in flat} == flat
    assert session["audio"]["input"]["format"] == {"type": "audio/pcmu"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_session_object_belongs_to_its_receiver(dialect: DialectName) -> None:
    config = _open([EVERYTHING], dialect)
    before = _render(config, dialect)
    for key, value in _render(config, dialect).items():
        if isinstance(value, dict):
            value.clear()
        elif isinstance(value, list):
            value.append(key)
    assert _render(config, dialect) == before


def test_unknown_keys_never_hide_a_known_field() -> None:
    config = _open([{"audio": {"input": {"gain": 1}, "y": 2}, "object": "z"}], "ga")
    session = _render(config, "ga")
    assert session["audio"]["input"]["gain"] == 1
    assert session["audio"]["y"] == 2
    assert session["audio"]["input"]["format"]["type"] == "audio/pcm"
    assert session["object"] == "realtime.session"
