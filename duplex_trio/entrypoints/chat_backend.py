"""Who answers chat requests, as the route sees it.

A deployment of sessions has `DuplexChatCompletionsAdapter`; one that serves requests alone answers the same route with
a class of its own. Nothing here knows a session.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager

from duplex_trio.protocol.chat import (
    ChatItem,
    ChatPiece,
    ChatRequest,
    InputImagePart,
    MessageItem,
    unsupported,
)

_TOOL = re.compile(r"(?:response\.)?(tools\[\d+\])\.parameters")


class ChatAnswer(ABC):
    """One answer while it comes."""

    @abstractmethod
    async def next_piece(self) -> ChatPiece:
        """Wait for more of the answer. The last piece is a `FinishPiece`; nothing is to be asked for behind it.

        When this is cancelled, nothing is lost.

        Raises:
            ChatError: the answer ends without having come to its end.
        """


class ChatBackend(ABC):
    """Answers chat requests."""

    @property
    @abstractmethod
    def available(self) -> bool:
        """Whether the model serves chat completions."""

    @property
    @abstractmethod
    def sound_rate_hz(self) -> int:
        """Rate at which the model hears the sound of a request."""

    @abstractmethod
    def answer(self, request: ChatRequest) -> AbstractAsyncContextManager[ChatAnswer]:
        """Ask the model, for as long as the context is open; to leave it ends all work on the answer.

        Entering it raises:
            ChatError: the model cannot answer such a request, or there is no room for it now.
        """


def refuse_unsupported(
    request: ChatRequest, *, calls_functions: bool, takes_images: bool, knobs: AbstractSet[str]
) -> None:
    """Refuse what a model does not have.

    Args:
        request: the request.
        calls_functions: whether the model does.
        takes_images: whether the model does.
        knobs: the fields of `Sampling` that it honours.

    Raises:
        ChatError: `unsupported_parameter`, naming the field.
    """
    if request.tools and not calls_functions:
        raise unsupported("tools", "the model calls no functions")
    if request.tools and request.sampling.json_schema is not None and request.tool_choice != "none":
        raise unsupported("response_format", "an answer is JSON or calls functions, not either")
    for name in sorted(request.sampling.set_knobs - knobs):
        param = "response_format" if name == "json_schema" else name
        raise unsupported(param, "the model does not have it")
    if not takes_images:
        for item in request.items:
            if _shows(item):
                raise unsupported(f"{item.at}.content", "the model takes no images")


def param_of_tool(param: str | None) -> str | None:
    """The parameters of a function as a chat request spells their place; None for anything else."""
    tool = _TOOL.fullmatch(param or "")
    return f"{tool[1]}.function.parameters" if tool is not None else None


def _shows(item: ChatItem) -> bool:
    return isinstance(item.item, MessageItem) and any(
        isinstance(part, InputImagePart) for part in item.item.content
    )
