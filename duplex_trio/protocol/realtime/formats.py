"""Audio formats as clients declare them: their many spellings, their rates, and how they are spelled back.

Conversion of sound is `audio.py`'s work; this file only knows names and numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from attrs import evolve, frozen

from duplex_trio.protocol.realtime import checks
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.readers import MAX_SAMPLE_RATE_HZ, MIN_SAMPLE_RATE_HZ, read_sample_rate

Encoding = Literal["pcm16", "pcm_f32le", "g711_ulaw", "g711_alaw", "wav"]
Direction = Literal["input", "output"]

DEFAULT_PCM_RATE_HZ: Final = 24_000
"""Rate of PCM that declares none: what OpenAI's `audio/pcm` and `pcm16` mean."""
G711_RATE_HZ: Final = 8000
"""Rate of G.711 that declares none (ITU-T G.711)."""

_BYTES_PER_SAMPLE: Final[dict[Encoding, int]] = {
    "pcm16": 2,
    "pcm_f32le": 4,
    "g711_ulaw": 1,
    "g711_alaw": 1,
    "wav": 2,
}
_GA_TYPES: Final[dict[Encoding, str]] = {
    "pcm16": "audio/pcm",
    "pcm_f32le": "audio/pcm_f32le",
    "g711_ulaw": "audio/pcmu",
    "g711_alaw": "audio/pcma",
    "wav": "audio/wav",
}
_SPELLINGS: Final[dict[str, Encoding]] = {
    **dict.fromkeys(("audio/pcm", "pcm", "audio/pcm16", "pcm16", "pcm_s16le", "s16le"), "pcm16"),
    **dict.fromkeys(("audio/pcm_f32le", "pcm_f32le", "f32le"), "pcm_f32le"),
    **dict.fromkeys(
        ("audio/pcmu", "audio/g711_ulaw", "g711_ulaw", "g711-ulaw", "ulaw", "mulaw"), "g711_ulaw"
    ),
    **dict.fromkeys(("audio/pcma", "audio/g711_alaw", "g711_alaw", "g711-alaw", "alaw"), "g711_alaw"),
    **dict.fromkeys(("audio/wav", "wav"), "wav"),
}
# A hyphenated name in an OpenAI session is a misspelling that has turned telephone sound into noise; only the
# duplex dialect, which documents these names, reads them.
_DUPLEX_ONLY: Final = frozenset({"g711-ulaw", "g711-alaw"})
_ENCODINGS: Final[dict[Direction, frozenset[Encoding]]] = {
    "input": frozenset({"pcm16", "pcm_f32le", "g711_ulaw", "g711_alaw"}),
    "output": frozenset({"pcm16", "wav", "g711_ulaw", "g711_alaw"}),
}


@frozen
class AudioFormat:
    """One direction's sound format: mono, little-endian, `sample_rate_hz` samples per second.

    `spelled` is the name the client used (in lower case), to be echoed to it.
    """

    encoding: Encoding
    sample_rate_hz: int
    spelled: str

    @property
    def bytes_per_sample(self) -> int:
        """Bytes of one sample; of the payload behind the header for `wav`."""
        return _BYTES_PER_SAMPLE[self.encoding]

    @property
    def bytes_per_ms(self) -> float:
        """Bytes of one millisecond of sound, without any header."""
        return self.sample_rate_hz * self.bytes_per_sample / 1000

    def duration_ms(self, n_bytes: int) -> float:
        """Milliseconds that `n_bytes` of sound last, not counting headers."""
        return n_bytes * 1000 / (self.sample_rate_hz * self.bytes_per_sample)


DEFAULT_FORMAT: Final = AudioFormat("pcm16", DEFAULT_PCM_RATE_HZ, "audio/pcm")
"""What is in force in both directions when a client declares nothing."""


def supported_formats(direction: Direction, *, duplex_names: bool = True) -> list[str]:
    """Return every spelling read in `direction`, grouped by encoding."""
    return [name for name in _SPELLINGS if _read(name, direction, duplex_names) is not None]


def parse_rate(value: object, param: str) -> int | None:
    """Return a declared sample rate in Hz; null and 0 declare none.

    Raises:
        RealtimeError: `bad_event` unless it is a whole number from 8000 to 192000.
    """
    if value is None:
        return None
    try:
        return read_sample_rate(value)
    except (ValueError, OverflowError):
        expected = f"a whole number from {MIN_SAMPLE_RATE_HZ} to {MAX_SAMPLE_RATE_HZ}"
        raise checks.invalid(value, param, expected, code="bad_event") from None


def parse_format(
    value: object,
    *,
    direction: Direction,
    rate: object = None,
    param: str,
    rate_param: str = "sample_rate_hz",
    current: AudioFormat | None = None,
    duplex_names: bool = True,
) -> AudioFormat:
    """Read a format declaration: a name, or an object `{type|format, rate|sample_rate_hz|sample_rate}`.

    `value` None declares no encoding. `rate`, a rate declared outside of `value` under `rate_param`, wins
    over the object's own. What is left out is taken from `current` (its encoding; its rate, if the encoding
    stays), else from the defaults: pcm16 at 24000 Hz, G.711 at 8000 Hz. `duplex_names` False reads no
    hyphenated G.711 names.

    Raises:
        RealtimeError: `unsupported_audio_format` with the supported names, or `bad_event` for a rate.
    """
    spelled, own_rate, own_param = _declared(value, param)
    encoding = _named(spelled, direction, param, duplex_names) if spelled is not None else None
    rate_hz = parse_rate(rate, rate_param) or parse_rate(own_rate, own_param)
    if encoding is None or spelled is None:
        base = current or DEFAULT_FORMAT
        return base if rate_hz is None else evolve(base, sample_rate_hz=rate_hz)
    if rate_hz is None:
        kept = current is not None and current.encoding == encoding
        rate_hz = current.sample_rate_hz if kept and current is not None else default_rate_hz(encoding)
    return AudioFormat(encoding, rate_hz, spelled.strip().lower())


def default_rate_hz(encoding: Encoding) -> int:
    """Return the rate in Hz of an encoding declared without one."""
    return G711_RATE_HZ if encoding in ("g711_ulaw", "g711_alaw") else DEFAULT_PCM_RATE_HZ


def wire_format(fmt: AudioFormat) -> dict[str, Any]:
    """Render the GA object: `{"type": "audio/pcm", "rate": 24000}`, `{"type": "audio/pcmu"}`.

    G.711 carries a rate only when the client declared another one than 8000 Hz, because OpenAI's type has
    none.
    """
    rendered: dict[str, Any] = {"type": _GA_TYPES[fmt.encoding]}
    if not (default_rate_hz(fmt.encoding) == fmt.sample_rate_hz == G711_RATE_HZ):
        rendered["rate"] = fmt.sample_rate_hz
    return rendered


def is_ga_name(fmt: AudioFormat) -> bool:
    """Tell whether the client used the very name that `wire_format` gives back."""
    return fmt.spelled == _GA_TYPES[fmt.encoding]


def _declared(value: object, param: str) -> tuple[str | None, object, str]:
    if value is None or isinstance(value, str):
        return value, None, param
    if not isinstance(value, Mapping):
        message = f"{param} must be a format name or an object with a type, not {checks.shown(value)}."
        raise RealtimeError(code="unsupported_audio_format", message=message, param=param)
    spelled = value.get("type")
    if spelled is None:
        spelled = value.get("format")
    if spelled is not None and not isinstance(spelled, str):
        raise checks.invalid(spelled, f"{param}.type", "a format name", code="unsupported_audio_format")
    for key in ("rate", "sample_rate_hz", "sample_rate"):
        if value.get(key) is not None:
            return spelled, value[key], f"{param}.{key}"
    return spelled, None, param


def _named(spelled: str, direction: Direction, param: str, duplex_names: bool) -> Encoding:
    encoding = _read(spelled.strip().lower(), direction, duplex_names)
    if encoding is None:
        names = ", ".join(supported_formats(direction, duplex_names=duplex_names))
        message = f"Unsupported {direction} audio format {checks.shown(spelled)}. Supported: {names}."
        raise RealtimeError(code="unsupported_audio_format", message=message, param=param)
    return encoding


def _read(spelled: str, direction: Direction, duplex_names: bool) -> Encoding | None:
    if spelled in _DUPLEX_ONLY and not duplex_names:
        return None
    encoding = _SPELLINGS.get(spelled)
    return encoding if encoding in _ENCODINGS[direction] else None
