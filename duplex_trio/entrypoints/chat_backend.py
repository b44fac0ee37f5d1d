"""Who answers chat requests, as the route sees it.

A deployment of sessions has `DuplexChatCompletionsAdapter`; one that serves requests alone answers the same route with
a class of its own. Nothing here knows a session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager

from duplex_trio.protocol.chat import ChatPiece, ChatRequest


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
