"""A WebSocket client that sends exactly the bytes it is told to, for tests of what a broken client does.

Owns the client's half of RFC 6455 as far as tests need it; real clients use `duplex_trio.clients`.
"""

from __future__ import annotations

import base64
import os
import struct

import trio
from attrs import define, frozen

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
FIN = 0x80
MASK = b"\x11\x22\x33\x44"


@frozen
class Frame:
    """A frame from the server. `opcode` is without FIN."""

    opcode: int
    payload: bytes

    @property
    def close_code(self) -> int:
        """The code in a close frame; 1005 if it has none."""
        assert self.opcode == CLOSE
        return int(struct.unpack("!H", self.payload[:2])[0]) if self.payload else 1005

    @property
    def close_reason(self) -> str:
        """The reason in a close frame."""
        return self.payload[2:].decode()


def frame(first_byte: int, payload: bytes, *, mask: bytes | None = MASK) -> bytes:
    """Build one client frame. `first_byte` holds FIN, the reserved bits and the opcode."""
    length = len(payload)
    masked = 0x80 if mask is not None else 0
    if length < 126:
        head = bytes([first_byte, masked | length])
    elif length < 1 << 16:
        head = bytes([first_byte, masked | 126]) + struct.pack("!H", length)
    else:
        head = bytes([first_byte, masked | 127]) + struct.pack("!Q", length)
    if mask is None:
        return head + payload
    key = int.from_bytes((mask * (length // 4 + 1))[:length], "big")
    return head + mask + (int.from_bytes(payload, "big") ^ key).to_bytes(length, "big")


def upgrade_request(target: str, headers: dict[str, str] | None = None) -> bytes:
    """Build the request that asks for a WebSocket; `headers` are more of them, or stand for those it has."""
    fields = {
        "Host": "127.0.0.1",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        **(headers or {}),
    }
    lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@define
class RawWebSocket:
    """A TCP connection with a read buffer, and the frames on it."""

    stream: trio.SocketStream
    buffer: bytes = b""

    @classmethod
    async def open(cls, port: int) -> RawWebSocket:
        """Connect over TCP and say nothing."""
        return cls(await trio.open_tcp_stream("127.0.0.1", port))

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        await self.stream.send_all(data)

    async def send_text(self, text: str) -> None:
        """Send one whole text message."""
        await self.send(frame(FIN | TEXT, text.encode()))

    async def response_head(self) -> tuple[int, dict[str, str]]:
        """Read the status and the headers of a response; the names are lower case."""
        while b"\r\n\r\n" not in self.buffer:
            assert await self._fill(), f"the server closed after {self.buffer!r}"
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin1").split("\r\n")
        pairs = (line.split(":", 1) for line in lines)
        return int(status.split(" ")[1]), {name.lower(): value.strip() for name, value in pairs}

    async def read(self, count: int) -> bytes | None:
        """Read exactly `count` bytes; None if the server closes before that."""
        while len(self.buffer) < count:
            if not await self._fill():
                return None
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    async def receive(self) -> Frame | None:
        """Read the next frame; None at the end of the stream."""
        head = await self.read(2)
        if head is None:
            return None
        assert not head[1] & 0x80, "a server does not mask"
        length: int = head[1] & 0x7F
        if length >= 126:
            extended = await self.read(2 if length == 126 else 8)
            assert extended is not None
            length = int.from_bytes(extended, "big")
        payload = await self.read(length)
        return None if payload is None else Frame(head[0] & 0x0F, payload)

    async def at_end(self) -> bool:
        """Read until the server closes, ignoring everything."""
        self.buffer = b""
        while await self._fill():
            self.buffer = b""
        return True

    async def _fill(self) -> bool:
        try:
            data = await self.stream.receive_some(65536)
        except trio.BrokenResourceError:
            return False
        self.buffer += bytes(data)
        return bool(data)

    async def aclose(self) -> None:
        """Drop the connection."""
        await self.stream.aclose()
