"""A change of a video that runs: how it is read, and when two of them say the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import orjson

from duplex_trio.protocol.json_values import read_object
from duplex_trio.protocol.video.errors import VideoRefused
from duplex_trio.protocol.video.messages import SessionInteraction
from duplex_trio.protocol.video.reading import integer_in, read_prompt, read_text, take

EVENT_ID_CHARS_MAX = 128
TRANSITION_CHUNKS_MAX = 10_000

_CODE = "invalid_interaction"
_AT = "interaction"
_WHOLE_MAX = 2**53
"""Up to here a float says exactly one whole number."""


def read_interaction(message: Mapping[str, Any]) -> SessionInteraction:
    """The change in a `session.interaction`.

    Only `prompt` is read of its `event`: whether the model knows the other keys is for the model to say.

    Raises:
        VideoRefused: `invalid_interaction`: the first fault in the order of video.md 3.3, with the field in
            `param`, and with the `event_id` as soon as that has been read.
    """
    interaction = _object(message, _AT)
    event_id = take(interaction, "event_id", _read_event_id, code=_CODE, at=_AT)
    try:
        event = _object(interaction, "event", at=_AT)
        if take(event, "prompt", read_prompt, code=_CODE, at=f"{_AT}.event") is None:
            raise _missing(f"{_AT}.event.prompt")
        chunks = integer_in(0, TRANSITION_CHUNKS_MAX)
        transition_chunks = take(interaction, "transition_chunks", chunks, code=_CODE, at=_AT)
    except VideoRefused as fault:
        raise fault.with_event_id(event_id) from None
    return SessionInteraction(event_id=event_id, event=event, transition_chunks=transition_chunks)


def payload_digest(interaction: SessionInteraction) -> bytes:
    """32 bytes that are the same for two interactions exactly if they want the same (video.md 3.3).

    The order of keys does not matter, nor whether a whole number is written 3 or 3.0. A prompt is compared as
    it is. A transition of the default length differs from one that does not say how long it is.
    """
    return hashlib.sha256(_canonical([interaction.event, interaction.transition_chunks])).digest()


def _read_event_id(value: Any) -> str:
    text = read_text(value)
    if not 1 <= len(text) <= EVENT_ID_CHARS_MAX:
        raise ValueError(f"expected 1 to {EVENT_ID_CHARS_MAX} characters")
    return text


def _object(source: Mapping[str, Any], key: str, *, at: str = "") -> Mapping[str, Any]:
    found = take(source, key, read_object, code=_CODE, at=at)
    if found is None:
        raise _missing(f"{at}.{key}" if at else key)
    return found


def _missing(param: str) -> VideoRefused:
    return VideoRefused(_CODE, f"{param}: it is missing.", param=param)


def _canonical(payload: Any) -> bytes:
    # Retries are as many as a client likes, and everybody waits meanwhile: what is walked through here value by value
    # is only what has to be.
    try:
        text = orjson.dumps(payload, default=_plain, option=orjson.OPT_SORT_KEYS)
        if b".0" in text:  # perhaps a whole number that is written as a fraction
            text = orjson.dumps(_plain(payload), option=orjson.OPT_SORT_KEYS)
    except TypeError:  # half a surrogate pair, which UTF-8 cannot express
        text = json.dumps(_plain(payload), sort_keys=True, separators=(",", ":")).encode()
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if type(value) is float and value.is_integer() and abs(value) <= _WHOLE_MAX:
        return int(value)
    return value
