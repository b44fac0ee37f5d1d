"""The Tier 1 session: its effective configuration, and OpenAI's GA and beta session objects made of it.

Updates are read in `session_patch.py` and `session_fields.py`; the fields of Tier 2 and 3, the order of
checks and the locks are `duplex/session.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import Factory, frozen

from duplex_trio.protocol.realtime import checks
from duplex_trio.protocol.realtime.formats import (
    DEFAULT_FORMAT,
    AudioFormat,
    Direction,
    is_ga_name,
    parse_format,
    wire_format,
)
from duplex_trio.protocol.realtime.session_patch import ROOT, DialectName, PatchReader
from duplex_trio.protocol.realtime.turn_detection import ServerVad, TurnDetection, render_turn_detection

__all__ = ["DialectName", "SessionConfig", "read_formats", "render_beta", "render_ga"]

_INPUT_FORMATS: Final = ("audio.input.format", "input_audio_format")
_OUTPUT_FORMATS: Final = ("audio.output.format", "output_audio_format", "response_format")
_INPUT_RATES: Final = (
    "sample_rate_hz",
    "sample_rate",
    "audio.input.sample_rate_hz",
    "audio.input.sample_rate",
)
_OUTPUT_RATES: Final = ("audio.output.sample_rate_hz", "audio.output.sample_rate")


@frozen(kw_only=True)
class SessionConfig:
    """What a session does, every default filled in.

    Values are checked; mappings are JSON and never changed in place.
    `output_modalities` with `audio` means speech with its transcript. `max_output_tokens` None is no limit.
    `unknown` holds what the client sent beyond the known fields, to be echoed.

    Attributes:
        model: any name is taken for the served model.
        instructions: the system prompt.
        output_modalities: `audio` for speech with its transcript, `text` for text.
        voice: the voice's name.
        speed: 0.25 to 1.5; 1 as the voice speaks.
        input_format: encoding and rate of the client's sound.
        output_format: encoding and rate of the answers' sound.
        turn_detection: what ends the user's turn: `server_vad` or `semantic_vad`; null for commits by hand.
        transcription: how input is transcribed; of it `language` has an effect.
        noise_reduction: kept and shown; without effect.
        tools: functions that the model may call.
        tool_choice: `auto`, `none`, `required`, or one function.
        temperature: 0 to 2; null for the model's own.
        max_output_tokens: bound of one answer; `inf` for the model's own.
        tracing: kept and shown; without effect.
        include: kept and shown; without effect.
        prompt: kept and shown; without effect.
        metadata: the client's own strings; kept and shown.
        parallel_tool_calls: false for one call at most.
        reasoning: kept and shown; without effect.
        truncation: what is left out of a conversation that is too long to read.
        unknown: fields that nobody knows, kept and shown.
    """

    model: str
    instructions: str | None = None
    output_modalities: tuple[str, ...] = ("audio",)
    voice: str | None = None
    speed: float = 1.0
    input_format: AudioFormat = DEFAULT_FORMAT
    output_format: AudioFormat = DEFAULT_FORMAT
    turn_detection: TurnDetection | None = Factory(ServerVad)
    transcription: Mapping[str, Any] | None = None
    noise_reduction: Mapping[str, Any] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] = "auto"
    temperature: float | None = None
    max_output_tokens: int | None = None
    tracing: str | Mapping[str, Any] | None = None
    include: tuple[str, ...] | None = None
    prompt: Mapping[str, Any] | None = None
    metadata: Mapping[str, str] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Mapping[str, Any] | None = None
    truncation: str | Mapping[str, Any] = "auto"
    unknown: Mapping[str, Any] = Factory(dict)

    @property
    def speaks(self) -> bool:
        """Whether answers are spoken."""
        return "audio" in self.output_modalities

    @property
    def spoken_language(self) -> str | None:
        """The language that the user is said to speak; None when it is unknown or one of several."""
        said = self.transcription or {}
        several: Sequence[Any] = said.get("languages") or ()
        language = said.get("language") or (several[0] if len(several) == 1 else None)
        return language if isinstance(language, str) else None


def read_formats(
    reader: PatchReader, config: SessionConfig, defaults: SessionConfig, dialect: DialectName
) -> dict[str, AudioFormat]:
    """Return `input_format` and `output_format` after an update, each only if the update touches it.

    A rate beside the format wins over the rate inside it; a null format is the default one. Raises
    RealtimeError as `parse_format` does.
    """
    directions: tuple[tuple[Direction, tuple[str, ...], tuple[str, ...]], ...] = (
        ("input", _INPUT_FORMATS, _INPUT_RATES),
        ("output", _OUTPUT_FORMATS, _OUTPUT_RATES),
    )
    changes: dict[str, AudioFormat] = {}
    for direction, formats, rates in directions:
        declared = reader.find(*formats)
        rate = reader.find(*rates, skip_null=True)
        if declared is None and (rate is None or rate.value is None):
            continue
        attribute = f"{direction}_format"
        current = config if declared is None or declared.value is not None else defaults
        changes[attribute] = parse_format(
            None if declared is None else declared.value,
            direction=direction,
            rate=None if rate is None else rate.value,
            param=ROOT if declared is None else declared.param,
            rate_param=ROOT if rate is None else rate.param,
            current=getattr(current, attribute),
            duplex_names=dialect == "duplex",
        )
    return changes


def render_ga(config: SessionConfig, session_id: str, *, extended: bool = False) -> dict[str, Any]:
    """Render the GA session object as plain JSON types.

    `extended` adds to turn detection what OpenAI's schema does not have. A format that the client declared
    under another than its GA name is echoed under that name too, in the flat field.
    """
    rendered: dict[str, Any] = {
        **{key: value for key, value in config.unknown.items() if key != "audio"},
        "type": "realtime",
        "object": "realtime.session",
        "id": session_id,
        "model": config.model,
        "output_modalities": config.output_modalities,
        "instructions": config.instructions,
        "tools": config.tools,
        "tool_choice": config.tool_choice,
        "max_output_tokens": _token_limit(config),
        "tracing": config.tracing,
        "truncation": config.truncation,
        "prompt": config.prompt,
        "include": config.include,
        "audio": _audio(config, extended),
    }
    for direction, fmt in (("input", config.input_format), ("output", config.output_format)):
        if not is_ga_name(fmt):
            rendered[f"{direction}_audio_format"] = fmt.spelled
    return _plain(rendered | _when_set(config, "temperature", "metadata", "parallel_tool_calls", "reasoning"))


def render_beta(config: SessionConfig, session_id: str) -> dict[str, Any]:
    """Render the flat session object of the beta dialect as plain JSON types."""
    rendered: dict[str, Any] = {
        **config.unknown,
        "object": "realtime.session",
        "id": session_id,
        "model": config.model,
        "modalities": config.output_modalities,
        "instructions": config.instructions,
        "voice": config.voice,
        "speed": config.speed,
        "input_audio_format": config.input_format.spelled,
        "output_audio_format": config.output_format.spelled,
        "input_audio_transcription": config.transcription,
        "input_audio_noise_reduction": config.noise_reduction,
        "turn_detection": _beta_turn_detection(config),
        "tools": config.tools,
        "tool_choice": config.tool_choice,
        "temperature": config.temperature,
        "max_response_output_tokens": _token_limit(config),
        "tracing": config.tracing,
    }
    optional = ("include", "prompt", "metadata", "parallel_tool_calls", "reasoning")
    return _plain(rendered | _when_set(config, *optional))


def _audio(config: SessionConfig, extended: bool) -> dict[str, Any]:
    unknown = config.unknown.get("audio", {})
    audio_input = {
        "format": wire_format(config.input_format),
        "transcription": config.transcription,
        "noise_reduction": config.noise_reduction,
        "turn_detection": render_turn_detection(config.turn_detection, extended=extended),
    }
    audio_output = {"format": wire_format(config.output_format), "voice": config.voice, "speed": config.speed}
    return {
        **unknown,
        "input": {**unknown.get("input", {}), **audio_input},
        "output": {**unknown.get("output", {}), **audio_output},
    }


def _beta_turn_detection(config: SessionConfig) -> dict[str, Any] | None:
    rendered = render_turn_detection(config.turn_detection)
    if rendered is not None and rendered.get("idle_timeout_ms") is None:
        rendered.pop("idle_timeout_ms", None)
    return rendered


def _token_limit(config: SessionConfig) -> int | str:
    return "inf" if config.max_output_tokens is None else config.max_output_tokens


def _when_set(config: SessionConfig, *names: str) -> dict[str, Any]:
    values = {name: getattr(config, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _plain(rendered: dict[str, Any]) -> dict[str, Any]:
    # A copy: what a receiver does to the object must not reach the configuration.
    copied: dict[str, Any] = checks.json_copy(rendered, ROOT)
    return copied
