"""The few ASGI messages this server sends and reads, so that nothing else spells them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from duplex_trio.serving.channel import Header

Scope = Mapping[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Headers = Iterable[tuple[bytes, bytes]]
"""Lower-case names and values of a request."""
Send = Callable[[dict[str, Any]], Awaitable[None]]

JSON: Header = (b"content-type", b"application/json")


async def respond(send: Send, status: int, body: bytes, headers: Iterable[Header] = ()) -> None:
    """Send a whole HTTP response."""
    all_headers = [*headers]
    if status not in (204, 304):  # which have no body, and must not say how long it is
        all_headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})


async def respond_early(
    send: Send, status: int, body: bytes, headers: Iterable[Header], rest: Callable[[], Awaitable[None]]
) -> None:
    """Send a whole HTTP response to a request that may not be read yet, and end it when `rest` is done."""
    all_headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    await rest()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def header(headers: Headers, name: bytes) -> str:
    """The first value of a header, by its lower-case name; empty when there is none."""
    return next((value.decode("latin1") for key, value in headers if key == name), "")
