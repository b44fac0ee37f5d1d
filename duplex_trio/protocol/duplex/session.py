"""How updates change a duplex session's configuration, and the session object of each dialect made of it.

An update is all or nothing: `apply_patch` returns a new configuration or raises. When to call it, and what
follows from a change (a new detector, a new decoder), is the session's business; what a model allows beyond
the locks is its plugin's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from attrs import evolve

from duplex_trio.protocol.duplex.session_config import (
    DEFAULT_IDLE_TIMEOUT_S,
    NO_LOCKS,
    DuplexSessionConfig,
    OverlapPolicy,
    SessionDefaults,
    SessionLocks,
    SessionState,
)
from duplex_trio.protocol.realtime import checks
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.formats import DEFAULT_PCM_RATE_HZ, AudioFormat
from duplex_trio.protocol.realtime.session import read_formats, render_beta, render_ga
from duplex_trio.protocol.realtime.session_fields import TIER1_FIELDS, plain
from duplex_trio.protocol.realtime.session_patch import (
    DialectName,
    Field,
    Found,
    PatchReader,
    merge_unknown,
    read_fields,
)
from duplex_trio.protocol.realtime.turn_detection import (
    CODE as TURN_DETECTION_CODE,
)
from duplex_trio.protocol.realtime.turn_detection import (
    SemanticVad,
    ServerVad,
    TurnDetection,
    merge_turn_detection,
    render_turn_detection,
)

__all__ = [
    "DialectName",
    "DuplexSessionConfig",
    "OverlapPolicy",
    "SemanticVad",
    "ServerVad",
    "SessionDefaults",
    "SessionLocks",
    "SessionState",
    "TurnDetection",
    "apply_patch",
    "default_config",
    "render_session",
    "session_fields",
]

MAX_IDLE_TIMEOUT_S: Final = 86_400.0
_MAX_OVERLAP_MS: Final = 600_000

_OVERLAP_POLICIES: Final = ("listen_only", "barge_in_on_speech", "by_duration")
_COMMIT_POLICIES: Final = ("commit_all_on_done", "ack_only")


def default_config(defaults: SessionDefaults, dialect: DialectName) -> DuplexSessionConfig:
    """Return the configuration in force before the client has declared anything.

    pcm16 at 24000 Hz both ways; server_vad that answers and interrupts, except in a duplex session whose
    model owns its turns; spoken answers (in GA that is `["audio"]`, elsewhere `["text", "audio"]`). OpenAI
    sessions, whose clients send no playback acks, count a finished answer as heard; duplex sessions count
    what is acknowledged.
    """
    detection = None if dialect == "duplex" and defaults.owns_turns else _server_vad(defaults)
    sound = AudioFormat("pcm16", DEFAULT_PCM_RATE_HZ, "audio/pcm" if dialect == "ga" else "pcm16")
    return DuplexSessionConfig(
        model=defaults.model,
        instructions=defaults.instructions,
        output_modalities=("audio",) if dialect == "ga" else ("text", "audio"),
        voice=defaults.voice,
        input_format=sound,
        output_format=sound,
        turn_detection=detection,
        temperature=defaults.temperature,
        defaults=defaults,
        idle_timeout_s=defaults.idle_timeout_s,
        overlap_policy=_overlap_of(detection),
        playback_commit_policy="ack_only" if dialect == "duplex" else "commit_all_on_done",
        extra_body=dict(defaults.extra_body),
    )


def apply_patch(
    config: DuplexSessionConfig,
    patch: Mapping[str, Any],
    *,
    dialect: DialectName,
    locked: SessionLocks = NO_LOCKS,
) -> DuplexSessionConfig:
    """Return the configuration after a `session.update` whose session object is `patch`.

    GA paths and flat names are both read in every dialect; where both are present the GA path wins. Absent
    fields stay, null returns a field to its default (for `turn_detection`: off), unknown keys are kept.

    Raises:
        RealtimeError: with the path of the field at fault, `session.audio.output.speed` for example, as
        `param`;
            `invalid_value`, or `bad_event` (rates), `unsupported_audio_format`, `unsupported_turn_detection`,
            `invalid_duplex_runtime_config`, `cannot_update_voice`, `instructions_update_unsupported`,
            `ref_audio_update_unsupported`.
    """
    reader = PatchReader(patch)
    _check_type(reader)
    defaults = default_config(config.defaults, dialect)
    changes: dict[str, Any] = dict(read_formats(reader, config, defaults, dialect))
    changes |= _turn_taking(reader, config)
    found = read_fields(TIER1_FIELDS + _DUPLEX_FIELDS, reader, config, defaults, dialect)
    found.pop("playback_commit_policy", None)
    changes |= {name: field.value for name, field in found.items()}
    extra = reader.find("extra_body")
    if extra is not None:
        changes["extra_body"] = _extra_body(extra, config)
    rest = reader.rest()
    if rest:
        changes["unknown"] = merge_unknown(config.unknown, rest)
    changed = evolve(config, **changes)
    _check_locks(config, changed, locked, found)
    return changed


def render_session(
    config: DuplexSessionConfig, *, dialect: DialectName, state: SessionState
) -> dict[str, Any]:
    """Render the effective session object as plain JSON types, owned by the caller.

    GA: OpenAI's nested form. Beta: the flat form. Duplex: the nested form, the flat names beside it, and
    `state`.
    """
    if dialect == "ga":
        return render_ga(config, state.session_id)
    if dialect == "beta":
        return render_beta(config, state.session_id)
    rendered = render_ga(config, state.session_id, extended=True)
    rendered["audio"]["input"]["sample_rate_hz"] = config.input_format.sample_rate_hz
    rendered |= _flat_fields(config) | _state_fields(state)
    copied: dict[str, Any] = checks.json_copy(rendered, "session")
    return copied


def session_fields() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The fields of a session that a client may set, each with where it is read; the first that is there wins."""
    formats = (
        ("input_format", ("audio.input.format", "input_audio_format")),
        ("output_format", ("audio.output.format", "output_audio_format", "response_format")),
        ("turn_detection", ("audio.input.turn_detection", "turn_detection")),
        ("overlap_policy", ("extra_body.overlap_policy", "overlap_policy")),
        ("extra_body", ("extra_body",)),
    )
    return (*((known.name, known.paths) for known in TIER1_FIELDS + _DUPLEX_FIELDS), *formats)


def _check_type(reader: PatchReader) -> None:
    kind = reader.find("type")
    if kind is not None and kind.value in ("transcription", "translation"):
        raise checks.invalid(kind.value, kind.param, "realtime")


def _server_vad(defaults: SessionDefaults) -> ServerVad:
    return ServerVad(silence_duration_ms=defaults.silence_duration_ms)


def _overlap_of(detection: TurnDetection | None) -> OverlapPolicy:
    return "barge_in_on_speech" if detection is not None and detection.interrupt_response else "listen_only"


def _turn_taking(reader: PatchReader, config: DuplexSessionConfig) -> dict[str, Any]:
    """Return turn detection and overlap policy after the update, which always agree."""
    found = reader.find("audio.input.turn_detection", "turn_detection")
    detection = config.turn_detection
    if found is not None:
        detection = merge_turn_detection(
            detection, found.value, found.param, default_silence_ms=config.defaults.silence_duration_ms
        )
    named = reader.find("extra_body.overlap_policy", "overlap_policy")
    by_duration = named is None and config.overlap_policy == "by_duration"
    if named is not None and named.value is not None:
        wanted = cast(OverlapPolicy, checks.choice(named.value, named.param, _OVERLAP_POLICIES))
        by_duration = wanted == "by_duration" and detection is None
        if wanted != _overlap_of(detection) and not by_duration:
            if found is not None or detection is None or wanted == "by_duration":
                raise _conflict(wanted, detection, named.param)
            detection = evolve(detection, interrupt_response=wanted == "barge_in_on_speech")
    policy = "by_duration" if by_duration and detection is None else _overlap_of(detection)
    return {"turn_detection": detection, "overlap_policy": policy}


def _conflict(wanted: str, detection: TurnDetection | None, param: str) -> RealtimeError:
    if detection is None:
        message = "overlap_policy barge_in_on_speech needs turn_detection, which is off."
    elif wanted == "by_duration":
        message = "overlap_policy by_duration is for sessions without turn_detection."
    else:
        message = f"overlap_policy {wanted} contradicts turn_detection.interrupt_response."
    return RealtimeError(code=TURN_DETECTION_CODE, message=message, param=param)


def _extra_body(found: Found, config: DuplexSessionConfig) -> Mapping[str, Any]:
    if found.value is None:
        return dict(config.defaults.extra_body)
    merged = dict(config.extra_body)
    for key, value in checks.mapping(found.value, found.param).items():
        if key in config.defaults.private_extra_body_keys:
            message = f"{found.param}.{key} is set by the server only."
            raise RealtimeError(
                code="invalid_duplex_runtime_config", message=message, param=f"{found.param}.{key}"
            )
        if key in _REPEATED_IN_EXTRA_BODY:
            continue
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = checks.flag(value, f"{found.param}.{key}") if key == "auto_response" else value
    copied: dict[str, Any] = checks.json_copy(merged, found.param, max_bytes=checks.MAX_ACCUMULATED_BYTES)
    return copied


def _check_locks(
    before: DuplexSessionConfig, after: DuplexSessionConfig, locked: SessionLocks, found: Mapping[str, Found]
) -> None:
    rules = (
        (
            "voice",
            locked.voice_spoken,
            "cannot_update_voice",
            "The voice cannot be changed once it has spoken.",
        ),
        (
            "instructions",
            locked.context_locked,
            "instructions_update_unsupported",
            "This model cannot take other instructions once it has heard sound.",
        ),
        (
            "ref_audio",
            locked.ref_audio,
            "ref_audio_update_unsupported",
            "The reference audio of a session cannot be changed.",
        ),
    )
    for name, is_locked, code, message in rules:
        if is_locked and name in found and getattr(before, name) != getattr(after, name):
            raise RealtimeError(code=code, message=message, param=found[name].param)


def _flat_fields(config: DuplexSessionConfig) -> dict[str, Any]:
    flat: dict[str, Any] = {
        "modalities": config.output_modalities,
        "voice": config.voice,
        "speed": config.speed,
        "temperature": config.temperature,
        "max_tokens": config.max_output_tokens,
        "input_audio_format": config.input_format.spelled,
        "output_audio_format": config.output_format.spelled,
        "response_format": "wav" if config.output_format.encoding == "wav" else "pcm",
        "turn_detection": render_turn_detection(config.turn_detection, extended=True),
        "input_audio_transcription": config.transcription,
        "input_audio_noise_reduction": config.noise_reduction,
        "idle_timeout_s": config.idle_timeout_s,
        "overlap_policy": config.overlap_policy,
        "overlap_short_ack_ms": config.overlap_short_ack_ms,
        "overlap_barge_in_ms": config.overlap_barge_in_ms,
        "overlap_silence_rms": config.overlap_silence_rms,
        "playback_commit_policy": config.playback_commit_policy,
    }
    return flat


def _state_fields(state: SessionState) -> dict[str, Any]:
    return {
        "state": state.state,
        "turn_state": state.turn_state,
        "epoch": state.epoch,
        "turn_id": state.turn_id,
        "active_request_id": state.active_request_id,
        "active_response_id": state.active_response_id,
        "active_response_turn_id": state.active_response_turn_id,
        "playback": dict(state.playback),
        "capabilities": dict(state.capabilities),
    }


def _idle_timeout(value: object, param: str, current: Any, dialect: DialectName) -> float:
    # Zero asks for the default, as leaving the field out does.
    return checks.number(value, param, low=0, high=MAX_IDLE_TIMEOUT_S) or DEFAULT_IDLE_TIMEOUT_S


def _overlap_field(name: str, high: float) -> Field:
    return Field(name, (f"extra_body.{name}", name), plain(checks.number, low=0, high=high))


_DUPLEX_FIELDS: Final = (
    Field("initial_user_text", ("initial_user_text",), plain(checks.text)),
    Field("ref_audio", ("ref_audio",), plain(checks.name)),
    Field("idle_timeout_s", ("idle_timeout_s",), _idle_timeout),
    _overlap_field("overlap_short_ack_ms", _MAX_OVERLAP_MS),
    _overlap_field("overlap_barge_in_ms", _MAX_OVERLAP_MS),
    _overlap_field("overlap_silence_rms", 1.0),
    Field(
        "playback_commit_policy",
        ("extra_body.playback_commit_policy", "playback_commit_policy"),
        plain(checks.choice, allowed=_COMMIT_POLICIES),
    ),
)
_REPEATED_IN_EXTRA_BODY: Final = frozenset(
    {
        "overlap_policy",
        "overlap_short_ack_ms",
        "overlap_barge_in_ms",
        "overlap_silence_rms",
        "playback_commit_policy",
    }
)
