"""The content of a chat message: text, or a list of parts, one of which may be sound.

Sound comes as a WAV file or as bare 16-bit samples and leaves as samples at the rate that the model hears, so
that nothing but a copy is left to do with it where time matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pybase64

from duplex_trio.protocol.chat.errors import invalid
from duplex_trio.protocol.chat.fields import object_at, one_of, take
from duplex_trio.protocol.json_values import read_object, read_string
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.items import (
    InputAudioPart,
    InputImagePart,
    InputTextPart,
    ItemPart,
    OutputTextPart,
)
from duplex_trio.protocol.realtime.pcm import Pcm, float_from_pcm16, pcm16_bytes, resample
from duplex_trio.protocol.realtime.readers import read_base64, read_name, read_sample_rate
from duplex_trio.protocol.realtime.wav import read_wav

SOUND_FORMATS = ("wav", "pcm16")
PCM16_RATE_HZ = 24_000
"""Rate of bare samples, as OpenAI has it."""
SOUND_S_MAX = 120.0
"""Sound of one part: so long a turn of a session may be too, and recognition is busy with it for everybody."""

PART_TYPES = {
    "user": ("text", "input_audio", "image_url"),
    "assistant": ("text", "refusal"),
    "system": ("text",),
    "tool": ("text",),
}
"""What each role may say."""


def read_content(value: Any, role: str, at: str, sound_rate_hz: int) -> Sequence[ItemPart]:
    """The parts of a message's content; nothing for an empty text.

    Args:
        value: the field.
        role: a key of `PART_TYPES`.
        at: the field's path.
        sound_rate_hz: rate of the sound that comes out.

    Raises:
        ChatError: something in it is wrong.
    """
    if type(value) is str:
        return [_text(value, role)] if value else []
    if type(value) is not list:
        raise invalid(at, "expected a string or a list of parts")
    if not value:
        raise invalid(at, "expected at least one part")
    return [
        _part(object_at(part, f"{at}[{index}]"), role, f"{at}[{index}]", sound_rate_hz)
        for index, part in enumerate(value)
    ]


def text_of(parts: Sequence[ItemPart]) -> str:
    """The text of parts that are nothing else."""
    return "\n".join(part.text for part in parts if isinstance(part, InputTextPart | OutputTextPart))


def _text(text: str, role: str) -> ItemPart:
    return OutputTextPart(text) if role == "assistant" else InputTextPart(text)


def _part(source: Mapping[str, Any], role: str, at: str, sound_rate_hz: int) -> ItemPart:
    match take(source, "type", one_of(*PART_TYPES[role]), at, required=True):
        case "input_audio":
            return _sound(_inner(source, "input_audio", at), f"{at}.input_audio", sound_rate_hz)
        case "image_url":
            return _image(_inner(source, "image_url", at), f"{at}.image_url")
        case kind:
            return _text(take(source, kind, read_string, at, required=True), role)


def _inner(source: Mapping[str, Any], key: str, at: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = take(source, key, read_object, at, required=True)
    return found


def _image(source: Mapping[str, Any], at: str) -> InputImagePart:
    url = take(source, "url", read_name, at, required=True)
    detail: Any = take(source, "detail", one_of("auto", "low", "high"), at)
    return InputImagePart(image_url=url, detail=detail or "auto")


def _sound(source: Mapping[str, Any], at: str, sound_rate_hz: int) -> InputAudioPart:
    kind = take(source, "format", _sound_format, at, required=True)
    data = take(source, "data", read_base64, at, required=True)
    try:
        pcm, rate_hz = _samples(data, kind)
    except (RealtimeError, ValueError) as error:
        message = error.message if isinstance(error, RealtimeError) else str(error)
        raise invalid(f"{at}.data", message) from None
    if len(pcm) > SOUND_S_MAX * rate_hz:
        raise invalid(f"{at}.data", f"expected at most {SOUND_S_MAX:g} s of sound")
    if not len(pcm):
        raise invalid(f"{at}.data", "it holds no sound")
    heard = pcm16_bytes(resample(pcm, rate_hz, sound_rate_hz))
    return InputAudioPart(
        audio=pybase64.b64encode_as_string(heard), format="pcm16", sample_rate_hz=sound_rate_hz
    )


def _sound_format(value: Any) -> str:
    if read_string(value) not in SOUND_FORMATS:
        raise ValueError(
            f"{value[:16]!r} is not read here; send wav, or pcm16 (16 bits, little-endian, mono, 24 kHz)"
        )
    return str(value)


def _samples(data: bytes, kind: str) -> tuple[Pcm, int]:
    if kind == "pcm16":
        if len(data) % 2:
            raise ValueError("it ends in the middle of a sample")
        return float_from_pcm16(data), PCM16_RATE_HZ
    pcm, rate_hz = read_wav(data)
    read_sample_rate(rate_hz)
    return pcm, rate_hz
