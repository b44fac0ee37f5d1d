"""A pipe whose other end is the test's: it takes as many bytes as the test lets it."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import trio
from attrs import Factory, define

from duplex_trio.serving.channel import UpgradeRequest
from duplex_trio.serving.native.channel import ChannelLimits, NativeChannel
from duplex_trio.serving.native.pipes import Pipe
from duplex_trio.testing.raw_websocket import Frame

LIMITS = ChannelLimits(
    message_bytes_max=1000,
    ping_interval_s=20.0,
    pings_unanswered_max=2,
    send_timeout_s=5.0,
    linger_quiet_s=1.0,
    linger_max_s=10.0,
)

REQUEST = UpgradeRequest(
    path="/v1/realtime",
    query=b"",
    headers=((b"sec-websocket-key", b"dGhlIHNhbXBsZSBub25jZQ=="),),
    subprotocols=(),
    client="test",
)


@define(eq=False)
class MemoryPipe(Pipe):
    """Attributes: `room` is what the kernel would take; `sent` what it has got."""

    room: float = float("inf")
    sent: bytearray = Factory(bytearray)
    lost: bool = False
    cut: bool = False
    writing_ended: bool = False
    _arrived: bytearray = Factory(bytearray)
    _ended: bool = False
    _changed: trio.Event = Factory(trio.Event)

    def arrive(self, data: bytes) -> None:
        self._arrived += data
        self._note()

    def end(self) -> None:
        """The peer says that nothing more comes."""
        self._ended = True
        self._note()

    def lose(self) -> None:
        """The connection is reset."""
        self.lost = True
        self._note()

    def make_room(self, count: float) -> None:
        self.room += count
        self._note()

    def _note(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def receive(self) -> bytes:
        while not self._arrived:
            if self.lost:
                raise trio.BrokenResourceError
            if self._ended:
                await trio.lowlevel.checkpoint()
                return b""
            await self._changed.wait()
        data, self._arrived = bytes(self._arrived), bytearray()
        return data

    def send_nowait(self, data: bytes | memoryview) -> int:
        if self.lost:
            raise trio.BrokenResourceError
        count = int(min(self.room, len(data)))
        self.sent += data[:count]
        self.room -= count
        return count

    def send_together_nowait(self, parts: Sequence[bytes]) -> int:
        return self.send_nowait(b"".join(parts))

    async def send_some(self, data: memoryview) -> int:
        while not self.room and not self.lost:
            await self._changed.wait()
        return self.send_nowait(data)

    def stop_reading(self) -> None:
        self.cut = True
        self.end()

    def end_writing(self) -> None:
        self.writing_ended = True

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def parse(sent: bytes) -> list[Frame]:
    """The whole frames of a server; what is behind them must be none."""
    found, place = [], 0
    while place < len(sent):
        length, start = sent[place + 1], place + 2
        if length == 126:
            length, start = int.from_bytes(sent[start : start + 2], "big"), start + 2
        elif length == 127:
            length, start = int.from_bytes(sent[start : start + 8], "big"), start + 8
        assert len(sent) >= start + length, "a frame is cut"
        found.append(Frame(sent[place] & 0xF, bytes(sent[start : start + length])))
        place = start + length
    return found


@pytest.fixture
def pipe() -> MemoryPipe:
    return MemoryPipe()


@pytest.fixture
def frames_in() -> Callable[[bytes], list[Frame]]:
    return parse


@pytest.fixture
def channel(pipe: MemoryPipe, nursery: Any) -> NativeChannel:
    return NativeChannel(pipe, REQUEST, LIMITS, nursery.start_soon)
