"""Turn detection settings: merging, defaults, ranges, and what a refusal says."""

from __future__ import annotations

import math
from typing import Any

import pytest
from attrs import evolve
from openai.types.realtime import realtime_audio_input_turn_detection as sdk

from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.turn_detection import (
    SemanticVad,
    ServerVad,
    TurnDetection,
    merge_turn_detection,
    render_turn_detection,
)

PARAM = "session.audio.input.turn_detection"
SERVER = ServerVad(
    threshold=0.7,
    prefix_padding_ms=100,
    silence_duration_ms=900,
    min_speech_duration_ms=64,
    create_response=False,
    interrupt_response=False,
    idle_timeout_ms=9000,
)
SEMANTIC = SemanticVad(eagerness="low", create_response=False, interrupt_response=False)


def _merge(current: TurnDetection | None, patch: object, **kwargs: Any) -> TurnDetection | None:
    return merge_turn_detection(current, patch, PARAM, **kwargs)


def _refusal(current: TurnDetection | None, patch: object) -> RealtimeError:
    with pytest.raises(RealtimeError) as caught:
        _merge(current, patch)
    assert caught.value.code == "unsupported_turn_detection"
    return caught.value


@pytest.mark.parametrize("current", [None, SERVER, SEMANTIC])
def test_null_turns_it_off(current: TurnDetection | None) -> None:
    assert _merge(current, None) is None


@pytest.mark.parametrize("current", [SERVER, SEMANTIC])
def test_an_empty_object_or_the_same_type_changes_nothing(current: TurnDetection) -> None:
    kind = "server_vad" if current is SERVER else "semantic_vad"
    for patch in ({}, {"type": kind}, {"type": None}):
        assert _merge(current, patch) == current


def test_another_type_starts_from_its_defaults() -> None:
    assert _merge(None, {"type": "server_vad"}) == ServerVad()
    assert _merge(SEMANTIC, {"type": "server_vad", "threshold": 0.6}) == ServerVad(threshold=0.6)
    assert _merge(SERVER, {"type": "semantic_vad"}) == SemanticVad()
    assert _merge(None, {"type": "server_vad"}, default_silence_ms=600) == ServerVad(silence_duration_ms=600)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("threshold", 0.8, 0.8),
        ("threshold", 1, 1.0),
        ("threshold", 0.151, 0.151),
        ("prefix_padding_ms", 0, 0),
        ("prefix_padding_ms", 300.4, 300),
        ("silence_duration_ms", 200, 200),
        ("min_speech_duration_ms", 0, 32),
        ("min_speech_duration_ms", 250, 250),
        ("create_response", True, True),
        ("interrupt_response", True, True),
        ("idle_timeout_ms", 5000, 5000),
    ],
)
def test_one_server_vad_field_changes_alone(field: str, value: object, expected: Any) -> None:
    assert _merge(SERVER, {field: value}) == evolve(SERVER, **{field: expected})


@pytest.mark.parametrize(("eagerness", "timeout_s"), [("low", 8), ("medium", 4), ("high", 2), ("auto", 4)])
def test_eagerness_is_a_longest_silence(eagerness: str, timeout_s: float) -> None:
    merged = _merge(SEMANTIC, {"eagerness": eagerness})
    assert isinstance(merged, SemanticVad)
    assert (merged.eagerness, merged.timeout_s) == (eagerness, timeout_s)
    assert not merged.create_response


def test_null_fields_return_to_their_defaults() -> None:
    names = (
        "threshold",
        "prefix_padding_ms",
        "min_speech_duration_ms",
        "create_response",
        "interrupt_response",
    )
    for name in (*names, "idle_timeout_ms"):
        merged = _merge(SERVER, {name: None})
        assert merged == evolve(SERVER, **{name: getattr(ServerVad(), name)})
    assert _merge(SERVER, {"silence_duration_ms": None}, default_silence_ms=600) == evolve(
        SERVER, silence_duration_ms=600
    )
    assert _merge(SEMANTIC, {"eagerness": None}) == evolve(SEMANTIC, eagerness="auto")


def test_null_fields_of_the_other_type_say_nothing() -> None:
    assert _merge(SERVER, {"type": "server_vad", "eagerness": None}) == SERVER
    assert _merge(SEMANTIC, {"threshold": None, "silence_duration_ms": None}) == SEMANTIC


def test_a_type_is_required_while_it_is_off() -> None:
    error = _refusal(None, {"threshold": 0.5})
    assert error.param == f"{PARAM}.type"
    assert "server_vad or semantic_vad" in error.message


@pytest.mark.parametrize(
    ("current", "patch", "field"),
    [
        (SERVER, {"type": "native"}, "type"),
        (SERVER, {"type": 5}, "type"),
        (SERVER, {"threshold": 0.15}, "threshold"),
        (SERVER, {"threshold": 0}, "threshold"),
        (SERVER, {"threshold": 1.01}, "threshold"),
        (SERVER, {"threshold": "0.5"}, "threshold"),
        (SERVER, {"threshold": True}, "threshold"),
        (SERVER, {"threshold": math.nan}, "threshold"),
        (SERVER, {"prefix_padding_ms": -1}, "prefix_padding_ms"),
        (SERVER, {"prefix_padding_ms": False}, "prefix_padding_ms"),
        (SERVER, {"prefix_padding_ms": 60_001}, "prefix_padding_ms"),
        (SERVER, {"silence_duration_ms": math.inf}, "silence_duration_ms"),
        (SERVER, {"silence_duration_ms": "500"}, "silence_duration_ms"),
        (SERVER, {"min_speech_duration_ms": -0.1}, "min_speech_duration_ms"),
        (SERVER, {"create_response": 1}, "create_response"),
        (SERVER, {"interrupt_response": "false"}, "interrupt_response"),
        (SERVER, {"idle_timeout_ms": 0}, "idle_timeout_ms"),
        (SERVER, {"idle_timeout_ms": 1.5}, "idle_timeout_ms"),
        (SERVER, {"eagerness": "low"}, "eagerness"),
        (SERVER, {"volume": 3}, "volume"),
        (SERVER, {"volume": None}, "volume"),
        (SEMANTIC, {"eagerness": "eager"}, "eagerness"),
        (SEMANTIC, {"eagerness": 2}, "eagerness"),
        (SEMANTIC, {"threshold": 0.5}, "threshold"),
        (SEMANTIC, {"idle_timeout_ms": 5000}, "idle_timeout_ms"),
        (SERVER, {"type": "semantic_vad", "silence_duration_ms": 5}, "silence_duration_ms"),
    ],
)
def test_other_values_are_refused_at_their_path(
    current: TurnDetection, patch: dict[str, object], field: str
) -> None:
    assert _refusal(current, patch).param == f"{PARAM}.{field}"


@pytest.mark.parametrize("patch", ["server_vad", True, False, 0, [], [{"type": "server_vad"}]])
def test_anything_but_an_object_is_refused(patch: object) -> None:
    assert _refusal(SERVER, patch).param == PARAM


def test_a_refusal_names_the_range_and_the_known_fields() -> None:
    assert "greater than 0.15 and at most 1" in _refusal(SERVER, {"threshold": 0.1}).message
    assert "eagerness, create_response, interrupt_response" in _refusal(SEMANTIC, {"threshold": 0.5}).message


@pytest.mark.parametrize("settings", [SERVER, SEMANTIC, ServerVad(), SemanticVad()])
def test_what_is_rendered_validates_strictly_and_merges_back(settings: TurnDetection) -> None:
    rendered = render_turn_detection(settings)
    assert rendered is not None
    model = sdk.ServerVad if isinstance(settings, ServerVad) else sdk.SemanticVad
    assert model.model_validate(rendered, strict=True).model_extra == {}
    extended = render_turn_detection(settings, extended=True)
    assert _merge(None, extended) == settings
    assert render_turn_detection(None) is None
