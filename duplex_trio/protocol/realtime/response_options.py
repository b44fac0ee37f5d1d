"""What a `response.create` may say about the one response it asks for.

Owns the fields and their shapes. Which of them a model supports, and the formats and tools themselves, are
checked by the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.fields import wire
from duplex_trio.protocol.realtime.item_parsing import read_input_items
from duplex_trio.protocol.realtime.items import Item, ItemReference
from duplex_trio.protocol.realtime.readers import (
    expected,
    read_boolean,
    read_integer,
    read_number,
    read_object,
    read_objects,
    read_string,
)
from duplex_trio.protocol.realtime.response import Modality

MAX_METADATA_ENTRIES = 16
MAX_METADATA_KEY_CHARS = 64
MAX_METADATA_VALUE_CHARS = 512
"""OpenAI's limits for `metadata`."""


def read_modalities(value: Any) -> tuple[Modality, ...]:
    """A list of `text` and `audio`, at least one, in the client's order and without repetition."""
    if type(value) is not list:
        raise expected("a list", value)
    if not value:
        raise ValueError("expected at least one modality")
    for index, modality in enumerate(value):
        if modality not in ("text", "audio"):
            raise RealtimeError("unsupported_modality", "expected text or audio", param=f"[{index}]")
    return tuple(dict.fromkeys(value))


def read_max_output_tokens(value: Any) -> int | Literal["inf"]:
    """A positive integer, or `inf` (also spelled `infinity` or `unlimited`) for no limit."""
    if value in ("inf", "infinity", "unlimited"):
        return "inf"
    limit = read_integer(value)
    if limit < 1:
        raise ValueError("expected a positive integer or inf")
    return limit


def read_metadata(value: Any) -> Mapping[str, str]:
    """A map of strings within OpenAI's limits."""
    entries = read_object(value)
    if len(entries) > MAX_METADATA_ENTRIES:
        raise ValueError(f"expected at most {MAX_METADATA_ENTRIES} entries")
    for key, entry in entries.items():
        if len(key) > MAX_METADATA_KEY_CHARS:
            raise ValueError(f"expected keys of at most {MAX_METADATA_KEY_CHARS} characters")
        if type(entry) is not str:
            raise RealtimeError("invalid_value", str(expected("a string", entry)), param=key)
        if len(entry) > MAX_METADATA_VALUE_CHARS:
            message = f"expected at most {MAX_METADATA_VALUE_CHARS} characters"
            raise RealtimeError("invalid_value", message, param=key)
    return entries


def read_conversation(value: Any) -> Literal["auto", "none"]:
    """Whether the response belongs to the conversation."""
    if value == "auto":
        return "auto"
    if value == "none":
        return "none"
    raise ValueError("expected auto or none")


def read_voice(value: Any) -> str:
    """The name of a voice, bare or as `{"id": name}`."""
    return read_string(value["id"] if isinstance(value, Mapping) and "id" in value else value)


def read_text_or_object(value: Any) -> str | Mapping[str, Any]:
    """A string or an object."""
    if type(value) is str:
        return value
    return read_object(value)


@frozen(kw_only=True)
class ResponseCreateOptions:
    """Overrides for one response; None means as the session has it.

    `conversation` "none" keeps the response out of the conversation; `input` then stands in for it.
    `output_format` is what the client wrote, unread. `tools` and `tool_choice` are OpenAI's objects.
    """

    instructions: str | None = field(default=None, metadata=wire(code="invalid_value", read=read_string))
    output_modalities: tuple[Modality, ...] | None = field(
        default=None, metadata=wire("modalities", code="invalid_value", read=read_modalities)
    )
    conversation: Literal["auto", "none"] | None = field(
        default=None, metadata=wire(code="invalid_value", read=read_conversation)
    )
    metadata: Mapping[str, str] | None = field(
        default=None, metadata=wire(code="invalid_value", read=read_metadata)
    )
    input: tuple[Item | ItemReference, ...] | None = field(
        default=None, metadata=wire(code="invalid_value", read=read_input_items)
    )
    max_output_tokens: int | Literal["inf"] | None = field(
        default=None,
        metadata=wire(
            "max_response_output_tokens", "max_tokens", code="invalid_value", read=read_max_output_tokens
        ),
    )
    tools: tuple[Mapping[str, Any], ...] | None = field(
        default=None, metadata=wire(code="invalid_value", read=read_objects)
    )
    tool_choice: str | Mapping[str, Any] | None = field(
        default=None, metadata=wire(code="invalid_value", read=read_text_or_object)
    )
    parallel_tool_calls: bool | None = field(
        default=None, metadata=wire(code="invalid_value", read=read_boolean)
    )
    temperature: float | None = field(default=None, metadata=wire(code="invalid_value", read=read_number))
    voice: str | None = field(
        default=None, metadata=wire("audio.output.voice", code="invalid_value", read=read_voice)
    )
    speed: float | None = field(
        default=None, metadata=wire("audio.output.speed", code="invalid_value", read=read_number)
    )
    output_format: str | Mapping[str, Any] | None = field(
        default=None,
        metadata=wire(
            "response_format",
            "audio.output.format",
            name="output_audio_format",
            code="unsupported_audio_format",
            read=read_text_or_object,
        ),
    )
    prompt: Mapping[str, Any] | None = field(
        default=None, metadata=wire(code="invalid_value", read=read_object)
    )
    reasoning: Mapping[str, Any] | None = field(
        default=None, metadata=wire(code="invalid_value", read=read_object)
    )
    extra_body: Mapping[str, Any] | None = field(
        default=None, metadata=wire(code="invalid_value", read=read_object)
    )
