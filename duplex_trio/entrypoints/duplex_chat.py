"""Chat completions by a model that serves sessions: each request is a session that is asked once.

The request's messages become the conversation of a fresh session, which answers, and is closed. So a chat hears, calls
functions and speaks by the very code that voice sessions use; it has no voice activity, no pace and no memory, and
takes no voice session's slot (`engine/chats`). The session's own events are read by `ChatEventReader`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import trio

from duplex_trio.engine import Attachment, DuplexSessionHandle
from duplex_trio.entrypoints.chat_backend import ChatAnswer, ChatBackend, refuse_unsupported
from duplex_trio.entrypoints.chat_events import ANSWER, ChatEventReader
from duplex_trio.protocol.chat import (
    ChatError,
    ChatPiece,
    ChatRequest,
    FinishPiece,
    of_code,
)
from duplex_trio.protocol.duplex import (
    CreateItem,
    CreateResponse,
    DuplexEvent,
    RealtimeError,
    ResponseCreateOptions,
)

if TYPE_CHECKING:
    from duplex_trio.entrypoints.duplex_omni import DuplexOmni

PIECES_MAX = 32
"""Pieces that wait for a slow reader before the model waits too."""
SLOT_WAIT_S = 1.0
"""How long an answer that is complete waits for its slot to be free, so that whoever asks next finds it so."""


class DuplexChatCompletionsAdapter(ChatBackend):
    """Answers chat requests with sessions.

    Args:
        omni: the engine.
    """

    def __init__(self, omni: DuplexOmni) -> None:
        self._omni = omni

    @property
    def available(self) -> bool:
        """Whether the model serves chat completions."""
        return self._omni.capabilities.supports_chat_completions

    @property
    def sound_rate_hz(self) -> int:
        """Rate at which the model hears."""
        return self._omni.plugin.input_sample_rate_hz

    @asynccontextmanager
    async def answer(self, request: ChatRequest) -> AsyncIterator[ChatAnswer]:
        """Ask a session; see `ChatBackend.answer`."""
        able = self._omni.capabilities
        refuse_unsupported(
            request,
            calls_functions=able.supports_tools,
            takes_images=able.supports_image_input,
            knobs=self._omni.plugin.sampling_knobs,
        )
        attachment = _ChatAttachment()
        patch = {"turn_detection": None, "input_audio_format": "pcm16", "output_audio_format": "pcm16"}
        try:
            handle = await self._omni.open_chat(
                attachment=attachment,
                patch=patch,
                sampling=request.sampling,
                trace_headers=request.trace_headers,
            )
        except RealtimeError as error:
            raise of_code(error.code, error.message, error.param) from error
        try:
            await _ask(handle, request)
            yield _SessionAnswer(attachment)
        finally:
            handle.close("chat_over")
            attachment.pieces.close()
            with trio.move_on_after(SLOT_WAIT_S):
                await handle.wait_closed()  # noqa: ASYNC102  who was cancelled does not wait


async def _ask(handle: DuplexSessionHandle, request: ChatRequest) -> None:
    """Put the messages into the session's conversation and ask for the answer.

    What is refused comes back as an event that names the command, and with it the message.
    """
    for item in request.items:
        await handle.ready()
        handle.submit(CreateItem(item=item.item, event_id=item.at))
    await handle.ready()
    options = ResponseCreateOptions(
        output_modalities=("text", "audio") if request.speaks else ("text",),
        temperature=request.temperature,
        max_output_tokens=request.max_tokens,
        tools=request.tools or None,
        tool_choice=request.tool_choice,
        parallel_tool_calls=request.parallel_tool_calls,
        voice=request.audio.voice if request.speaks else None,
    )
    handle.submit(CreateResponse(event_id=ANSWER, options=options))


class _ChatAttachment(Attachment):
    """Takes what the session says and keeps the pieces of the answer, a few at a time."""

    def __init__(self) -> None:
        self._reader = ChatEventReader()
        self._send, self.pieces = trio.open_memory_channel[ChatPiece | ChatError](PIECES_MAX)
        self._over = False

    async def send(self, event: DuplexEvent) -> None:
        """Take one event; waits while the answer's reader is behind."""
        await trio.lowlevel.checkpoint()
        for piece in () if self._over else self._reader.read(event):
            self._over = isinstance(piece, FinishPiece | ChatError)
            try:
                await self._send.send(piece)
            except trio.Cancelled:
                # The session waits no longer, and nothing may follow what is lost.
                self._send.close()
                raise
            if self._over:
                return

    async def close(self, code: int, reason: str) -> None:
        """No more comes."""
        await trio.lowlevel.checkpoint()
        if not self._over:
            self._over = True
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._send.send(_ended(reason))


class _SessionAnswer(ChatAnswer):
    def __init__(self, attachment: _ChatAttachment) -> None:
        self._pieces = attachment.pieces

    async def next_piece(self) -> ChatPiece:
        try:
            piece = await self._pieces.receive()
        except trio.EndOfChannel:
            raise ChatError(503, "slow_reader", "the answer was given up because nobody read it") from None
        if isinstance(piece, ChatError):
            raise piece
        return piece


def _ended(reason: str) -> ChatError:
    return of_code(reason, "the answer was cut off by the server")
