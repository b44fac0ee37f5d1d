"""The names of functions, which are the same for sessions, responses and chats."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from duplex_trio.protocol.json_values import read_string

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""OpenAI's rule."""


def read_function_name(value: Any) -> str:
    """The name of a function.

    Raises:
        ValueError: it is none.
    """
    if _NAME.fullmatch(read_string(value)) is None:
        raise ValueError("expected 1 to 64 letters, digits, underscores and hyphens")
    return str(value)


def repeated_name(tools: Sequence[Mapping[str, Any]]) -> int | None:
    """The index of the first function that has the name of one before it."""
    names: set[str] = set()
    for index, tool in enumerate(tools):
        if tool["name"] in names:
            return index
        names.add(tool["name"])
    return None
