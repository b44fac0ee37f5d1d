"""How a model that knows nothing of functions is told of them, of its calls and of what came of these."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from duplex_trio.stages.units import ChatCall, ChatMessage

CALL_OPENS, CALL_CLOSES = "<tool_call>", "</tool_call>"
"""The tags that most models which were taught calls write; others learn them from the instruction."""

ToolChoice = str | Mapping[str, Any]


def instruction(tools: Sequence[Mapping[str, Any]], choice: ToolChoice) -> str:
    """What a model has to be told to call functions."""
    listed = "\n".join(json.dumps(_declaration(tool), ensure_ascii=False) for tool in tools)
    example = f'{CALL_OPENS}{{"name": "function", "arguments": {{}}}}{CALL_CLOSES}'
    lines = [
        "You can call these functions:",
        listed,
        f"To call one, write only {example} with its name and arguments. What it gives is told to you.",
        "If none is needed, answer in plain words.",
        demand(choice),
    ]
    return "\n".join(filter(None, lines))


def demand(choice: ToolChoice) -> str:
    """What a model has to be told that must call a function; nothing if it need not."""
    if isinstance(choice, Mapping):
        return f"Call the function {choice.get('name')} now."
    return "Call one of the functions now." if choice == "required" else ""


def fault_told(fault: str) -> str:
    """What a model is told whose call could not be made."""
    return f"That call could not be made: {fault}. Write it again as it must be, or answer in plain words."


def in_words(message: ChatMessage) -> ChatMessage:
    """A message for a model whose template knows neither calls nor what came of them."""
    if message.calls:
        written = [_written(call) for call in message.calls]
        content = "\n".join([*([message.content] if message.content else []), *written])
        return attrs.evolve(message, content=content, calls=())
    if message.role == "tool":
        return attrs.evolve(
            message, role="user", content=f"<tool_response>{message.content}</tool_response>", call_id=None
        )
    return message


def _written(call: ChatCall) -> str:
    return f'{CALL_OPENS}{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}{CALL_CLOSES}'


def _declaration(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: tool[key] for key in ("name", "description", "parameters") if tool.get(key)}
