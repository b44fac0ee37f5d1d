"""The language model's prompt, made of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.stages.units import ChatMessage, ChatPrompt

CountTokens = Callable[[Sequence[ChatMessage]], int]
"""Tokens that a prompt of these messages has."""

TOKEN_CHARS_MAX = 16
"""More characters than a token has on average in any text: a longer text does not fit, whatever it is."""
COUNTED_CHARS_MIN = 4096
"""A text of so many characters is counted in any case: that takes a millisecond."""


def build_prompt(
    conversation: Sequence[ChatMessage],
    *,
    instructions: str | None,
    user_text: str | None,
    profile: ChatProfile,
    tokens_max: int | None = None,
    count_tokens: CountTokens | None = None,
) -> ChatPrompt:
    """Make the prompt of the next assistant message.

    Messages of one role in a row become one: a user who went on speaking said one thing. A conversation that
    does not begin with the user loses its beginning, as chat templates demand. Old messages go first when
    there are too many, by the profile's count or by tokens; the last user message and what follows it stay.

    Args:
        conversation: the messages before the current one.
        instructions: what the session was told to be; the profile's own if None.
        user_text: what the user said just now, None to answer the conversation as it stands.
        profile: the model's habits.
        tokens_max: most tokens of the prompt.
        count_tokens: counts them; without it only messages are counted.

    Raises:
        RealtimeError: `context_length_exceeded`, for a text so long that counting its tokens would hold up everybody.
    """
    system = [message.content for message in conversation if message.role == "system"]
    spoken = [message for message in conversation if message.role != "system"]
    if user_text is not None:
        spoken.append(ChatMessage(role="user", content=user_text))
    spoken = _from_user(_merged(spoken)[-(profile.history_messages_max + 1) :])
    if not spoken:
        spoken = [ChatMessage(role="user", content="Hello.")]
    instructions = instructions or profile.default_instructions
    told = "\n".join([*([instructions] if instructions else []), *system])
    messages = _with_instructions(spoken, told, profile)
    if tokens_max is not None and _chars(messages) > _chars_max(tokens_max):
        spoken = spoken[-1:]
        messages = _with_instructions(spoken, told, profile)
        _refuse_endless(messages, tokens_max)
    while tokens_max is not None and count_tokens is not None and count_tokens(messages) > tokens_max:
        shorter = _from_user(spoken[1:])
        if not shorter:
            break
        spoken = shorter
        messages = _with_instructions(spoken, told, profile)
    return ChatPrompt(messages=messages)


def _chars(messages: Sequence[ChatMessage]) -> int:
    return sum(len(message.content) for message in messages)


def _chars_max(tokens_max: int) -> int:
    return max(COUNTED_CHARS_MIN, tokens_max * TOKEN_CHARS_MAX)


def _refuse_endless(messages: Sequence[ChatMessage], tokens_max: int) -> None:
    chars = _chars(messages)
    if chars > _chars_max(tokens_max):
        raise RealtimeError(
            "context_length_exceeded",
            f"the message and its instructions have {chars} characters; the model reads {tokens_max} tokens",
        )


def _merged(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    merged: list[ChatMessage] = []
    for message in messages:
        role = "user" if message.role == "tool" else message.role
        if merged and merged[-1].role == role:
            merged[-1] = ChatMessage(role=role, content=f"{merged[-1].content} {message.content}")
        else:
            merged.append(ChatMessage(role=role, content=message.content))
    return merged


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
