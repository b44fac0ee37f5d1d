"""Reading the body of an HTTP request, bounded in bytes, in time, and over all requests at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio
from attrs import define, field

from duplex_trio.protocol.chat import ChatError
from duplex_trio.serving.asgi import Headers, Receive

BODY_BYTES_MAX = 25 * 1024 * 1024
"""One body: four minutes of pcm16 sound in base64, and what OpenAI takes too."""
BODIES_BYTES_MAX = 128 * 1024 * 1024
"""All bodies that are being read or taken apart."""
BODY_TIMEOUT_S = 60.0
"""A whole body. A larger one than a slow line brings in that time is refused."""
BODY_SILENCE_S = 10.0
"""Between two pieces of it."""
LENGTH_DIGITS_MAX = 20
"""More digits than any length has."""
DISCARD_BYTES_MAX = 64 * 1024 * 1024
"""How much of a body is read only to be thrown away, once the client has its answer: it may be sending still, and not
get the answer at all if the connection ends over what it sent."""


class UnreadError(Exception):
    """A request is refused that may not have been read to its end; `error` is what the client is told."""

    def __init__(self, error: ChatError) -> None:
        super().__init__(error)
        self.error = error


class ClientGoneError(Exception):
    """The client left before its request was whole."""


@define(eq=False)
class BodyReader:
    """Reads the bodies of one server.

    Args:
        limit_bytes: of one body.
        limit_all_bytes: of all that are held at once.
    """

    limit_bytes: int = BODY_BYTES_MAX
    limit_all_bytes: int = BODIES_BYTES_MAX
    held_bytes: int = field(default=0, init=False)

    async def read(self, headers: Headers, receive: Receive, held: Hold) -> bytes:
        """Read a body to its end.

        Args:
            headers: of the request.
            receive: brings the body.
            held: what it counts for, until the caller has done with it.

        Raises:
            ChatError: it is too large (413), too slow (408), or there is no room for it now (429); its headers say
                that it is encoded (415), or nothing sensible about its length (400).
            ClientGoneError: there will be no end.
        """
        _refuse_encoded(headers)
        if _declared_bytes(headers) > self.limit_bytes:
            raise self._too_large()
        body = bytearray()
        with trio.move_on_after(BODY_TIMEOUT_S):
            while True:
                with trio.move_on_after(BODY_SILENCE_S) as patience:
                    message = await receive()
                if patience.cancelled_caught:
                    break
                if message["type"] != "http.request":
                    raise ClientGoneError
                piece = message.get("body", b"")
                body += piece
                if len(body) > self.limit_bytes:
                    raise self._too_large()
                held.add(len(piece))
                if not message.get("more_body", False):
                    return bytes(body)
        raise ChatError(408, "request_timeout", "the body did not come in time")

    @contextmanager
    def hold(self) -> Iterator[Hold]:
        """Room for one body, given back at the end."""
        hold = Hold(self)
        try:
            yield hold
        finally:
            self.held_bytes -= hold.n_bytes

    def _too_large(self) -> ChatError:
        limit = f"a body has at most {self.limit_bytes} bytes"
        return ChatError(413, "request_too_large", limit)


@define(eq=False)
class Hold:
    """What one body takes of the room for all of them."""

    reader: BodyReader
    n_bytes: int = 0

    def add(self, n_bytes: int) -> None:
        """Take more.

        Raises:
            ChatError: there is none, status 429.
        """
        if self.reader.held_bytes + n_bytes > self.reader.limit_all_bytes:
            raise ChatError(429, "resource_exhausted", "too many large requests at once")
        self.reader.held_bytes += n_bytes
        self.n_bytes += n_bytes


def _values(headers: Headers, name: bytes) -> list[str]:
    """What a header says, in all its lines."""
    lines = [value.decode("latin1") for key, value in headers if key == name]
    return [value.strip() for line in lines for value in line.split(",")]


def _refuse_encoded(headers: Headers) -> None:
    for encoding in _values(headers, b"content-encoding"):
        if encoding.lower() not in ("", "identity"):
            message = f"Content-Encoding: the body must be sent as it is, not in {encoding[:64]!r}"
            raise ChatError(415, "unsupported_media_type", message)


def _declared_bytes(headers: Headers) -> int:
    """The length that the headers declare, 0 if they declare none."""
    values = set(_values(headers, b"content-length"))
    if not values:
        return 0
    digits = values.pop()
    if values or not (digits.isascii() and digits.isdigit()):
        raise ChatError(400, "invalid_value", f"Content-Length: {digits[:64]!r} is no number of bytes")
    return int(digits.lstrip("0")[:LENGTH_DIGITS_MAX] or "0")


async def discard_body(receive: Receive) -> None:
    """Read what is left of a request to its end, or to a limit."""
    discarded = 0
    with trio.move_on_after(BODY_SILENCE_S):
        while discarded <= DISCARD_BYTES_MAX:
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body", False):
                return
            discarded += len(message.get("body", b""))
