"""The updates that published clients send first: each is accepted, and echoed in a form its client can read."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.beta.realtime.session import Session as BetaSession
from openai.types.realtime.realtime_session_create_request import RealtimeSessionCreateRequest

from duplex_trio.protocol.duplex.session import (
    DialectName,
    DuplexSessionConfig,
    SemanticVad,
    SessionDefaults,
    SessionState,
    apply_patch,
    default_config,
    render_session,
)

# The first updates as clients.md lists them.
AGENTS_PYTHON = {
    "type": "realtime",
    "model": "gpt-realtime",
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "transcription": {"model": "gpt-4o-mini-transcribe"},
            "turn_detection": {"type": "semantic_vad", "interrupt_response": True},
        },
        "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "ash"},
    },
    "output_modalities": ["audio"],
    "tools": [{"type": "function", "name": "weather", "description": "", "parameters": {"type": "object"}}],
    "tool_choice": "auto",
}
AGENTS_JS = {
    "type": "realtime",
    "model": "gpt-realtime",
    "instructions": "Help.",
    "output_modalities": ["audio"],
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "noise_reduction": None,
            "transcription": {"model": "gpt-4o-mini-transcribe"},
            "turn_detection": {"type": "semantic_vad"},
        },
        "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "ash", "speed": 1},
    },
    "tool_choice": "auto",
    "tools": [],
}
PIPECAT = {
    "type": "realtime",
    "model": "gpt-realtime",
    "instructions": "Help.",
    "output_modalities": ["audio"],
    "audio": {
        "input": {"transcription": {"model": "gpt-4o-transcribe"}, "turn_detection": {"type": "server_vad"}},
        "output": {"voice": "alloy"},
    },
    "tools": [{"type": "function", "name": "weather", "description": "d", "parameters": {"type": "object"}}],
}
LIVEKIT = {
    "type": "realtime",
    "model": "gpt-realtime",
    "output_modalities": ["audio"],
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "noise_reduction": None,
            "transcription": {"model": "gpt-4o-mini-transcribe"},
            "turn_detection": {
                "type": "semantic_vad",
                "create_response": True,
                "eagerness": "medium",
                "interrupt_response": True,
            },
        },
        "output": {"format": {"type": "audio/pcm", "rate": 24000}, "speed": 1.0, "voice": "marin"},
    },
    "max_output_tokens": "inf",
    "tool_choice": "auto",
    "tracing": None,
}
REALTIME_API_NPM = {
    "modalities": ["text", "audio"],
    "instructions": "",
    "voice": "alloy",
    "input_audio_format": "pcm16",
    "output_audio_format": "pcm16",
    "input_audio_transcription": {"model": "whisper-1"},
    "turn_detection": None,
    "tools": [],
    "tool_choice": "auto",
    "temperature": 0.8,
    "max_response_output_tokens": 4096,
}
MASTRA = {
    "instructions": "Help.",
    "voice": "alloy",
    "input_audio_transcription": {"model": "whisper-1"},
    "tools": [{"type": "function", "name": "weather", "description": "d", "parameters": {}}],
}
OUR_CLIENT = {
    "model": "served",
    "modalities": ["audio", "text"],
    "input_audio_format": "pcm16",
    "output_audio_format": "pcm16",
    "sample_rate_hz": 16000,
    "audio": {"input": {"sample_rate_hz": 16000}, "output": {"sample_rate_hz": 24000}},
    "turn_detection": None,
    "overlap_policy": "listen_only",
    "playback_commit_policy": "ack_only",
    "extra_body": {"auto_response": True},
}
CASE_15 = {
    "type": "realtime",
    "audio": {
        "input": {
            "turn_detection": {"type": "semantic_vad", "eagerness": "high", "interrupt_response": True},
            "noise_reduction": None,
        },
        "output": {"speed": 1},
    },
    "tracing": None,
    "max_output_tokens": "inf",
}
FIRST_UPDATES: list[tuple[DialectName, list[dict[str, Any]]]] = [
    ("ga", [AGENTS_PYTHON, {"type": "realtime", "tracing": "auto"}]),
    ("ga", [AGENTS_JS, {"type": "realtime", "tracing": None}]),
    ("ga", [AGENTS_JS, {"type": "realtime", "tracing": "auto"}]),
    ("ga", [PIPECAT]),
    ("ga", [LIVEKIT, {"type": "realtime", "tools": []}, {"type": "realtime", "instructions": "Help."}]),
    ("beta", [REALTIME_API_NPM]),
    ("beta", [MASTRA]),
    ("ga", [CASE_15]),
]


def _open(patches: list[dict[str, Any]], dialect: DialectName) -> DuplexSessionConfig:
    config = default_config(SessionDefaults(model="served", voice="mary", silence_duration_ms=600), dialect)
    for patch in patches:
        config = apply_patch(config, patch, dialect=dialect)
    return config


def _render(config: DuplexSessionConfig, dialect: DialectName) -> dict[str, Any]:
    return render_session(config, dialect=dialect, state=SessionState(session_id="duplex-1"))


@pytest.mark.parametrize(("dialect", "patches"), FIRST_UPDATES)
def test_the_first_updates_of_published_clients_are_accepted_and_echoed_validly(
    dialect: DialectName, patches: list[dict[str, Any]]
) -> None:
    config = _open(patches, dialect)
    session = _render(config, dialect)
    if dialect == "ga":
        RealtimeSessionCreateRequest.model_validate(session, strict=True)
    else:
        # The beta class knows a fixed list of model names; any other server's names fail it.
        BetaSession.model_validate(session | {"model": None}, strict=True)
    assert apply_patch(config, session, dialect=dialect) == config


def test_our_own_clients_first_update() -> None:
    config = _open([OUR_CLIENT], "duplex")
    assert config.auto_response
    assert config.turn_detection is None
    assert (config.input_format.sample_rate_hz, config.output_format.sample_rate_hz) == (16000, 24000)
    session = _render(config, "duplex")
    assert session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 16000}
    assert session["overlap_policy"] == "listen_only"


def test_case_15_semantic_detection_is_in_force_and_echoed() -> None:
    config = _open([CASE_15], "ga")
    assert config.turn_detection == SemanticVad(eagerness="high")
    assert _render(config, "ga")["audio"]["input"]["turn_detection"] == {
        "type": "semantic_vad",
        "eagerness": "high",
        "create_response": True,
        "interrupt_response": True,
    }
