"""`POST /v1/chat/completions`: a request body in, one JSON answer or a stream of events out.

Transport only: what a request says and how an answer is written is `protocol.chat`'s, who answers is a `ChatBackend`.
Nothing is sent before there is something to say, so that an answer that fails at once has its proper status; a
stream that is quiet for long is kept alive with comments. When the client leaves, the answer is given up where it is.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import attrs
import orjson
import structlog
import trio
from attrs import Factory, frozen

from duplex_trio.entrypoints.chat_backend import ChatAnswer, ChatBackend
from duplex_trio.protocol.chat import (
    SPOKEN_TTL_S,
    AnswerFrame,
    ChatError,
    ChatPiece,
    ChatRequest,
    FinishPiece,
    SpokenAnswers,
    StreamedAnswer,
    WholeAnswer,
    read_chat_request,
)
from duplex_trio.serving.asgi import JSON, Headers, Receive, Scope, Send, header, respond, respond_early
from duplex_trio.serving.channel import trace_headers
from duplex_trio.serving.event_stream import EventStream
from duplex_trio.serving.request_body import BodyReader, ClientGoneError, UnreadError, discard_body

if TYPE_CHECKING:
    from duplex_trio.serving.deployment import Deployment

log = structlog.get_logger("duplex_trio.chat")

KEEP_ALIVE_S = 10.0
"""A stream that said nothing for so long shows that it lives: proxies give up after half a minute."""
READ_HERE_BYTES_MAX = 64 * 1024
"""A larger body, which holds sound, is read in a thread: nobody's conversation waits for it."""
READERS_MAX = 2
"""Such threads at once."""

_JSON_TYPES = frozenset({"", "application/json", "application/x-www-form-urlencoded"})
"""Content types that are read as JSON. The last is what `curl -d` says of whatever it sends; a foreign page that could
say so too is kept out by its origin."""

Work = Callable[[], Awaitable[None]]
WhileConnected = Callable[[Receive, Work], Awaitable[None]]
"""Does some work and cancels it when the client leaves."""


@frozen(kw_only=True)
class ChatCompletions:
    """The route of one deployment.

    Attributes:
        deployment: what is served.
        backend: answers.
        while_connected: does the work of a request for as long as its client is there.
        bodies: reads request bodies.
    """

    deployment: Deployment
    backend: ChatBackend
    while_connected: WhileConnected
    bodies: BodyReader = Factory(BodyReader)
    _spoken: SpokenAnswers = Factory(SpokenAnswers)
    _readers: trio.CapacityLimiter = Factory(lambda: trio.CapacityLimiter(READERS_MAX))

    @property
    def available(self) -> bool:
        """Whether the model serves chat completions."""
        return self.backend.available

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            request = await self._read(scope["headers"], receive)
        except ClientGoneError:
            return
        except UnreadError as unread:
            comes = unread.error.status != 408  # a body that stalls is not waited for
            await _fail(send, unread.error, partial(discard_body, receive) if comes else None)
            return
        except ChatError as error:
            await _fail(send, error)
            return
        request = attrs.evolve(request, trace_headers=trace_headers(scope["headers"]))
        answer = self._stream if request.stream else self._whole
        await self.while_connected(receive, partial(answer, request, send))

    def _refuse(self, headers: Headers) -> None:
        if self.deployment.draining:
            raise ChatError(503, "shutting_down", "the server is shutting down")
        kind = header(headers, b"content-type").partition(";")[0].strip().lower()
        if kind not in _JSON_TYPES and not kind.endswith("+json"):
            message = f"the body must be application/json, not {kind[:64]}"
            raise ChatError(415, "unsupported_media_type", message)

    async def _read(self, headers: Headers, receive: Receive) -> ChatRequest:
        with self.bodies.hold() as held:
            try:
                self._refuse(headers)
                body = await self.bodies.read(headers, receive, held)
            except ChatError as error:
                raise UnreadError(error) from error
            read = partial(read_chat_request, body, self.backend.sound_rate_hz)
            if len(body) <= READ_HERE_BYTES_MAX:
                request = read()
            else:
                request = await trio.to_thread.run_sync(read, limiter=self._readers)
        return request.with_words(lambda audio_id: self._spoken.recall(audio_id, time.time()))

    # ------------------------------------------------------------------ answering

    async def _whole(self, request: ChatRequest, send: Send) -> None:
        whole = WholeAnswer(self._frame(request))
        try:
            async with self.backend.answer(request) as answer:
                piece: ChatPiece | None = None
                while not isinstance(piece, FinishPiece):
                    piece = await answer.next_piece()
                    whole.take(piece)
        except ChatError as error:
            await _fail(send, error)
            return
        self._remember(whole)
        await respond(send, 200, orjson.dumps(whole.render()), [JSON])

    async def _stream(self, request: ChatRequest, send: Send) -> None:
        streamed, stream = StreamedAnswer(self._frame(request)), EventStream(send)
        try:
            async with self.backend.answer(request) as answer:
                piece: ChatPiece | None = None
                while not isinstance(piece, FinishPiece):
                    piece = await _next_piece(answer, stream)
                    for chunk in streamed.take(piece):
                        await stream.event(chunk)
        except ChatError as error:
            if not stream.started:
                await _fail(send, error)
                return
            _note(error)
            await stream.event(error.body())
        self._remember(streamed)
        await stream.end()

    def _frame(self, request: ChatRequest) -> AnswerFrame:
        now_s = int(time.time())
        return AnswerFrame(
            completion_id=f"chatcmpl-{secrets.token_hex(16)}",
            created_s=now_s,
            model=request.model or self.deployment.model_name or "",
            speaks=request.speaks,
            audio_format=request.audio.format,
            audio_id=f"audio-{secrets.token_hex(16)}",
            expires_s=now_s + SPOKEN_TTL_S,
            include_usage=request.include_usage,
            stage_metrics=request.stage_metrics,
        )

    def _remember(self, answer: WholeAnswer | StreamedAnswer) -> None:
        if answer.transcript:
            self._spoken.remember(answer.frame.audio_id, answer.transcript, answer.frame.expires_s)


async def _next_piece(answer: ChatAnswer, stream: EventStream) -> ChatPiece:
    while True:
        with trio.move_on_after(KEEP_ALIVE_S):
            return await answer.next_piece()
        await stream.keep_alive()


async def _fail(send: Send, error: ChatError, rest: Work | None = None) -> None:
    """Tell the client; one that is still sending is told at once, and its request is read to its end then."""
    _note(error)
    wait = error.retry_after_s
    headers = [JSON, *([(b"retry-after", str(wait).encode())] if wait is not None else [])]
    body = orjson.dumps(error.body())
    if rest is None:
        await respond(send, error.status, body, headers)
    else:
        await respond_early(send, error.status, body, headers, rest)


def _note(error: ChatError) -> None:
    log.info("chat.failed", status=error.status, code=error.code, param=error.param)
