"""The opening handshake of a WebSocket over HTTP/1.1 (RFC 6455 4.2), as functions of headers. No I/O.

Both transports judge a request by it: the native one answers with what it returns, and the guards of the ASGI
one refuse with it before any application is asked. Who may come in is `auth`'s.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Sequence
from http import HTTPStatus

import orjson
from wsproto.utilities import generate_accept_token

from duplex_trio.serving.asgi import JSON
from duplex_trio.serving.channel import Header
from duplex_trio.serving.responses import Response, error_body

VERSION = b"13"


def asks_for_websocket(headers: Iterable[Header]) -> bool:
    """Whether a GET request with these headers wants to be upgraded to a WebSocket."""
    listed = list(headers)
    upgrades = [token.lower() for token in _listed(listed, b"upgrade")]
    connections = [token.lower() for token in _listed(listed, b"connection")]
    return "websocket" in upgrades and "upgrade" in connections


def check_upgrade(headers: Sequence[Header]) -> Response | None:
    """Refuse a request that asks for a WebSocket in a wrong way; None lets it pass."""
    if not all(value.isascii() for name, value in headers if name.startswith(b"sec-websocket-")):
        return bad_upgrade("the headers of a request for a WebSocket are ASCII")
    versions = _values(headers, b"sec-websocket-version")
    if versions != [VERSION]:
        body = error_body(
            "invalid_request_error", "unsupported_websocket_version", "Sec-WebSocket-Version must be 13"
        )
        upgrade = ((b"upgrade", b"websocket"), (b"sec-websocket-version", VERSION))
        return Response(426, orjson.dumps(body), (JSON, *upgrade))
    keys = _values(headers, b"sec-websocket-key")
    if len(keys) != 1 or not _is_key(keys[0]):
        return bad_upgrade("Sec-WebSocket-Key must be 16 bytes in base64")
    if _values(headers, b"transfer-encoding") or _values(headers, b"content-length") not in ([], [b"0"]):
        return bad_upgrade("a request for a WebSocket has no body")
    return None


def bad_upgrade(message: str) -> Response:
    """What a client gets whose request for a WebSocket is faulty."""
    return Response(
        400, orjson.dumps(error_body("invalid_request_error", "invalid_websocket_request", message))
    )


def early_data() -> Response:
    """What a client gets that sends something before its handshake is answered (RFC 6455 4.1)."""
    return bad_upgrade("nothing may be sent before the handshake is answered")


def offered_subprotocols(headers: Iterable[Header]) -> tuple[str, ...]:
    """The subprotocols a client offers, in its order."""
    return tuple(_listed(headers, b"sec-websocket-protocol"))


def accepting_head(headers: Iterable[Header], subprotocol: str | None) -> bytes:
    """The response that makes the connection a WebSocket; no extension is agreed to."""
    (key,) = _values(headers, b"sec-websocket-key")
    lines: list[Header] = [
        (b"upgrade", b"websocket"),
        (b"connection", b"Upgrade"),
        (b"sec-websocket-accept", generate_accept_token(key)),
    ]
    if subprotocol is not None:
        lines.append((b"sec-websocket-protocol", subprotocol.encode()))
    return _head(101, lines)


def closing_response(status: int, body: bytes, headers: Iterable[Header]) -> bytes:
    """A whole HTTP response after which the connection is closed."""
    framing = ((b"content-length", str(len(body)).encode()), (b"connection", b"close"))
    return _head(status, [*headers, *framing]) + body


def _head(status: int, headers: Iterable[Header]) -> bytes:
    first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()
    return b"\r\n".join([first, *(name + b": " + value for name, value in headers), b"", b""])


def _values(headers: Iterable[Header], name: bytes) -> list[bytes]:
    return [value for header, value in headers if header == name]


def _listed(headers: Iterable[Header], name: bytes) -> list[str]:
    values = (value.decode("latin1") for value in _values(headers, name))
    return [item for value in values for part in value.split(",") if (item := part.strip())]


def _is_key(value: bytes) -> bool:
    try:
        return len(binascii.a2b_base64(value, strict_mode=True)) == 16
    except binascii.Error:
        return False
