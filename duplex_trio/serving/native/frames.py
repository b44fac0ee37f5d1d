"""The frames of a WebSocket as a server meets them (RFC 6455 5), without I/O: bytes in, messages out.

Written out because every message passes it, and Python costs: the sans-IO layer of `websockets` takes 2.3 to 2.7
times as long for a frame, that of `wsproto` 7 to 10 times. Tests hold it against the former, byte by byte. The
masking is that library's.

Nothing over the limit is kept: the length of a frame is judged before its payload. Extensions are not known, so
a reserved bit is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from attrs import frozen

try:
    from websockets.speedups import apply_mask
except ImportError:  # a build without its extension
    from websockets.utils import apply_mask

_unmask = cast(Callable[[memoryview, bytes], bytes], apply_mask)  # it takes any buffer

CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA
FIN: Final = 0x80

_RESERVED: Final = 0x70
_OPCODE: Final = 0x0F
_MASKED: Final = 0x80
_CONTROL_MAX_BYTES: Final = 125
_OPCODES = frozenset({CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG})
_CLOSE_CODES = frozenset({*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)})
"""What may be in a close frame (RFC 6455 7.4 and its registry); 1005, 1006 and 1015 are for use on one side."""

PROTOCOL_ERROR: Final = 1002
INVALID_DATA: Final = 1007
TOO_BIG: Final = 1009


@frozen
class BinaryMessage:
    """A whole binary message."""

    data: bytes


@frozen
class Ping:
    """To be answered with a pong that carries the same."""

    data: bytes


@frozen
class PeerClose:
    """The peer's close frame, after which nothing comes. `code` is 1005 when it has none."""

    code: int
    reason: str


@frozen
class Violation:
    """The peer broke a rule, and nothing more is read from it. `code` is the close code that says which."""

    code: int
    reason: str


Received = str | BinaryMessage | Ping | PeerClose | Violation
"""A `str` is a whole text message. Pongs are not told."""


class _BrokenRuleError(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.violation = Violation(code, reason)


class FrameDecoder:
    """Reads the frames of one client.

    Args:
        message_bytes_max: how long a message may be, all its fragments together.
    """

    __slots__ = (
        "_cut_head",
        "_ended",
        "_first",
        "_mask",
        "_max",
        "_message",
        "_message_opcode",
        "_missing",
        "_payload",
    )

    def __init__(self, message_bytes_max: int) -> None:
        self._max = message_bytes_max
        self._ended = False
        self._cut_head = b""  # of a frame: what has come of it
        self._message: bytearray | None = None  # the fragments so far
        self._message_opcode = TEXT
        # A frame whose payload has not come whole:
        self._missing = 0
        self._first = 0
        self._mask = b""
        self._payload = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> list[Received]:
        """Take the next bytes; `data` is not kept. A `PeerClose` or `Violation` is the last thing ever told."""
        received: list[Received] = []
        if self._ended:
            return received
        try:
            self._decode(memoryview(data), received)
        except _BrokenRuleError as broken:
            received.append(broken.violation)
            self._end()
        return received

    def _end(self) -> None:
        self._ended = True
        self._cut_head, self._message, self._payload = b"", None, bytearray()

    def _decode(self, view: memoryview, received: list[Received]) -> None:
        if self._cut_head:
            view = memoryview(self._cut_head + view)
            self._cut_head = b""
        position, end = self._go_on(view, received), len(view)
        while position < end and not self._ended:
            if end - position < 2:
                break
            first, second = view[position], view[position + 1]
            if first != FIN | TEXT or second < _MASKED or self._message is not None:
                self._check(first, second)
            length, start = second & 0x7F, position + 6
            if length > _CONTROL_MAX_BYTES:
                extended = 2 if length == 126 else 8
                start += extended
                if end < position + 2 + extended:
                    break
                length = int.from_bytes(view[position + 2 : position + 2 + extended], "big")
                _check_extended(length, extended)
            if length > self._max - (0 if self._message is None else len(self._message)):
                self._check_size(first)
            if end < start:
                break
            stop, mask = start + length, bytes(view[start - 4 : start])
            payload = _unmask(view[start:stop], mask)
            if end < stop:
                self._first, self._mask, self._missing = first, mask, stop - end
                self._payload = bytearray(payload)
            else:
                self._frame(first, payload, received)
            position = stop
        if position < end and not self._ended:
            self._cut_head = bytes(view[position:])

    def _go_on(self, view: memoryview, received: list[Received]) -> int:
        """Read on in a payload that did not come whole; returns where the next frame begins."""
        if not self._missing:
            return 0
        piece = view[: self._missing]
        turn = len(self._payload) % 4
        self._payload += _unmask(piece, self._mask[turn:] + self._mask[:turn])
        self._missing -= len(piece)
        if not self._missing:
            payload, self._payload = self._payload, bytearray()
            self._frame(self._first, payload, received)
        return len(piece)

    def _check(self, first: int, second: int) -> None:
        opcode = first & _OPCODE
        if first & _RESERVED:
            raise _BrokenRuleError(PROTOCOL_ERROR, "reserved bits are set, and no extension was agreed")
        if opcode not in _OPCODES:
            raise _BrokenRuleError(PROTOCOL_ERROR, f"opcode {opcode} is not defined")
        if second < _MASKED:
            raise _BrokenRuleError(PROTOCOL_ERROR, "a client masks its frames")
        if opcode >= CLOSE:
            if not first & FIN:
                raise _BrokenRuleError(PROTOCOL_ERROR, "a control frame is not fragmented")
            if second & 0x7F > _CONTROL_MAX_BYTES:
                raise _BrokenRuleError(PROTOCOL_ERROR, "a control frame is too long")
        elif opcode == CONTINUATION and self._message is None:
            raise _BrokenRuleError(PROTOCOL_ERROR, "there is no message to be continued")
        elif opcode != CONTINUATION and self._message is not None:
            raise _BrokenRuleError(PROTOCOL_ERROR, "the message before is not finished")

    def _check_size(self, first: int) -> None:
        if first & _OPCODE < CLOSE:
            raise _BrokenRuleError(TOO_BIG, f"a message has at most {self._max} bytes")

    def _frame(self, first: int, payload: bytes | bytearray, received: list[Received]) -> None:
        """Act on a whole frame that has passed the checks."""
        opcode = first & _OPCODE
        if opcode >= CLOSE:
            self._control(opcode, bytes(payload), received)
            return
        if self._message is not None:
            self._message += payload
            payload, opcode = self._message, self._message_opcode
        if first & FIN:
            self._message = None
            received.append(_decode_text(payload) if opcode == TEXT else BinaryMessage(bytes(payload)))
        elif self._message is None:
            self._message, self._message_opcode = bytearray(payload), opcode

    def _control(self, opcode: int, payload: bytes, received: list[Received]) -> None:
        if opcode == PING:
            received.append(Ping(payload))
        elif opcode == CLOSE:
            received.append(_read_close(payload))
            self._end()


def text_frame(payload: bytes) -> bytes:
    """The frame of one whole text message; it must be UTF-8."""
    return encode_frame(TEXT, payload)


def close_frame(code: int, reason: str) -> bytes:
    """A close frame; `code` 1005 makes one without a code. The reason has at most 123 bytes."""
    return encode_frame(CLOSE, b"" if code == 1005 else code.to_bytes(2, "big") + reason.encode())


def encode_frame(opcode: int, payload: bytes) -> bytes:
    """One frame from a server, which does not mask."""
    return frame_head(opcode, len(payload)) + payload


def frame_head(opcode: int, length: int) -> bytes:
    """What precedes a payload of so many bytes, which is then written as it is."""
    if length <= _CONTROL_MAX_BYTES:
        return bytes((FIN | opcode, length))
    if length < 1 << 16:
        return bytes((FIN | opcode, 126, length >> 8, length & 0xFF))
    return bytes((FIN | opcode, 127)) + length.to_bytes(8, "big")


def _check_extended(length: int, extended: int) -> None:
    if length < (126 if extended == 2 else 1 << 16) or length >> 63:
        raise _BrokenRuleError(PROTOCOL_ERROR, "a length is written in the shortest way")


def _decode_text(payload: bytes | bytearray) -> str:
    try:
        return str(payload, "utf-8")
    except UnicodeDecodeError:
        raise _BrokenRuleError(INVALID_DATA, "text is UTF-8") from None


def _read_close(payload: bytes) -> PeerClose:
    if not payload:
        return PeerClose(1005, "")
    code = int.from_bytes(payload[:2], "big")
    if len(payload) == 1 or code not in _CLOSE_CODES:
        raise _BrokenRuleError(PROTOCOL_ERROR, "that is no close code")
    return PeerClose(code, _decode_text(payload[2:]))
