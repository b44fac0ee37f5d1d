"""What a `response.create` may say about the one response it asks for.

Owns the fields and their aliases. A field that a session has too accepts what the session's accepts. Which of
them a model supports, and the audio format, are checked by the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

from duplex_trio.protocol.json_values import read_object
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.fields import Reader, WireField, wire
from duplex_trio.protocol.realtime.item_parsing import read_input_items
from duplex_trio.protocol.realtime.items import Item, ItemReference
from duplex_trio.protocol.realtime.readers import read_max_output_tokens, read_metadata, read_text_or_object
from duplex_trio.protocol.realtime.response import Modality
from duplex_trio.protocol.realtime.session_fields import TIER1_FIELDS

_SESSION_FIELDS = {known.name: known for known in TIER1_FIELDS}


def _like_session(name: str, *aliases: str) -> Mapping[str, WireField]:
    """Metadata of a field that accepts what the session's field `name` accepts."""
    parse = _SESSION_FIELDS[name].parse

    def read(value: Any) -> Any:
        try:
            return parse(value, name, None, "duplex")
        except RealtimeError as error:
            inner = (error.param or name).removeprefix(name).removeprefix(".")
            raise error.with_param(inner or None) from None

    return wire(*aliases, code="invalid_value", read=read)


def _own(*aliases: str, read: Reader) -> Mapping[str, WireField]:
    return wire(*aliases, code="invalid_value", read=read)


def read_conversation(value: Any) -> Literal["auto", "none"]:
    """Whether the response belongs to the conversation."""
    if value == "auto":
        return "auto"
    if value == "none":
        return "none"
    raise ValueError("expected auto or none")


@frozen(kw_only=True)
class ResponseCreateOptions:
    """Overrides for one response; None means as the session has it.

    `conversation` "none" keeps the response out of the conversation; `input` then stands in for it.
    `output_format` is what the client wrote, unread. `tools` and `tool_choice` are OpenAI's objects.

    Attributes:
        instructions: instead of the session's.
        output_modalities: `text`, `audio`, or both.
        conversation: `none` keeps it out of the conversation.
        metadata: 16 strings at most, given back in the response.
        input: items that stand in for the conversation.
        max_output_tokens: a positive number, or `inf`.
        tools: instead of the session's.
        tool_choice: instead of the session's.
        parallel_tool_calls: as in the session.
        temperature: 0 to 2.
        voice: its name.
        speed: 0.25 to 1.5.
        output_format: encoding of the answer's sound.
        prompt: as in the session.
        reasoning: as in the session.
        extra_body: knobs of the model.
    """

    instructions: str | None = field(default=None, metadata=_like_session("instructions"))
    output_modalities: tuple[Modality, ...] | None = field(
        default=None, metadata=_like_session("output_modalities", "modalities")
    )
    conversation: Literal["auto", "none"] | None = field(default=None, metadata=_own(read=read_conversation))
    metadata: Mapping[str, str] | None = field(default=None, metadata=_own(read=read_metadata))
    input: tuple[Item | ItemReference, ...] | None = field(default=None, metadata=_own(read=read_input_items))
    max_output_tokens: int | Literal["inf"] | None = field(
        default=None,
        metadata=_own("max_response_output_tokens", "max_tokens", read=read_max_output_tokens),
    )
    tools: tuple[Mapping[str, Any], ...] | None = field(default=None, metadata=_like_session("tools"))
    tool_choice: str | Mapping[str, Any] | None = field(default=None, metadata=_like_session("tool_choice"))
    parallel_tool_calls: bool | None = field(default=None, metadata=_like_session("parallel_tool_calls"))
    temperature: float | None = field(default=None, metadata=_like_session("temperature"))
    voice: str | None = field(default=None, metadata=_like_session("voice", "audio.output.voice"))
    speed: float | None = field(default=None, metadata=_like_session("speed", "audio.output.speed"))
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
    prompt: Mapping[str, Any] | None = field(default=None, metadata=_like_session("prompt"))
    reasoning: Mapping[str, Any] | None = field(default=None, metadata=_like_session("reasoning"))
    extra_body: Mapping[str, Any] | None = field(default=None, metadata=_own(read=read_object))
