"""What each Tier 1 field of a session accepts, under OpenAI's GA and beta names.

Audio formats and turn detection, whose parts depend on each other, have files of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from duplex_trio.protocol.realtime import checks
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.function_names import read_function_name, repeated_name
from duplex_trio.protocol.realtime.readers import read_max_output_tokens, read_metadata
from duplex_trio.protocol.realtime.session_patch import DialectName, Field, FieldParser

MIN_SPEED: Final = 0.25
MAX_SPEED: Final = 1.5
MAX_TEMPERATURE: Final = 2.0
MAX_OUTPUT_TOKENS: Final = (1 << 31) - 1
MODALITIES: Final = ("text", "audio")

_INCLUDE: Final = ("item.input_audio_transcription.logprobs",)

Check = Callable[[object, str], object]


def parse_modalities(value: object, param: str, current: object, dialect: DialectName) -> tuple[str, ...]:
    """Return the output modalities in the order (text, audio), whatever order they were sent in.

    GA knows `["audio"]` (speech with its transcript) and `["text"]`. The beta field `modalities` spells the
    first one `["text", "audio"]`, and is read so in a GA session too. The other dialects know all three.
    """
    kinds = set(checks.strings(value, param))
    both = kinds == set(MODALITIES)
    if both and dialect == "ga" and param.endswith(".modalities"):
        kinds, both = {"audio"}, False
    if not kinds or not kinds <= set(MODALITIES) or (both and dialect == "ga"):
        known = '["audio"] or ["text"]' + ("" if dialect == "ga" else ' or ["text", "audio"]')
        raise checks.invalid(value, param, known)
    return tuple(name for name in MODALITIES if name in kinds)


def parse_voice(value: object, param: str, current: object, dialect: DialectName) -> str:
    """Return the voice's name, from a string or an object `{id}`."""
    if isinstance(value, Mapping):
        return checks.name(value.get("id"), f"{param}.id")
    return checks.name(value, param)


def parse_max_output_tokens(value: object, param: str, current: object, dialect: DialectName) -> int | None:
    """Return the limit in tokens, or None for `inf` and its synonyms."""
    try:
        limit = read_max_output_tokens(value)
    except (ValueError, OverflowError):
        raise checks.invalid(value, param, 'a positive whole number or "inf"') from None
    return None if limit == "inf" else limit


def parse_tools(
    value: object, param: str, current: object, dialect: DialectName
) -> tuple[Mapping[str, Any], ...]:
    """Return the function tools; a tool without `type` is a function, other kinds of tool and a second function
    of one name are refused.
    """
    tools = tuple(
        _tool(tool, f"{param}[{index}]") for index, tool in enumerate(checks.sequence(value, param))
    )
    if (index := repeated_name(tools)) is not None:
        path = f"{param}[{index}].name"
        message = f"{path}: there are two functions {tools[index]['name']!r}."
        raise RealtimeError("invalid_value", message, param=path)
    return tools


def parse_tool_choice(
    value: object, param: str, current: object, dialect: DialectName
) -> str | Mapping[str, Any]:
    """Return `auto`, `none`, `required`, or the object that names one function."""
    if isinstance(value, Mapping):
        checks.choice(value.get("type"), f"{param}.type", ("function",))
        return {"type": "function", "name": checks.name(value.get("name"), f"{param}.name")}
    return checks.choice(value, param, ("auto", "none", "required"))


def parse_tracing(
    value: object, param: str, current: object, dialect: DialectName
) -> str | Mapping[str, Any]:
    """Return `auto` or the tracing object, merged into the one in force."""
    if isinstance(value, Mapping):
        return _merged_object(_TRACING, value, param, current)
    return checks.choice(value, param, ("auto",))


def parse_truncation(
    value: object, param: str, current: object, dialect: DialectName
) -> str | Mapping[str, Any]:
    """Return `auto`, `disabled` or a retention ratio object."""
    if not isinstance(value, Mapping):
        return checks.choice(value, param, ("auto", "disabled"))
    checks.choice(value.get("type"), f"{param}.type", ("retention_ratio",))
    parsed = _merged_object(_TRUNCATION, value, param, None)
    checks.number(parsed.get("retention_ratio"), f"{param}.retention_ratio", low=0, high=1)
    return parsed


def parse_prompt(value: object, param: str, current: object, dialect: DialectName) -> Mapping[str, Any]:
    """Return the reference to a prompt template, which replaces the one in force."""
    parsed = _merged_object(_PROMPT, value, param, None)
    checks.name(parsed.get("id"), f"{param}.id")
    return parsed


def parse_metadata(value: object, param: str, current: object, dialect: DialectName) -> Mapping[str, str]:
    """Return the client's own map of strings, within OpenAI's limits; it replaces the one in force."""
    try:
        entries = read_metadata(value)
    except ValueError as error:
        raise RealtimeError("invalid_value", f"{param}: {error}.", param=param) from None
    except RealtimeError as error:
        raise error.with_param(checks.below(param, error.param)) from None
    copied: dict[str, str] = checks.json_copy(entries, param)
    return copied


def parse_include(value: object, param: str, current: object, dialect: DialectName) -> tuple[str, ...]:
    """Return the additional outputs asked for: OpenAI's one name, or any in the duplex dialect."""
    names = checks.strings(value, param)
    if dialect == "duplex":
        return tuple(names)
    return tuple(checks.choice(entry, f"{param}[{index}]", _INCLUDE) for index, entry in enumerate(names))


def plain(check: Callable[..., object], **limits: Any) -> FieldParser:
    """Make a field parser of a check that needs neither the current value nor the dialect."""

    def parse(value: object, param: str, current: object, dialect: DialectName) -> object:
        return check(value, param, **limits)

    return parse


def _merging(schema: Mapping[str, Check]) -> FieldParser:
    def parse(value: object, param: str, current: object, dialect: DialectName) -> object:
        return _merged_object(schema, value, param, current)

    return parse


def _merged_object(schema: Mapping[str, Check], value: object, param: str, current: object) -> dict[str, Any]:
    merged: dict[str, Any] = dict(current) if isinstance(current, Mapping) else {}
    for key, entry in checks.mapping(value, param).items():
        if entry is None:
            merged.pop(key, None)
        elif key in schema:
            merged[key] = schema[key](entry, f"{param}.{key}")
        else:
            merged[key] = entry
    copied: dict[str, Any] = checks.json_copy(merged, param, max_bytes=checks.MAX_ACCUMULATED_BYTES)
    return copied


def _tool(value: object, param: str) -> Mapping[str, Any]:
    tool = dict(checks.mapping(value, param))
    kind = tool.setdefault("type", "function")
    if kind != "function":
        message = f"{param}.type must be function, the only supported kind of tool, not {checks.shown(kind)}."
        raise RealtimeError(code="invalid_value", message=message, param=f"{param}.type")
    _function_name(tool.get("name"), f"{param}.name")
    for key, check in (("description", checks.text), ("parameters", checks.mapping)):
        if tool.get(key) is not None:
            check(tool[key], f"{param}.{key}")
    copied: dict[str, Any] = checks.json_copy(tool, param)
    return copied


def _function_name(value: object, param: str) -> str:
    try:
        return read_function_name(value)
    except ValueError as error:
        raise RealtimeError("invalid_value", f"{param}: {error}.", param=param) from None


def _json(value: object, param: str) -> object:
    return checks.json_copy(value, param)


def _ratio(value: object, param: str) -> float:
    return checks.number(value, param, low=0, high=1)


def _strength(value: object, param: str) -> float:
    return checks.number(value, param, low=0)


def _one_of(*allowed: str) -> Check:
    return lambda value, param: checks.choice(value, param, allowed)


def _token_limits(value: object, param: str) -> Mapping[str, Any]:
    limits = dict(checks.mapping(value, param))
    if limits.get("post_instructions") is not None:
        path = f"{param}.post_instructions"
        limits["post_instructions"] = checks.integer(
            limits["post_instructions"], path, low=0, high=MAX_OUTPUT_TOKENS
        )
    return limits


_TRANSCRIPTION: Final[Mapping[str, Check]] = {
    "model": checks.text,
    "language": checks.text,
    "prompt": checks.text,
    "delay": _one_of("minimal", "low", "medium", "high", "xhigh"),
    "keywords": checks.strings,
    "languages": checks.strings,
}
_NOISE_REDUCTION: Final[Mapping[str, Check]] = {
    "type": _one_of("near_field", "far_field"),
    "strength": _strength,
}
_TRACING: Final[Mapping[str, Check]] = {
    "group_id": checks.text,
    "workflow_name": checks.text,
    "metadata": _json,
}
_REASONING: Final[Mapping[str, Check]] = {"effort": _one_of("minimal", "low", "medium", "high", "xhigh")}
_PROMPT: Final[Mapping[str, Check]] = {
    "id": checks.name,
    "version": checks.text,
    "variables": checks.mapping,
}
_TRUNCATION: Final[Mapping[str, Check]] = {"retention_ratio": _ratio, "token_limits": _token_limits}

TIER1_FIELDS: Final[tuple[Field, ...]] = (
    Field("model", ("model",), plain(checks.name), null="keep"),
    Field("instructions", ("instructions",), plain(checks.text)),
    Field("output_modalities", ("modalities", "output_modalities"), parse_modalities),
    Field("voice", ("audio.output.voice", "voice"), parse_voice),
    Field("speed", ("audio.output.speed", "speed"), plain(checks.number, low=MIN_SPEED, high=MAX_SPEED)),
    Field(
        "transcription", ("audio.input.transcription", "input_audio_transcription"), _merging(_TRANSCRIPTION)
    ),
    Field(
        "noise_reduction",
        ("audio.input.noise_reduction", "input_audio_noise_reduction"),
        _merging(_NOISE_REDUCTION),
    ),
    Field("tools", ("tools",), parse_tools),
    Field("tool_choice", ("tool_choice",), parse_tool_choice),
    Field("temperature", ("temperature",), plain(checks.number, low=0, high=MAX_TEMPERATURE)),
    Field(
        "max_output_tokens",
        ("max_response_output_tokens", "max_output_tokens", "max_tokens"),
        parse_max_output_tokens,
        skip_null=True,
    ),
    Field("tracing", ("tracing",), parse_tracing),
    Field("include", ("include",), parse_include),
    Field("prompt", ("prompt",), parse_prompt),
    Field("metadata", ("metadata",), parse_metadata),
    Field("parallel_tool_calls", ("parallel_tool_calls",), plain(checks.flag)),
    Field("reasoning", ("reasoning",), _merging(_REASONING)),
    Field("truncation", ("truncation",), parse_truncation),
)
"""The fields of OpenAI's session object whose values stand for themselves."""
