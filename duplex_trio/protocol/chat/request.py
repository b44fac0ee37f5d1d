"""A chat request, read from its JSON: everything that OpenAI's SDK may say, taken, or refused by name.

Nothing is passed over in silence: a field is acted on, or it is one of `WITHOUT_EFFECT`, which change nothing about an
answer, or it is refused. By default an answer is text alone, as the SDK's users expect, also of a model that speaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import orjson
from attrs import Factory, frozen

from duplex_trio.protocol.chat.errors import ChatError, invalid, unsupported
from duplex_trio.protocol.chat.fields import (
    checked,
    integer_from,
    number_in,
    object_at,
    one_of,
    only,
    take,
)
from duplex_trio.protocol.chat.messages import ChatItem, read_messages
from duplex_trio.protocol.chat.tools import Choice, Tool, read_choice, read_tools
from duplex_trio.protocol.json_values import read_boolean, read_object, read_string
from duplex_trio.protocol.realtime.items import MessageItem, OutputTextPart
from duplex_trio.protocol.realtime.readers import read_integer, read_metadata, read_name
from duplex_trio.protocol.realtime.response import Modality
from duplex_trio.protocol.sampling import Sampling

AUDIO_FORMATS = ("wav", "pcm16")
_FORMAT_ALIASES = {"pcm": "pcm16"}
STOPS_MAX = 4
SERVICE_TIERS = ("auto", "default", "flex", "scale", "priority")

WITHOUT_EFFECT: Mapping[str, Callable[[Any], Any]] = {
    "store": read_boolean,
    "metadata": read_metadata,
    "user": read_string,
    "safety_identifier": read_string,
    "prompt_cache_key": read_string,
    "prompt_cache_retention": read_string,
    "service_tier": one_of(*SERVICE_TIERS),
}
"""Fields about the request and not about its answer: read, and nothing comes of them. No completion is stored."""

_NEUTRAL: Mapping[str, tuple[Any, str]] = {
    "n": (1, "a request has one answer"),
    "logprobs": (False, "the models here give no log probabilities"),
    "top_logprobs": (0, "the models here give no log probabilities"),
    "logit_bias": ({}, "the models here take no bias"),
}
"""Fields that may only say what is so anyway, and why."""

_KNOBS: Mapping[str, Callable[[Any], Any]] = {
    "top_p": number_in(0, 1, above=True),
    "top_k": integer_from(0),
    "min_p": number_in(0, 1),
    "seed": read_integer,
    "presence_penalty": number_in(-2, 2),
    "frequency_penalty": number_in(-2, 2),
    "repetition_penalty": number_in(0, 10, above=True),
}

_OWN = frozenset(
    {
        "model", "messages", "modalities", "audio", "tools", "tool_choice", "parallel_tool_calls", "stream",
        "stream_options", "stop", "temperature", "max_tokens", "max_completion_tokens", "response_format",
        "return_stage_metrics",
    }
)  # fmt: skip

EFFECTS: Mapping[str, str] = {
    **dict.fromkeys(_OWN | _KNOBS.keys(), "yes"),
    **dict.fromkeys(WITHOUT_EFFECT, "none"),
    **dict.fromkeys(_NEUTRAL, "refused"),
}
"""Every field that a request may name: whether it changes the answer (`yes`), nothing (`none`), or is `refused` unless
it says what is so anyway. Any other field is refused."""


@frozen
class ChatAudio:
    """How an answer sounds: the voice by name, None for the model's own, and a name of `AUDIO_FORMATS`."""

    format: str = "wav"
    voice: str | None = None


@frozen(kw_only=True)
class ChatRequest:
    """What is to be answered, and how.

    `tools` and `tool_choice` are in the words of sessions. `include_usage` asks for a last chunk with the tokens of a
    streamed answer, `stage_metrics` for the figures of the stages beside an answer. `trace_headers` is what its HTTP
    request said of the trace that it is part of.
    """

    model: str | None
    items: tuple[ChatItem, ...]
    modalities: tuple[Modality, ...] = ("text",)
    audio: ChatAudio = ChatAudio()
    tools: tuple[Tool, ...] = ()
    tool_choice: Choice | None = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    sampling: Sampling = Factory(Sampling)
    stream: bool = False
    include_usage: bool = False
    stage_metrics: bool = False
    trace_headers: Mapping[str, str] = Factory(dict)

    @property
    def speaks(self) -> bool:
        """Whether the answer is to be heard."""
        return "audio" in self.modalities

    def with_words(self, recall: Callable[[str], str | None]) -> ChatRequest:
        """This request with the words of what the assistant said in place of the ids that name it.

        Raises:
            ChatError: nothing is known by an id.
        """
        return attrs.evolve(self, items=tuple(_recalled(item, recall) for item in self.items))


def read_chat_request(body: bytes, sound_rate_hz: int) -> ChatRequest:
    """Read a request.

    Args:
        body: the JSON.
        sound_rate_hz: rate at which the model hears.

    Raises:
        ChatError: with status 400, naming the field at fault.
    """
    try:
        source = orjson.loads(body)
    except ValueError as error:
        raise ChatError(400, "invalid_json", f"the body is not JSON: {error}") from None
    if type(source) is not dict:
        raise ChatError(400, "invalid_json", "the body must be a JSON object")
    _refuse_unknown(source)
    for name, read in WITHOUT_EFFECT.items():
        take(source, name, read)
    modalities = _modalities(source)
    audio = take(source, "audio", _audio) or ChatAudio()
    tools = take(source, "tools", read_tools) or ()
    stream = take(source, "stream", read_boolean) or False
    limit = integer_from(1)
    older_limit = take(source, "max_tokens", limit)
    return ChatRequest(
        model=take(source, "model", read_name),
        items=take(source, "messages", lambda value: read_messages(value, sound_rate_hz), required=True),
        modalities=modalities,
        audio=audio,
        tools=tools,
        tool_choice=take(source, "tool_choice", lambda value: read_choice(value, tools)),
        parallel_tool_calls=take(source, "parallel_tool_calls", read_boolean),
        temperature=take(source, "temperature", number_in(0, 2)),
        max_tokens=older_limit if (given := take(source, "max_completion_tokens", limit)) is None else given,
        sampling=Sampling(
            **{name: take(source, name, read) for name, read in _KNOBS.items()},
            stop=take(source, "stop", _stop) or (),
            json_schema=_json_schema(source, modalities),
        ),
        stream=stream,
        include_usage=_include_usage(source, stream),
        stage_metrics=take(source, "return_stage_metrics", read_boolean) or False,
    )


def _recalled(item: ChatItem, recall: Callable[[str], str | None]) -> ChatItem:
    if item.audio_id is None:
        return item
    words = recall(item.audio_id)
    if words is None:
        raise invalid(f"{item.at}.audio.id", "no speech is known by this id, or no longer")
    return ChatItem(item.at, MessageItem(role="assistant", content=(OutputTextPart(words),)))


def _refuse_unknown(source: Mapping[str, Any]) -> None:
    for name, value in source.items():
        if name in _NEUTRAL:
            neutral, why = _NEUTRAL[name]
            if value is not None and (value != neutral or type(value) is not type(neutral)):
                raise unsupported(name, why)
        elif name not in EFFECTS and value is not None:
            raise ChatError(400, "unknown_parameter", f"there is no parameter {name[:64]!r}", param=name[:64])


def _modalities(source: Mapping[str, Any]) -> tuple[Modality, ...]:
    asked = take(source, "modalities", _read_modalities)
    return ("text", "audio") if asked and "audio" in asked else ("text",)


def _read_modalities(value: Any) -> list[str]:
    if type(value) is not list or not value:
        raise ValueError("expected a list of text and audio")
    return [
        checked(name, one_of("text", "audio"), f"modalities[{index}]") for index, name in enumerate(value)
    ]


def _audio(value: Any) -> ChatAudio:
    source = object_at(value, "audio")
    only(source, "audio", "voice", "format")
    voice = source.get("voice")
    if isinstance(voice, Mapping):
        voice = take(voice, "id", read_name, "audio.voice", required=True)
    elif voice is not None:
        voice = checked(voice, read_name, "audio.voice")
    return ChatAudio(format=take(source, "format", _audio_format, "audio") or "wav", voice=voice)


def _audio_format(value: Any) -> str:
    name = _FORMAT_ALIASES.get(read_string(value), value)
    if name not in AUDIO_FORMATS:
        raise ValueError(f"{value[:16]!r} is not made here; ask for one of {', '.join(AUDIO_FORMATS)}")
    return str(name)


def _stop(value: Any) -> tuple[str, ...]:
    stops = [value] if type(value) is str else value
    if type(stops) is not list:
        raise ValueError("expected a string or a list of strings")
    if len(stops) > STOPS_MAX:
        raise ValueError(f"expected at most {STOPS_MAX} strings")
    return tuple(checked(stop, read_name, f"stop[{index}]") for index, stop in enumerate(stops))


def _json_schema(source: Mapping[str, Any], modalities: tuple[Modality, ...]) -> Mapping[str, Any] | None:
    value = source.get("response_format")
    if value is None:
        return None
    wanted = object_at(value, "response_format")
    only(wanted, "response_format", "type", "json_schema")
    kind = take(
        wanted, "type", one_of("text", "json_object", "json_schema"), "response_format", required=True
    )
    if kind == "text":
        return None
    if "audio" in modalities:
        raise unsupported("response_format", "what is spoken cannot be JSON")
    if kind == "json_object":
        return {"type": "object"}
    at = "response_format.json_schema"
    described = object_at(wanted.get("json_schema"), at)
    only(described, at, "name", "description", "schema", "strict")
    schema: Mapping[str, Any] | None = take(described, "schema", read_object, at)
    return schema if schema is not None else {"type": "object"}


def _include_usage(source: Mapping[str, Any], stream: bool) -> bool:
    value = source.get("stream_options")
    if value is None:
        return False
    if not stream:
        raise invalid("stream_options", "it is for requests with stream: true only")
    options = object_at(value, "stream_options")
    only(options, "stream_options", "include_usage", "include_obfuscation")
    take(options, "include_obfuscation", read_boolean, "stream_options")
    return take(options, "include_usage", read_boolean, "stream_options") or False
