"""Every field of a session update, in each spelling: what is taken, what is refused and how, what null does."""

from __future__ import annotations

import math
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

DEFAULTS = SessionDefaults(
    model="served",
    voice="mary",
    instructions="Be kind.",
    temperature=0.7,
    silence_duration_ms=600,
    extra_body={"seed": 1},
    private_extra_body_keys=frozenset({"token_ids"}),
)
DIALECTS: tuple[DialectName, ...] = ("ga", "beta", "duplex")
TOOL = {"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}}
RATIO = {"type": "retention_ratio", "retention_ratio": 0.8, "token_limits": {"post_instructions": 5000}}


def nested(path: str, value: object) -> dict[str, Any]:
    for key in reversed(path.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def start(dialect: DialectName = "duplex", **changes: Any) -> DuplexSessionConfig:
    return evolve(default_config(DEFAULTS, dialect), **changes)


def refusal(patch: object, config: DuplexSessionConfig | None = None, **kwargs: Any) -> RealtimeError:
    kwargs.setdefault("dialect", "duplex")
    with pytest.raises(RealtimeError) as caught:
        apply_patch(config or start(), patch, **kwargs)  # type: ignore[arg-type]
    return caught.value


# attribute, its spellings, (sent, in force) pairs
GOOD: list[tuple[str, tuple[str, ...], list[tuple[object, object]]]] = [
    ("model", ("model",), [("gpt-realtime", "gpt-realtime"), (None, "served")]),
    ("instructions", ("instructions",), [("Rhyme.", "Rhyme."), ("", ""), (None, "Be kind.")]),
    (
        "voice",
        ("audio.output.voice", "voice"),
        [("ash", "ash"), ({"id": "voice_1"}, "voice_1"), (None, "mary")],
    ),
    ("speed", ("audio.output.speed", "speed"), [(0.25, 0.25), (1, 1.0), (1.5, 1.5), (None, 1.0)]),
    (
        "transcription",
        ("audio.input.transcription", "input_audio_transcription"),
        [
            ({"model": "whisper-1"}, {"model": "whisper-1"}),
            ({}, {}),
            (
                {"language": "de", "languages": ["de"], "x": 1},
                {"language": "de", "languages": ["de"], "x": 1},
            ),
            (None, None),
        ],
    ),
    (
        "noise_reduction",
        ("audio.input.noise_reduction", "input_audio_noise_reduction"),
        [
            ({"type": "near_field"}, {"type": "near_field"}),
            ({"type": "far_field", "strength": 2}, {"type": "far_field", "strength": 2.0}),
            (None, None),
        ],
    ),
    (
        "tools",
        ("tools",),
        [
            ([TOOL], (TOOL,)),
            ([{"name": "bare"}], ({"type": "function", "name": "bare"},)),
            ([], ()),
            (None, ()),
        ],
    ),
    (
        "tool_choice",
        ("tool_choice",),
        [
            ("none", "none"),
            ("required", "required"),
            ({"type": "function", "name": "look"}, {"type": "function", "name": "look"}),
            (None, "auto"),
        ],
    ),
    ("temperature", ("temperature",), [(0, 0.0), (2, 2.0), (0.8, 0.8), (None, 0.7)]),
    (
        "max_output_tokens",
        ("max_response_output_tokens", "max_output_tokens", "max_tokens"),
        [
            (1, 1),
            (4096, 4096),
            (4096.0, 4096),
            ("inf", None),
            ("infinity", None),
            ("unlimited", None),
            (None, None),
        ],
    ),
    (
        "tracing",
        ("tracing",),
        [
            ("auto", "auto"),
            ({"group_id": "g", "metadata": {"a": [1]}}, {"group_id": "g", "metadata": {"a": [1]}}),
            (None, None),
        ],
    ),
    (
        "include",
        ("include",),
        [
            (["item.input_audio_transcription.logprobs"], ("item.input_audio_transcription.logprobs",)),
            ([], ()),
            (None, None),
        ],
    ),
    (
        "prompt",
        ("prompt",),
        [({"id": "p", "variables": {"a": "b"}}, {"id": "p", "variables": {"a": "b"}}), (None, None)],
    ),
    ("metadata", ("metadata",), [({"k": "v"}, {"k": "v"}), ({}, {}), (None, None)]),
    ("parallel_tool_calls", ("parallel_tool_calls",), [(True, True), (False, False), (None, None)]),
    ("reasoning", ("reasoning",), [({"effort": "low"}, {"effort": "low"}), (None, None)]),
    ("truncation", ("truncation",), [("disabled", "disabled"), (RATIO, RATIO), (None, "auto")]),
    ("initial_user_text", ("initial_user_text",), [("Hello", "Hello"), (None, None)]),
    (
        "ref_audio",
        ("ref_audio",),
        [("data:audio/wav;base64,AA==", "data:audio/wav;base64,AA=="), (None, None)],
    ),
    ("idle_timeout_s", ("idle_timeout_s",), [(60, 60.0), (0, 300.0), (0.5, 0.5), (None, 300.0)]),
    (
        "overlap_short_ack_ms",
        ("overlap_short_ack_ms", "extra_body.overlap_short_ack_ms"),
        [(0, 0.0), (None, 700.0)],
    ),
    (
        "overlap_barge_in_ms",
        ("overlap_barge_in_ms", "extra_body.overlap_barge_in_ms"),
        [(5, 5.0), (None, 1200.0)],
    ),
    (
        "overlap_silence_rms",
        ("overlap_silence_rms", "extra_body.overlap_silence_rms"),
        [(0.1, 0.1), (None, 0.003)],
    ),
]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("attribute", "path", "sent", "in_force"),
    [(name, path, *pair) for name, paths, pairs in GOOD for path in paths for pair in pairs],
)
def test_a_good_value_changes_its_field_alone(
    dialect: DialectName, attribute: str, path: str, sent: object, in_force: Any
) -> None:
    config = start(dialect)
    changed = apply_patch(config, nested(path, sent), dialect=dialect)
    assert getattr(changed, attribute) == in_force
    assert changed == evolve(config, **{attribute: in_force})


@pytest.mark.parametrize(
    ("attribute", "other"),
    [
        ("instructions", "x"),
        ("voice", "x"),
        ("speed", 1.2),
        ("transcription", {"model": "m"}),
        ("noise_reduction", {"type": "near_field"}),
        ("tools", (TOOL,)),
        ("tool_choice", "none"),
        ("temperature", 0.1),
        ("max_output_tokens", 7),
        ("tracing", "auto"),
        ("include", ()),
        ("prompt", {"id": "p"}),
        ("metadata", {"k": "v"}),
        ("parallel_tool_calls", True),
        ("reasoning", {"effort": "low"}),
        ("truncation", "disabled"),
        ("initial_user_text", "x"),
        ("ref_audio", "x"),
        ("idle_timeout_s", 5.0),
        ("overlap_short_ack_ms", 5.0),
        ("overlap_barge_in_ms", 5.0),
        ("overlap_silence_rms", 0.5),
    ],
)
def test_null_returns_a_field_to_its_default(attribute: str, other: Any) -> None:
    config = start(**{attribute: other})
    path = next(paths[0] for name, paths, _ in GOOD if name == attribute)
    assert apply_patch(config, nested(path, None), dialect="duplex") == start()


# path, refused values, path below it that is at fault
BAD: list[tuple[str, list[object], str]] = [
    ("model", ["", "  ", 5, True, ["m"], {}], ""),
    ("instructions", [5, True, ["a"], {"text": "a"}], ""),
    ("output_modalities", [[], ["foo"], ["audio", "foo"], "audio", {"audio": True}, True], ""),
    ("modalities", [["audio", 1]], "[1]"),
    ("audio.output.voice", ["", 5, True, ["ash"]], ""),
    ("voice", ["", 5], ""),
    ("audio.output.voice", [{}, {"id": ""}, {"id": 3}], ".id"),
    ("audio.output.speed", [0.24, 1.51, 0, -1, "1", True, math.nan, math.inf, 10**400, []], ""),
    ("speed", [2], ""),
    ("audio.input.transcription", ["whisper-1", True, []], ""),
    ("audio.input.transcription", [{"model": 5}], ".model"),
    ("input_audio_transcription", [{"language": ["de"]}], ".language"),
    ("audio.input.transcription", [{"keywords": "a"}], ".keywords"),
    ("audio.input.transcription", [{"keywords": ["a", 1]}], ".keywords[1]"),
    ("audio.input.transcription", [{"delay": "slow"}], ".delay"),
    ("audio.input.noise_reduction", ["near_field", 1], ""),
    ("audio.input.noise_reduction", [{"type": "middle_field"}], ".type"),
    ("input_audio_noise_reduction", [{"strength": -1}, {"strength": True}], ".strength"),
    ("tools", [{}, "look", 5, True], ""),
    ("tools", [[5], ["look"]], "[0]"),
    ("tools", [[TOOL, {"type": "function"}], [TOOL, {"name": ""}]], "[1].name"),
    ("tools", [[{"name": name}] for name in ("a b", "a.b", "\u00e4", "a" * 65, "a\n", 5)], "[0].name"),
    ("tools", [[{"name": "a"}, {"name": "b"}, {"name": "a"}]], "[2].name"),
    (
        "tools",
        [[{"type": "mcp", "server_label": "x"}], [{"type": "code_interpreter"}], [{"type": 5, "name": "a"}]],
        "[0].type",
    ),
    ("tools", [[{"name": "a", "parameters": "{}"}]], "[0].parameters"),
    ("tools", [[{"name": "a", "description": 5}]], "[0].description"),
    ("tool_choice", ["any", "", 5, True, []], ""),
    ("tool_choice", [{}, {"type": "mcp", "server_label": "x"}], ".type"),
    ("tool_choice", [{"type": "function"}, {"type": "function", "function": {"name": "a"}}], ".name"),
    ("temperature", [-0.1, 2.1, "1", True, math.nan, []], ""),
    ("max_output_tokens", [0, -1, 1.5, "many", "", True, [], math.inf], ""),
    ("max_response_output_tokens", [0], ""),
    ("max_tokens", [0], ""),
    ("tracing", ["on", 5, True, []], ""),
    ("tracing", [{"group_id": 5}], ".group_id"),
    ("include", ["all", 5, {}], ""),
    ("include", [[5]], "[0]"),
    ("prompt", ["p", 5, []], ""),
    ("prompt", [{}, {"id": ""}, {"variables": {}}], ".id"),
    ("prompt", [{"id": "p", "variables": "x"}], ".variables"),
    ("metadata", ["x", 5, [], True], ""),
    ("metadata", [{"k": 5}, {"k": {}}, {"k": "v" * 513}], ".k"),
    ("metadata", [{str(index): "" for index in range(17)}, {"k" * 65: ""}], ""),
    ("parallel_tool_calls", ["true", 1, []], ""),
    ("reasoning", ["low", 5], ""),
    ("reasoning", [{"effort": "huge"}], ".effort"),
    ("truncation", ["never", 5, True], ""),
    ("truncation", [{}, {"type": "auto"}], ".type"),
    (
        "truncation",
        [{"type": "retention_ratio"}, {"type": "retention_ratio", "retention_ratio": 1.1}],
        ".retention_ratio",
    ),
    ("truncation", [RATIO | {"token_limits": 5}], ".token_limits"),
    ("truncation", [RATIO | {"token_limits": {"post_instructions": -1}}], ".token_limits.post_instructions"),
    ("initial_user_text", [5, ["Hello"]], ""),
    ("ref_audio", ["", 5, {}], ""),
    ("idle_timeout_s", [-1, "300", True, math.inf, 86_401], ""),
    ("overlap_policy", ["sometimes", 5, True], ""),
    ("extra_body.overlap_policy", ["sometimes"], ""),
    ("overlap_short_ack_ms", [-1, "700", True], ""),
    ("extra_body.overlap_short_ack_ms", [-1], ""),
    ("overlap_barge_in_ms", [-1, math.nan], ""),
    ("overlap_silence_rms", [-0.1, 1.1, "x"], ""),
    ("playback_commit_policy", ["always", 5, True], ""),
    ("extra_body.playback_commit_policy", ["always"], ""),
    ("extra_body", ["x", 5, []], ""),
    ("extra_body.auto_response", [1, "true", {}], ""),
    ("audio", ["x", 5, [], True], ""),
    ("audio.input", ["x", 5, []], ""),
    ("audio.output", ["x", 5, []], ""),
    ("type", ["transcription", "translation"], ""),
]


@pytest.mark.parametrize(
    ("path", "value", "below"), [(path, value, below) for path, values, below in BAD for value in values]
)
def test_a_bad_value_is_refused_at_its_path(path: str, value: object, below: str) -> None:
    config = start()
    before = repr(config)
    error = refusal(
        nested(path, value) | {"instructions": "Also."} if path != "instructions" else {path: value}, config
    )
    assert (error.code, error.param) == ("invalid_value", f"session.{path}{below}")
    assert len(error.message) < 400
    assert repr(config) == before


@pytest.mark.parametrize("patch", [None, "x", 5, [], [("model", "x")]])
def test_a_session_is_an_object(patch: object) -> None:
    error = refusal(patch)
    assert (error.code, error.param) == ("invalid_value", "session")


def test_null_containers_and_an_empty_update_change_nothing() -> None:
    config = start()
    patches: tuple[dict[str, Any], ...] = (
        {},
        {"audio": None},
        {"audio": {}},
        {"audio": {"input": None, "output": {}}},
        {"model": None},
    )
    for patch in patches:
        assert apply_patch(config, patch, dialect="duplex") == config
