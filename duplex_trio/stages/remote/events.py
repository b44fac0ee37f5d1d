"""Reads the bytes of a stream of server-sent events.

httpx can split lines too, but at every character that Unicode calls a line's end; several of those stand unescaped
within the JSON of an answer.
"""

from __future__ import annotations

import re

from attrs import define, field

EVENT_BYTES_MAX = 4 * 1024 * 1024
"""Longest event, and longest line. An engine's pieces have a few hundred bytes."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventTooLongError(Exception):
    """An event has more than `EVENT_BYTES_MAX` bytes."""


@define(eq=False)
class EventReader:
    """One stream, from its first byte to its last.

    Only the data of events is kept: comments, names, ids and waits say nothing that a chat needs. Bytes that are no
    UTF-8 become replacement characters.
    """

    _line: list[bytes] = field(factory=list)
    _line_bytes: int = 0
    _data: list[bytes] = field(factory=list)
    _data_bytes: int = 0
    _behind_return: bool = False
    _begun: bool = False

    def feed(self, received: bytes) -> list[str]:
        """Take the next bytes, however they are cut; returns the data of the events that they complete.

        Raises:
            EventTooLongError: see the class.
        """
        if self._behind_return and received:
            # The return ended its line at once: a lone one is an end too, and what follows may be long in coming.
            received = received.removeprefix(b"\n")
            self._behind_return = False
        if not received:
            return []
        self._behind_return = received.endswith(b"\r")
        *whole, rest = _LINE_END.split(received)
        events: list[str] = []
        for line in whole:
            self._hold(line)
            self._take_line(events)
        self._hold(rest)
        return events

    def end(self) -> list[str]:
        """The stream is over; returns the data of an event that had no empty line behind it."""
        events: list[str] = []
        self._take_line(events)
        self._take_line(events)
        return events

    def _hold(self, part: bytes) -> None:
        if part:
            self._line.append(part)
            self._line_bytes += len(part)
            if self._line_bytes + self._data_bytes > EVENT_BYTES_MAX:
                raise EventTooLongError(f"an event has more than {EVENT_BYTES_MAX} bytes")

    def _take_line(self, events: list[str]) -> None:
        line = b"".join(self._line)
        self._line, self._line_bytes = [], 0
        if not self._begun and line:
            self._begun = True
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            if self._data:
                events.append(b"\n".join(self._data).decode(errors="replace"))
            self._data, self._data_bytes = [], 0
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_bytes += len(value) + 1
            if self._data_bytes > EVENT_BYTES_MAX:
                raise EventTooLongError(f"an event has more than {EVENT_BYTES_MAX} bytes")
