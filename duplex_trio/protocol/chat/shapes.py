"""The objects of OpenAI's answers as classes, and the one converter that writes them.

A field marked with `OMIT_NULL` is left out when it is None; others are written as `null`, as OpenAI does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import attrs
from attrs import field, frozen
from cattrs import Converter
from cattrs.gen import make_dict_unstructure_fn, override

from duplex_trio.protocol.realtime.event_base import OMIT_NULL


@frozen(kw_only=True)
class FunctionShape:
    """A call's function; a piece of a streamed call may be of its arguments alone."""

    name: str | None = field(default=None, metadata=OMIT_NULL)
    arguments: str | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ToolCallShape:
    """A call; `index` only where calls are streamed, the rest with the first piece of each."""

    index: int | None = field(default=None, metadata=OMIT_NULL)
    id: str | None = field(default=None, metadata=OMIT_NULL)
    type: str | None = field(default=None, metadata=OMIT_NULL)
    function: FunctionShape


@frozen(kw_only=True)
class AudioShape:
    """Spoken words. `data` is base64; `id` names them in a later request until `expires_at`, in seconds since 1970.

    In a stream each is a piece, to be put behind the one before; so the id comes once.
    """

    id: str | None = field(default=None, metadata=OMIT_NULL)
    data: str | None = field(default=None, metadata=OMIT_NULL)
    transcript: str | None = field(default=None, metadata=OMIT_NULL)
    expires_at: int | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class MessageShape:
    """A whole answer."""

    role: str = "assistant"
    content: str | None = None
    refusal: str | None = None
    tool_calls: tuple[ToolCallShape, ...] | None = field(default=None, metadata=OMIT_NULL)
    audio: AudioShape | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class DeltaShape:
    """A piece of one."""

    role: str | None = field(default=None, metadata=OMIT_NULL)
    content: str | None = field(default=None, metadata=OMIT_NULL)
    tool_calls: tuple[ToolCallShape, ...] | None = field(default=None, metadata=OMIT_NULL)
    audio: AudioShape | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ChoiceShape:
    """The one answer of a completion."""

    index: int = 0
    message: MessageShape
    logprobs: None = None
    finish_reason: str


@frozen(kw_only=True)
class ChunkChoiceShape:
    """A piece of the one answer."""

    index: int = 0
    delta: DeltaShape
    logprobs: None = None
    finish_reason: str | None = None


@frozen(kw_only=True)
class PromptDetailsShape:
    """Tokens of the prompt that were there already, and those of sound: speech is read as the words that were heard."""

    cached_tokens: int = 0
    audio_tokens: int = 0


@frozen(kw_only=True)
class CompletionDetailsShape:
    """Tokens of the answer of special kinds; the models here have none."""

    reasoning_tokens: int = 0
    audio_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


@frozen(kw_only=True)
class UsageShape:
    """Tokens of a completion."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetailsShape
    completion_tokens_details: CompletionDetailsShape = CompletionDetailsShape()


@frozen(kw_only=True)
class CompletionShape:
    """A whole completion; `metrics` are the figures of the stages, ours."""

    object: ClassVar[str] = "chat.completion"

    id: str
    created: int
    model: str
    choices: tuple[ChoiceShape, ...]
    usage: UsageShape
    system_fingerprint: str | None = None
    metrics: Mapping[str, Any] | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ChunkShape:
    """A piece of one; `modality` says what it is a piece of, `metrics` come with the last: both are ours."""

    object: ClassVar[str] = "chat.completion.chunk"

    id: str
    created: int
    model: str
    choices: tuple[ChunkChoiceShape, ...]
    usage: UsageShape | None = field(default=None, metadata=OMIT_NULL)
    system_fingerprint: str | None = None
    modality: str | None = field(default=None, metadata=OMIT_NULL)
    metrics: Mapping[str, Any] | None = field(default=None, metadata=OMIT_NULL)


def _make_converter() -> Converter:
    converter = Converter()
    converter.register_unstructure_hook_factory(attrs.has, _writer_of)
    return converter


def _writer_of(cls: type, converter: Converter) -> Callable[[Any], dict[str, Any]]:
    hidden: dict[str, Any] = {
        attribute.name: override(omit_if_default=True)
        for attribute in attrs.fields(cls)
        if "omit_null" in attribute.metadata
    }
    write: Callable[[Any], dict[str, Any]] = make_dict_unstructure_fn(cls, converter, **hidden)
    kind = getattr(cls, "object", None)
    return write if kind is None else lambda shape: {"object": kind, **write(shape)}


_CONVERTER = _make_converter()


def to_json(shape: CompletionShape | ChunkShape) -> dict[str, Any]:
    """The JSON object that a shape stands for."""
    written: dict[str, Any] = _CONVERTER.unstructure(shape)
    return written
