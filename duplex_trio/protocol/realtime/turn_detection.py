"""What ends the user's turn: the settings of server_vad and semantic_vad, and how updates merge into them.

Only the settings live here, checked and complete; the detection itself works elsewhere from these numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, cast

from attrs import asdict, evolve, frozen

from duplex_trio.protocol.realtime import checks
from duplex_trio.protocol.realtime.errors import RealtimeError

CODE: Final = "unsupported_turn_detection"

DEFAULT_SILENCE_DURATION_MS: Final = 500
"""OpenAI's default; a model may bring another one."""
MAX_DURATION_MS: Final = 60_000
"""Longest padding, silence or minimal speech; it bounds the sound that a detector keeps."""
MAX_IDLE_TIMEOUT_MS: Final = 3_600_000
MIN_THRESHOLD: Final = 0.15
"""Speech ends 0.15 below the threshold (hysteresis), so the threshold must be above that."""
FRAME_MS: Final = 32
"""A detector frame: speech shorter than one cannot be told apart."""

Eagerness = Literal["low", "medium", "high", "auto"]

_TIMEOUTS_S: Final[dict[Eagerness, float]] = {"low": 8.0, "medium": 4.0, "high": 2.0, "auto": 4.0}


@frozen(kw_only=True)
class ServerVad:
    """Speech and silence decide. Durations are milliseconds of sound.

    `idle_timeout_ms`, when set, is how long after an answer has been played a silent user is prompted again.
    """

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = DEFAULT_SILENCE_DURATION_MS
    min_speech_duration_ms: int = 96
    create_response: bool = True
    interrupt_response: bool = True
    idle_timeout_ms: int | None = None


@frozen(kw_only=True)
class SemanticVad:
    """What was said decides: a complete sentence ends the turn, else `timeout_s` of quiet does."""

    eagerness: Eagerness = "auto"
    create_response: bool = True
    interrupt_response: bool = True

    @property
    def timeout_s(self) -> float:
        """Longest silence before the turn ends anyway: low 8, medium and auto 4, high 2 seconds."""
        return _TIMEOUTS_S[self.eagerness]


TurnDetection = ServerVad | SemanticVad


def merge_turn_detection(
    current: TurnDetection | None,
    patch: object,
    param: str,
    *,
    default_silence_ms: int = DEFAULT_SILENCE_DURATION_MS,
) -> TurnDetection | None:
    """Return the settings in force after an update of `turn_detection`.

    A null patch turns detection off. An object changes the fields it names and leaves the others; a null
    field returns to its default. Without `type` the current type stays; another type starts from that type's
    defaults. `default_silence_ms` is the model's default for `silence_duration_ms`.

    Raises:
        RealtimeError: `unsupported_turn_detection` with the path of the field at fault below `param`: an
        unknown type or
            field, a wrong type of value or one out of range, or no type while detection is off.
    """
    if patch is None:
        return None
    fields = checks.mapping(patch, param, code=CODE)
    base = _base(current, fields.get("type"), param, default_silence_ms)
    parsers = _SERVER_FIELDS if isinstance(base, ServerVad) else _SEMANTIC_FIELDS
    defaults = _default(base, default_silence_ms)
    changes: dict[str, Any] = {}
    for key, value in fields.items():
        if key == "type":
            continue
        path = checks.below(param, key)
        if value is None and key in _ALL_FIELDS:
            if key in parsers:
                changes[key] = getattr(defaults, key)
        elif key in parsers:
            changes[key] = parsers[key](value, path)
        else:
            raise _unknown(base, key, path)
    return evolve(base, **changes)


def render_turn_detection(settings: TurnDetection | None, *, extended: bool = False) -> dict[str, Any] | None:
    """Render the settings as the wire object with its `type`; null when off.

    `extended` adds `min_speech_duration_ms`, which OpenAI's schema does not have.
    """
    if settings is None:
        return None
    kind = "server_vad" if isinstance(settings, ServerVad) else "semantic_vad"
    rendered = {"type": kind, **asdict(settings)}
    if not extended:
        rendered.pop("min_speech_duration_ms", None)
    return rendered


def _base(current: TurnDetection | None, kind: object, param: str, default_silence_ms: int) -> TurnDetection:
    if kind is None:
        if current is None:
            message = f"{param}.type is required while turn detection is off: server_vad or semantic_vad."
            raise RealtimeError(code=CODE, message=message, param=f"{param}.type")
        return current
    checks.choice(kind, f"{param}.type", ("server_vad", "semantic_vad"), code=CODE)
    if kind == "semantic_vad":
        return current if isinstance(current, SemanticVad) else SemanticVad()
    return current if isinstance(current, ServerVad) else ServerVad(silence_duration_ms=default_silence_ms)


def _default(base: TurnDetection, default_silence_ms: int) -> TurnDetection:
    return ServerVad(silence_duration_ms=default_silence_ms) if isinstance(base, ServerVad) else SemanticVad()


def _unknown(base: TurnDetection, key: object, path: str) -> RealtimeError:
    parsers, kind = (
        (_SERVER_FIELDS, "server_vad") if isinstance(base, ServerVad) else (_SEMANTIC_FIELDS, "semantic_vad")
    )
    message = f"{kind} has no field {checks.shown(key)}. Its fields: {', '.join(parsers)}."
    return RealtimeError(code=CODE, message=message, param=path)


def _threshold(value: object, param: str) -> float:
    return checks.number(value, param, low=MIN_THRESHOLD, high=1.0, above=True, code=CODE)


def _duration(value: object, param: str) -> int:
    return round(checks.number(value, param, low=0, high=MAX_DURATION_MS, code=CODE))


def _min_speech(value: object, param: str) -> int:
    return max(_duration(value, param), FRAME_MS)


def _idle_timeout(value: object, param: str) -> int:
    return checks.integer(value, param, low=1, high=MAX_IDLE_TIMEOUT_MS, code=CODE)


def _flag(value: object, param: str) -> bool:
    return checks.flag(value, param, code=CODE)


def _eagerness(value: object, param: str) -> Eagerness:
    return cast(Eagerness, checks.choice(value, param, _TIMEOUTS_S, code=CODE))


_Parser = Callable[[object, str], object]

_SERVER_FIELDS: Final[Mapping[str, _Parser]] = {
    "threshold": _threshold,
    "prefix_padding_ms": _duration,
    "silence_duration_ms": _duration,
    "min_speech_duration_ms": _min_speech,
    "create_response": _flag,
    "interrupt_response": _flag,
    "idle_timeout_ms": _idle_timeout,
}
_SEMANTIC_FIELDS: Final[Mapping[str, _Parser]] = {
    "eagerness": _eagerness,
    "create_response": _flag,
    "interrupt_response": _flag,
}
# Clients whose one settings class covers both types send the other type's fields as null.
_ALL_FIELDS: Final = frozenset(_SERVER_FIELDS) | frozenset(_SEMANTIC_FIELDS)
