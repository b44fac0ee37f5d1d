"""The functions that a chat request offers, and what it says about calling them, in the words of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duplex_trio.protocol.chat.errors import invalid, unsupported
from duplex_trio.protocol.chat.fields import checked, object_at, one_of, take
from duplex_trio.protocol.json_values import read_boolean, read_object, read_string
from duplex_trio.protocol.realtime.function_names import read_function_name, repeated_name
from duplex_trio.protocol.realtime.readers import read_name

TOOLS_MAX = 128
"""OpenAI's limit."""

Tool = Mapping[str, Any]
Choice = str | Mapping[str, Any]


def read_tools(value: Any) -> tuple[Tool, ...]:
    """The functions, each flat as a session has it: `{"type", "name", "description", "parameters"}`.

    Raises:
        ChatError: one of them is wrong.
    """
    if type(value) is not list:
        raise invalid("tools", "expected a list")
    if len(value) > TOOLS_MAX:
        raise invalid("tools", f"expected at most {TOOLS_MAX} tools")
    tools = tuple(_tool(object_at(tool, f"tools[{index}]"), index) for index, tool in enumerate(value))
    if (index := repeated_name(tools)) is not None:
        raise invalid(f"tools[{index}].function.name", f"there are two functions {tools[index]['name']!r}")
    return tools


def read_choice(value: Any, tools: tuple[Tool, ...]) -> Choice:
    """What the request says about calling them: `none`, `auto`, `required`, or one function.

    Raises:
        ChatError: it is none of these, or names a function that the request does not offer.
    """
    if type(value) is str:
        choice: str = checked(value, one_of("none", "auto", "required"), "tool_choice")
        if choice == "required" and not tools:
            raise invalid("tool_choice", "there are no tools to call")
        return choice
    source = object_at(value, "tool_choice")
    _require_function(source, "tool_choice")
    inner = take(source, "function", read_object, "tool_choice", required=True)
    name = take(inner, "name", read_name, "tool_choice.function", required=True)
    if name not in [tool["name"] for tool in tools]:
        raise invalid("tool_choice.function.name", f"there is no function {name[:64]!r}")
    return {"type": "function", "name": name}


def _tool(source: Mapping[str, Any], index: int) -> Tool:
    at = f"tools[{index}]"
    _require_function(source, at)
    inner, inside = take(source, "function", read_object, at, required=True), f"{at}.function"
    take(inner, "strict", read_boolean, inside)
    tool = {
        "type": "function",
        "name": take(inner, "name", read_function_name, inside, required=True),
        "description": take(inner, "description", read_string, inside),
        "parameters": take(inner, "parameters", read_object, inside),
    }
    return {key: found for key, found in tool.items() if found is not None}


def _require_function(source: Mapping[str, Any], at: str) -> None:
    kind = take(source, "type", read_string, at, required=True)
    if kind != "function":
        raise unsupported(f"{at}.type", "only functions can be called")
