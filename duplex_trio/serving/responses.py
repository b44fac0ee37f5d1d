"""Whole HTTP responses, and those that many routes share. Pure."""

from __future__ import annotations

from typing import Any

import orjson
from attrs import frozen

from duplex_trio.serving.asgi import JSON
from duplex_trio.serving.auth import Refusal
from duplex_trio.serving.channel import Header

PATH_CHARS_MAX = 200
"""How much of a path is said back."""
LOADING_RETRY_S = 5
"""When a client that comes too early is told to come again: models take seconds to minutes."""


@frozen
class Response:
    """A whole HTTP response."""

    status: int
    body: bytes
    headers: tuple[Header, ...] = (JSON,)


def error_body(kind: str, code: str, message: str) -> dict[str, Any]:
    """The body of every HTTP error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def refusal_response(refusal: Refusal) -> Response:
    """Answer a request that may not come in."""
    body = orjson.dumps(error_body("invalid_request_error", refusal.code, refusal.message))
    authenticate = ((b"www-authenticate", b"Bearer"),) if refusal.status == 401 else ()
    return Response(refusal.status, body, (JSON, *authenticate))


def server_error(message: str) -> Response:
    """Answer a request that failed through no fault of its client."""
    return Response(500, orjson.dumps(error_body("server_error", "internal_error", message)))


def not_available(path: str) -> Response:
    """Answer for a route that this deployment does not have (decision D13)."""
    message = f"{said_back(path)} is not available in this deployment"
    return Response(404, orjson.dumps(error_body("not_found_error", "not_available", message)))


def still_loading() -> Response:
    """Answer a request that comes before the model is loaded and warm."""
    body = orjson.dumps(error_body("server_error", "loading", "the model is being loaded; try again soon"))
    return Response(503, body, (JSON, (b"retry-after", str(LOADING_RETRY_S).encode())))


def said_back(text: str) -> str:
    """A client's text in an answer: not too long, and Unicode, which a path need not be."""
    return text[:PATH_CHARS_MAX].encode(errors="replace").decode()
