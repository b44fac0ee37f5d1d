"""Whose is a connection: reads the head of its first request as far as it takes to know. No I/O.

A request for a WebSocket on one of our routes, over HTTP/1.1, is ours. Everything else belongs to the HTTP
server, which gets all bytes as they came: other methods and routes, HTTP/2, heads that are faulty or too long.
"""

from __future__ import annotations

from enum import Enum, auto

import h11

from duplex_trio.serving.channel import Header
from duplex_trio.serving.paths import DUPLEX_PATH, REALTIME_PATH, VIDEO_PATH
from duplex_trio.serving.upgrade import asks_for_websocket

HEAD_MAX_BYTES = 16 * 1024
"""A longer head is the HTTP server's, which refuses it."""

_STARTS = tuple(f"GET {path}".encode() for path in (REALTIME_PATH, DUPLEX_PATH, VIDEO_PATH))


class Verdict(Enum):
    """What is known so far."""

    OPEN = auto()
    OURS = auto()
    NOT_OURS = auto()


class HeadReader:
    """Reads one head.

    Attributes:
        raw: every byte so far.
        target: what is asked for, once the head is ours.
        headers: lower-case names and values, once it is ours.
    """

    def __init__(self) -> None:
        self.raw = bytearray()
        self.target = b""
        self.headers: tuple[Header, ...] = ()
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_MAX_BYTES)

    @property
    def early(self) -> bytes:
        """What came behind the head, before it was answered."""
        return self._parser.trailing_data[0]

    def feed(self, data: bytes) -> Verdict:
        """Take the next bytes; none means that there are no more. A verdict that is not `OPEN` is final."""
        self.raw += data
        if not data or not _may_be_ours(self.raw):
            return Verdict.NOT_OURS
        try:
            self._parser.receive_data(data)
            event = self._parser.next_event()
        except h11.RemoteProtocolError:
            return Verdict.NOT_OURS
        if event is h11.NEED_DATA:
            return Verdict.OPEN
        if (
            not isinstance(event, h11.Request)
            or event.http_version != b"1.1"
            or not asks_for_websocket(event.headers)
        ):
            return Verdict.NOT_OURS
        self.target, self.headers = event.target, tuple(event.headers)
        return Verdict.OURS


def _may_be_ours(raw: bytearray) -> bool:
    for start in _STARTS:
        after = bytes(raw[len(start) : len(start) + 1])
        if raw[: len(start)] == start[: len(raw)] and after in (b"", b" ", b"?"):
            return True
    return False
