"""What browsers are told so that pages from allowed origins may use the HTTP routes.

A page of another origin may read an answer only if the answer names that origin, and a browser asks before it sends
what a form could not (a *preflight*). Which origins are allowed is `auth`'s.
"""

from __future__ import annotations

from typing import Any

from duplex_trio.serving.asgi import Headers, Send, header
from duplex_trio.serving.channel import Header

METHODS = b"GET, HEAD, POST, OPTIONS"
PREFLIGHT_MAX_AGE_S = 600
"""How long a browser need not ask again."""


def is_preflight(method: str, headers: Headers) -> bool:
    """Whether a browser asks what its page may send."""
    found = {name for name, _ in headers}
    return method == "OPTIONS" and {b"origin", b"access-control-request-method"} <= found


def preflight_headers(headers: Headers) -> list[Header]:
    """What an allowed page may send: any header, for none does harm without a key."""
    asked = header(headers, b"access-control-request-headers").encode("latin1")
    allowed = [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-max-age", str(PREFLIGHT_MAX_AGE_S).encode()),
        *([(b"access-control-allow-headers", asked)] if asked else []),
    ]
    if header(headers, b"access-control-request-private-network") == "true":
        allowed.append((b"access-control-allow-private-network", b"true"))
    return allowed


def readable_by(origin: str, send: Send) -> Send:
    """A `send` whose answers a page of this origin may read."""
    added: list[Header] = [
        (b"access-control-allow-origin", origin.encode("latin1")),
        (b"access-control-expose-headers", b"retry-after"),
        (b"vary", b"origin"),
    ]

    async def to_page(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return to_page
