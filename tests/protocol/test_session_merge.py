"""How a session update reads what stands in it twice, in parts, or differently by dialect."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from duplex_trio.protocol.duplex.session import (
    DialectName,
    DuplexSessionConfig,
    SessionDefaults,
    apply_patch,
    default_config,
)
from duplex_trio.protocol.realtime.errors import RealtimeError


def start(dialect: DialectName = "duplex", **changes: Any) -> DuplexSessionConfig:
    return evolve(default_config(SessionDefaults(model="served"), dialect), **changes)


def refusal(patch: dict[str, Any], config: DuplexSessionConfig, dialect: DialectName) -> RealtimeError:
    with pytest.raises(RealtimeError) as caught:
        apply_patch(config, patch, dialect=dialect)
    return caught.value


@pytest.mark.parametrize(
    ("dialect", "path", "value", "in_force"),
    [
        ("ga", "output_modalities", ["text"], ("text",)),
        ("ga", "output_modalities", ["audio"], ("audio",)),
        ("ga", "modalities", ["audio", "text"], ("audio",)),
        ("beta", "modalities", ["audio", "text"], ("text", "audio")),
        ("beta", "modalities", ["text"], ("text",)),
        ("beta", "modalities", ["audio"], ("audio",)),
        ("duplex", "modalities", ["audio", "text"], ("text", "audio")),
        ("duplex", "output_modalities", ["text", "audio"], ("text", "audio")),
        ("duplex", "output_modalities", ["text", "text"], ("text",)),
        ("duplex", "output_modalities", None, ("text", "audio")),
        ("ga", "output_modalities", None, ("audio",)),
    ],
)
def test_modalities_by_dialect(
    dialect: DialectName, path: str, value: object, in_force: tuple[str, ...]
) -> None:
    config = start(dialect, output_modalities=())
    changed = apply_patch(config, {path: value}, dialect=dialect)
    assert changed.output_modalities == in_force
    assert changed.speaks == ("audio" in in_force)


def test_ga_answers_in_one_modality() -> None:
    error = refusal({"output_modalities": ["audio", "text"]}, start("ga"), "ga")
    assert (error.code, error.param) == ("invalid_value", "session.output_modalities")


def test_ga_and_beta_include_one_known_name_only() -> None:
    assert apply_patch(start(), {"include": ["anything"]}, dialect="duplex").include == ("anything",)
    for dialect in ("ga", "beta"):
        error = refusal({"include": ["anything"]}, start(), dialect)
        assert (error.code, error.param) == ("invalid_value", "session.include[0]")


@pytest.mark.parametrize(
    ("patch", "attribute", "in_force"),
    [
        ({"voice": "flat", "audio": {"output": {"voice": "nested"}}}, "voice", "nested"),
        ({"speed": 0.5, "audio": {"output": {"speed": 1.5}}}, "speed", 1.5),
        ({"modalities": ["text"], "output_modalities": ["audio"]}, "output_modalities", ("text",)),
        ({"max_tokens": 1, "max_output_tokens": 2, "max_response_output_tokens": 3}, "max_output_tokens", 3),
        ({"max_tokens": 1, "max_output_tokens": None}, "max_output_tokens", 1),
        (
            {"input_audio_transcription": {"model": "a"}, "audio": {"input": {"transcription": None}}},
            "transcription",
            None,
        ),
        (
            {"overlap_silence_rms": 0.1, "extra_body": {"overlap_silence_rms": 0.2}},
            "overlap_silence_rms",
            0.2,
        ),
    ],
)
def test_which_spelling_wins(patch: dict[str, object], attribute: str, in_force: object) -> None:
    assert getattr(apply_patch(start(), patch, dialect="duplex"), attribute) == in_force


def test_objects_inside_merge_and_null_deletes() -> None:
    config = start(
        transcription={"model": "a", "language": "de"},
        noise_reduction={"type": "near_field", "strength": 1.0},
        tracing={"group_id": "g"},
        reasoning={"effort": "low"},
    )
    patch = {
        "audio": {
            "input": {
                "transcription": {"language": None, "prompt": "p"},
                "noise_reduction": {"type": "far_field"},
            }
        },
        "tracing": {"workflow_name": "w"},
        "reasoning": {},
    }
    changed = apply_patch(config, patch, dialect="ga")
    assert changed.transcription == {"model": "a", "prompt": "p"}
    assert changed.noise_reduction == {"type": "far_field", "strength": 1.0}
    assert changed.tracing == {"group_id": "g", "workflow_name": "w"}
    assert changed.reasoning == {"effort": "low"}
    assert config.transcription == {"model": "a", "language": "de"}


def test_an_update_is_not_tied_to_what_the_client_does_with_its_object() -> None:
    tool: dict[str, Any] = {"name": "a", "parameters": {"type": "object"}}
    extra: dict[str, Any] = {"knob": [1]}
    changed = apply_patch(start(), {"tools": [tool], "extra_body": extra, "other": extra}, dialect="duplex")
    tool["parameters"]["type"] = "array"
    extra["knob"].append(2)
    assert changed.tools[0]["parameters"] == {"type": "object"}
    assert changed.extra_body["knob"] == [1]
    assert changed.unknown == {"other": {"knob": [1]}}
