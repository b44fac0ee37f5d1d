"""The few ASGI messages this server sends and reads, so that nothing else spells them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from duplex_trio.serving.channel import Header

Scope = Mapping[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

JSON: Header = (b"content-type", b"application/json")

BODY_DISCARD_MAX_BYTES = 16 * 1024 * 1024
"""How much of a request body is read only to be thrown away, so that the client gets to read its answer."""


async def respond(send: Send, status: int, body: bytes, headers: Iterable[Header] = ()) -> None:
    """Send a whole HTTP response."""
    all_headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})


async def discard_body(receive: Receive) -> None:
    """Read the request to its end, or to a limit: a client that is still sending does not read its answer."""
    discarded = 0
    while discarded <= BODY_DISCARD_MAX_BYTES:
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            return
        discarded += len(message.get("body", b""))
