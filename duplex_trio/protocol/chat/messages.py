"""The messages of a chat request as items of a conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from duplex_trio.protocol.chat.errors import invalid, missing, unsupported
from duplex_trio.protocol.chat.fields import object_at, one_of, take
from duplex_trio.protocol.chat.parts import read_content, text_of
from duplex_trio.protocol.json_values import read_object, read_string
from duplex_trio.protocol.realtime.items import (
    FunctionCallItem,
    FunctionCallOutputItem,
    InputAudioPart,
    InputTextPart,
    Item,
    ItemPart,
    MessageItem,
    OutputTextPart,
)
from duplex_trio.protocol.realtime.readers import read_name

MESSAGES_MAX = 2048
"""More than any model here reads."""
SOUNDS_MAX = 16
"""Pieces of sound in a request: each is transcribed on its own."""

ROLES = ("system", "developer", "user", "assistant", "tool")


@frozen
class ChatItem:
    """One item, and the path of the message it comes from.

    With `audio_id` it is speech that the client names by the id that it was told: the item has no text yet.
    """

    at: str
    item: Item
    audio_id: str | None = None


def read_messages(value: Any, sound_rate_hz: int) -> tuple[ChatItem, ...]:
    """The conversation. A message may be several items, and an empty one none, unless it is the user's.

    Raises:
        ChatError: a message is wrong, or answers a call that nobody made.
    """
    if type(value) is not list:
        raise invalid("messages", "expected a list")
    if not value:
        raise invalid("messages", "expected at least one message")
    if len(value) > MESSAGES_MAX:
        raise invalid("messages", f"expected at most {MESSAGES_MAX} messages")
    items: list[ChatItem] = []
    called: set[str] = set()
    for index, message in enumerate(value):
        at = f"messages[{index}]"
        items += _items(object_at(message, at), at, sound_rate_hz, called)
    if sum(_is_sound(item.item) for item in items) > SOUNDS_MAX:
        raise invalid("messages", f"expected at most {SOUNDS_MAX} pieces of sound")
    return tuple(items)


def _items(source: Mapping[str, Any], at: str, sound_rate_hz: int, called: set[str]) -> Iterator[ChatItem]:
    role = take(source, "role", one_of(*ROLES), at, required=True)
    take(source, "name", read_string, at)
    if role == "assistant":
        yield from _assistant(source, at, called)
        return
    content = source.get("content")
    if content is None:
        raise missing(f"{at}.content")
    told_by: Any = "system" if role == "developer" else role
    parts = read_content(content, told_by, f"{at}.content", sound_rate_hz)
    if role == "user" and not any(_says_something(part) for part in parts):
        raise invalid(f"{at}.content", "the user's message is empty")
    if role == "tool":
        call_id = take(source, "tool_call_id", read_name, at, required=True)
        if call_id not in called:
            raise invalid(f"{at}.tool_call_id", "no message in front of it waits for an answer to this call")
        called.remove(call_id)
        yield ChatItem(at, FunctionCallOutputItem(call_id=call_id, output=text_of(parts)))
        return
    for run in _runs(parts):
        yield ChatItem(at, MessageItem(role=told_by, content=run))


def _assistant(source: Mapping[str, Any], at: str, called: set[str]) -> Iterator[ChatItem]:
    if source.get("function_call") is not None:
        raise unsupported(f"{at}.function_call", "use tool_calls")
    content, calls, speech = (source.get(key) for key in ("content", "tool_calls", "audio"))
    refusal = take(source, "refusal", read_string, at)
    if content is None and not calls and speech is None and refusal is None:
        raise missing(f"{at}.content")
    parts = list(read_content(content, "assistant", f"{at}.content", 0)) if content is not None else []
    if refusal:
        parts.append(OutputTextPart(refusal))
    if parts:
        yield ChatItem(at, MessageItem(role="assistant", content=tuple(parts)))
    elif speech is not None:
        yield _speech(object_at(speech, f"{at}.audio"), at)
    if calls is None:
        return
    if type(calls) is not list:
        raise invalid(f"{at}.tool_calls", "expected a list")
    for index, call in enumerate(calls):
        call_at = f"{at}.tool_calls[{index}]"
        item = _call(object_at(call, call_at), call_at)
        called.add(item.call_id)
        yield ChatItem(at, item)


def _speech(source: Mapping[str, Any], at: str) -> ChatItem:
    """What the assistant said: in words where the client has kept them, else by its id."""
    words = take(source, "transcript", read_string, f"{at}.audio")
    if words:
        return ChatItem(at, MessageItem(role="assistant", content=(OutputTextPart(words),)))
    audio_id = take(source, "id", read_name, f"{at}.audio", required=True)
    return ChatItem(at, MessageItem(role="assistant"), audio_id=audio_id)


def _call(source: Mapping[str, Any], at: str) -> FunctionCallItem:
    kind = take(source, "type", read_string, at)
    if kind not in (None, "function"):
        raise unsupported(f"{at}.type", "only functions can be called")
    inner, inside = take(source, "function", read_object, at, required=True), f"{at}.function"
    return FunctionCallItem(
        call_id=take(source, "id", read_name, at, required=True),
        name=take(inner, "name", read_name, inside, required=True),
        arguments=take(inner, "arguments", read_string, inside, required=True),
    )


def _runs(parts: Sequence[ItemPart]) -> Iterator[tuple[ItemPart, ...]]:
    """Parts that go into one item: each piece of sound alone, and what stands between them together."""
    run: list[ItemPart] = []
    for part in parts:
        if isinstance(part, InputAudioPart):
            if run:
                yield tuple(run)
            yield (part,)
            run = []
        else:
            run.append(part)
    if run:
        yield tuple(run)


def _says_something(part: ItemPart) -> bool:
    return not isinstance(part, InputTextPart) or bool(part.text)


def _is_sound(item: Item) -> bool:
    return isinstance(item, MessageItem) and any(isinstance(part, InputAudioPart) for part in item.content)
