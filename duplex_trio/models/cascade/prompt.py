"""The language model's prompt, made of a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from duplex_trio.models.calling.wording import ToolChoice, demand, in_words, instruction
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.pipelines.requests import Truncation
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.stages.units import ChatMessage, ChatPrompt

CountTokens = Callable[[Sequence[ChatMessage], Sequence[Mapping[str, Any]]], int]
"""Tokens that a prompt of these messages and functions has."""

TOKEN_CHARS_MAX = 16
"""More characters than a token has on average in any text: a longer text does not fit, whatever it is."""
COUNTED_CHARS_MIN = 4096
"""A text of so many characters is counted in any case: that takes a millisecond."""


OPENING = ChatMessage(role="user", content="Hello.")
"""What a conversation begins with in which the user has said nothing: chat templates demand a user message first."""
KEEPS_WHAT_FITS = Truncation()
"""As much of the conversation as the model reads."""


def build_prompt(
    conversation: Sequence[ChatMessage],
    *,
    instructions: str | None,
    user_text: str | None,
    profile: ChatProfile,
    audible: bool = True,
    tools: Sequence[Mapping[str, Any]] = (),
    tool_choice: ToolChoice = "auto",
    tokens_max: int | None = None,
    count_tokens: CountTokens | None = None,
    truncation: Truncation = KEEPS_WHAT_FITS,
) -> ChatPrompt:
    """Make the prompt of the next assistant message.

    Messages of one role in a row become one: a user who went on speaking said one thing. A conversation that
    does not begin with the user loses its beginning, as chat templates demand; one without any user message keeps
    everything, behind a greeting. System messages go to the front,
    except those behind an answer that are to be answered themselves: these are said by the user, since the model
    would answer its own words otherwise. Old messages go first when there are too many, by the profile's count or
    by tokens; the last user message and what follows it stay.

    Args:
        conversation: the messages before the current one.
        instructions: what the session was told to be; the profile's own if None and the answer is to be heard,
            for these are about speaking.
        user_text: what the user said just now, None to answer the conversation as it stands.
        profile: the model's habits.
        audible: whether the answer is to be heard.
        tools: functions that it may call.
        tool_choice: whether it must.
        tokens_max: most tokens of the prompt.
        count_tokens: counts them; without it only messages are counted.
        truncation: what becomes of a conversation that does not fit.

    Raises:
        RequestRefused: `context_length_exceeded`, for a text so long that counting its tokens would hold up
            everybody, and for a conversation that does not fit and may not be forgotten.
    """
    if user_text is None:
        conversation = _with_last_words_said(conversation)
    system = [message.content for message in conversation if message.role == "system"]
    spoken = [_without_wording(message) for message in conversation if message.role != "system"]
    if user_text is not None:
        spoken.append(ChatMessage(role="user", content=user_text))
    spoken = _merged(spoken)
    if truncation.forgets:
        spoken = _last_of(spoken, profile.history_messages_max + 1)
    spoken = _from_user(spoken) or [OPENING, *spoken]
    about_tools = (
        "" if not tools else demand(tool_choice) if profile.knows_calls else instruction(tools, tool_choice)
    )
    instructions = instructions or (profile.default_instructions if audible else None)
    told = "\n".join(filter(None, [instructions, *system, about_tools]))
    shown = tools if profile.knows_calls else ()

    def prompt_of(messages: list[ChatMessage]) -> ChatPrompt:
        return ChatPrompt(
            messages=_with_instructions(_readable(messages, profile), told, profile), tools=shown
        )

    prompt = prompt_of(spoken)
    if tokens_max is not None and _chars(prompt) > _chars_max(tokens_max):
        _refuse_forgetting(truncation, f"{_chars(prompt)} characters", tokens_max)
        spoken = _from_last_user(spoken)
        prompt = prompt_of(spoken)
        _refuse_endless(prompt, tokens_max)
    if tokens_max is None or count_tokens is None:
        return prompt
    told_tokens = 0
    if truncation != KEEPS_WHAT_FITS:
        alone = prompt_of([ChatMessage(role="user", content="")])
        told_tokens = count_tokens(alone.messages, alone.tools)
    most = tokens_max
    if truncation.tokens_max is not None:
        most = min(most, told_tokens + truncation.tokens_max)
    tokens = count_tokens(prompt.messages, prompt.tools)
    if tokens <= most:
        return prompt
    _refuse_forgetting(truncation, f"{tokens} tokens", most)
    keep = told_tokens + (most - told_tokens) * truncation.retention_ratio
    while tokens > keep and (shorter := _from_user(spoken[1:])):
        spoken, prompt = shorter, prompt_of(shorter)
        tokens = count_tokens(prompt.messages, prompt.tools)
    return prompt


def _with_last_words_said(conversation: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
    """Let the user say the system messages at the end, if there is an answer right before them."""
    count = 0
    while count < len(conversation) and conversation[-count - 1].role == "system":
        count += 1
    before = conversation[: len(conversation) - count]
    if not count or not before or before[-1].role != "assistant":
        return conversation
    return [*before, *(attrs.evolve(message, role="user") for message in conversation[-count:])]


def _chars(prompt: ChatPrompt) -> int:
    said = sum(len(message.content) for message in prompt.messages)
    called = sum(len(call.arguments) for message in prompt.messages for call in message.calls)
    return said + called + sum(len(json.dumps(tool)) for tool in prompt.tools)


def _chars_max(tokens_max: int) -> int:
    return max(COUNTED_CHARS_MIN, tokens_max * TOKEN_CHARS_MAX)


def _refuse_forgetting(truncation: Truncation, size: str, tokens_max: int) -> None:
    if not truncation.forgets:
        raise RequestRefused(
            "context_length_exceeded",
            f"the conversation has {size}; {tokens_max} tokens may be read, and truncation is disabled",
        )


def _refuse_endless(prompt: ChatPrompt, tokens_max: int) -> None:
    chars = _chars(prompt)
    if chars > _chars_max(tokens_max):
        raise RequestRefused(
            "context_length_exceeded",
            f"the message and its instructions have {chars} characters; the model reads {tokens_max} tokens",
        )


def _without_wording(message: ChatMessage) -> ChatMessage:
    """A call is written in the form that the model is told of, not in the words that it has for others."""
    return attrs.evolve(message, content="") if message.calls else message


def _readable(messages: Sequence[ChatMessage], profile: ChatProfile) -> list[ChatMessage]:
    if profile.knows_calls:
        return list(messages)
    return _merged([in_words(message) for message in messages])


def _merged(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    merged: list[ChatMessage] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last is None or last.role != message.role or message.role == "tool":
            merged.append(message)
        else:
            content = " ".join(filter(None, (last.content, message.content)))
            merged[-1] = attrs.evolve(last, content=content, calls=last.calls + message.calls)
    return merged


def _from_last_user(messages: list[ChatMessage]) -> list[ChatMessage]:
    last = max((index for index, message in enumerate(messages) if message.role == "user"), default=0)
    return messages[last:]


def _last_of(messages: list[ChatMessage], count: int) -> list[ChatMessage]:
    """The last `count` messages; more if it takes more for the last user message."""
    latest = _from_last_user(messages)
    return (
        messages[-max(count, len(latest)) :] if latest[:1] and latest[0].role == "user" else messages[-count:]
    )


def _from_user(messages: list[ChatMessage]) -> list[ChatMessage]:
    first = next((index for index, message in enumerate(messages) if message.role == "user"), len(messages))
    return messages[first:]


def _with_instructions(messages: list[ChatMessage], told: str, profile: ChatProfile) -> list[ChatMessage]:
    if not told:
        return messages
    if profile.system_role:
        return [ChatMessage(role="system", content=told), *messages]
    first = messages[0]
    return [ChatMessage(role=first.role, content=f"{told}\n\n{first.content}"), *messages[1:]]
