"""A prompt in the words of OpenAI's chat completions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from duplex_trio.stages.units import ChatCall, ChatMessage, ChatPrompt

_CONTROL = re.compile(
    r"<\|[^|<>\s]{1,40}\|>"  # ChatML, Llama 3, Phi, GLM, gpt-oss
    "|<\N{FULLWIDTH VERTICAL LINE}[^<>]{1,40}\N{FULLWIDTH VERTICAL LINE}>"  # DeepSeek
    r"|</?s>|<bos>|<eos>|<pad>|<unk>"
    r"|<(?:start|end)_of_(?:turn|image)>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS)\]"
)
"""The text of control tokens of the families of models that are usual. An engine takes such a text for the token
itself, so it becomes a space, as `ChatTokenizer` does with those that it knows of one model: nobody can close his own
turn and speak as somebody else."""


def plain(text: str) -> str:
    """A text without control tokens."""
    return _CONTROL.sub(" ", text)


def request_messages(prompt: ChatPrompt) -> list[dict[str, Any]]:
    """The `messages` of a request."""
    return [_message(message) for message in prompt.messages]


def request_tools(prompt: ChatPrompt) -> list[dict[str, Any]]:
    """The `tools` of a request."""
    return [_tool(tool) for tool in prompt.tools]


def _message(message: ChatMessage) -> dict[str, Any]:
    content: Any = plain(message.content)
    if message.images:
        said = [{"type": "text", "text": content}] if content else []
        shown = [{"type": "image_url", "image_url": {"url": url}} for url in message.images]
        content = [*said, *shown]
    written: dict[str, Any] = {"role": message.role, "content": content}
    if message.calls:
        written["content"] = content or None
        written["tool_calls"] = [_call(call) for call in message.calls]
    if message.call_id is not None:
        written["tool_call_id"] = message.call_id
    return written


def _call(call: ChatCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": plain(call.arguments)}
    return {"type": "function", "id": call.call_id, "function": function}


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    # No control token has a character that JSON escapes, so they can be taken out of all of its texts at once.
    safe: dict[str, Any] = json.loads(plain(json.dumps(dict(tool), ensure_ascii=False)))
    if "function" in safe:
        return safe
    return {"type": "function", "function": {key: value for key, value in safe.items() if key != "type"}}
