"""What a server may write to a client that sends rubbish, checked byte by byte. No loop, no socket."""

from __future__ import annotations

import re
import struct

import orjson

_CLOSE_CODES = frozenset({1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013})
"""Codes that may stand in a close frame of a server (RFC 6455 7.4, and its registry)."""
_OPCODES = frozenset({0x0, 0x1, 0x2, 0x8, 0x9, 0xA})


class BadBytes(AssertionError):
    """A server wrote what no server may write; the message says where."""


def check_answer(data: bytes) -> list[int]:
    """Check everything a server wrote to one connection.

    Returns:
        The statuses of its responses, and the code of its close frame if there is one.

    Raises:
        BadBytes: it is no sequence of HTTP responses, or what follows an upgrade are no frames of a server.
    """
    codes: list[int] = []
    while data:
        if (
            data.startswith(b"\x00\x00") or data[:3] == b"\x15\x03\x03"
        ):  # an HTTP/2 server's frames; a TLS alert
            return codes
        head, separator, rest = data.partition(b"\r\n\r\n")
        found = re.match(rb"HTTP/1\.[01] (\d{3}) ?[^\r\n]*(?=\r\n|$)", head)
        if not separator or found is None:
            raise BadBytes(f"no HTTP response: {data[:200]!r}")
        status = int(found[1])
        codes.append(status)
        if status == 101:
            if b"upgrade: h2c" in head.lower():
                return codes
            return codes + _check_frames(rest)
        if status < 200:
            data = rest
            continue
        data = rest[_body_length(head, rest) :]
    return codes


def _body_length(head: bytes, rest: bytes) -> int:
    lower = head.lower()
    length = re.search(rb"\r\ncontent-length: *(\d+)", lower)
    if b"transfer-encoding: chunked" in lower:
        end = rest.find(b"0\r\n\r\n")
        return len(rest) if end < 0 else end + 5
    # The answer to HEAD has a length and no body: what follows is the next response then.
    if length is None or rest.startswith(b"HTTP/1."):
        return 0 if rest.startswith(b"HTTP/1.") else len(rest)
    return int(length[1])


def _check_frames(data: bytes) -> list[int]:
    at = 0
    while at < len(data):
        frame = _frame(data, at)
        if frame is None:
            return []  # cut off in the middle: the connection was lost
        opcode, payload, at = frame
        if opcode == 0x8:
            if at != len(data):
                raise BadBytes(f"{data[at : at + 50]!r} follows a close frame")
            return [_close_code(payload)]
        if opcode == 0x1:
            orjson.loads(payload)
    return []


def _frame(data: bytes, at: int) -> tuple[int, bytes, int] | None:
    if len(data) < at + 2:
        return None
    first, second = data[at], data[at + 1]
    if first & 0x70 or second & 0x80 or first & 0x0F not in _OPCODES:
        raise BadBytes(f"no frame of a server: {data[at : at + 20]!r}")
    at, length = at + 2, second & 0x7F
    if length >= 126:
        size = 2 if length == 126 else 8
        if len(data) < at + size:
            return None
        length, at = int.from_bytes(data[at : at + size], "big"), at + size
    if len(data) < at + length:
        return None
    return first & 0x0F, data[at : at + length], at + length


def _close_code(payload: bytes) -> int:
    if not payload:
        return 1005  # the answer to a close frame without a code has none either
    if len(payload) < 2 or len(payload) > 125:
        raise BadBytes(f"no payload of a close frame: {payload!r}")
    code: int = struct.unpack("!H", payload[:2])[0]
    if code not in _CLOSE_CODES:
        raise BadBytes(f"close code {code}")
    payload[2:].decode()
    return code
