"""Writes the frames of one connection, each of them whole.

A frame is written at once as far as the socket takes it. What is left is finished by a task that is started for
it, and not by whoever wrote: a writer may be cancelled, and a frame that was begun is still finished, or the
connection breaks. Nothing is ever cut in half and followed by something else.

What waits here is bounded by its users: who sends messages waits for the last one to be gone, control frames
other than pongs are few, and of pongs only the latest is kept (RFC 6455 5.5.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import trio

from duplex_trio.serving.native.frames import PONG, encode_frame
from duplex_trio.serving.native.pipes import Pipe

T = TypeVar("T")

StartTask = Callable[[Callable[[], Awaitable[None]]], object]
"""Starts a task that ends with the connection."""


class FrameWriter:
    """The writing side of one connection.

    Args:
        pipe: where to.
        send_timeout_s: a connection that takes nothing for so long is broken.
        start_task: starts `flush`.
    """

    def __init__(self, pipe: Pipe, send_timeout_s: float, start_task: StartTask) -> None:
        self._pipe = pipe
        self._send_timeout_s = send_timeout_s
        self._start_task = start_task
        self._pending: deque[memoryview] = deque()
        self._pong: bytes | None = None
        self._flushing = False
        self._broken = False
        self._flushed = trio.lowlevel.ParkingLot()

    @property
    def broken(self) -> bool:
        """Whether nothing more can be written."""
        return self._broken

    @property
    def waiting(self) -> bool:
        """Whether something is not written yet."""
        return self._flushing

    def put(self, data: bytes) -> None:
        """Write what can be written at once, and leave the rest to `flush`.

        Raises:
            trio.BrokenResourceError: the connection is lost.
        """
        sent = self._send_now(self._pipe.send_nowait, data)
        if sent < len(data):
            self._pending.append(memoryview(data)[sent:])
            self._flush_soon()

    def put_together(self, parts: Sequence[bytes]) -> None:
        """The same with several pieces that nothing comes between: they go out as one write.

        None is copied here, however long it is. What a long message costs the loop is the kernel's copy of what fits
        into its buffer, and one turn of the loop for each further piece: on a loopback about 25 us for a payload of
        20 kB, which is a usual chunk of video, 35 us for 70 kB and 0.15 ms for 1 MB, the longest that a video sends.

        Raises:
            trio.BrokenResourceError: the connection is lost.
        """
        sent = self._send_now(self._pipe.send_together_nowait, parts)
        for part in parts:
            if sent < len(part):
                self._pending.append(memoryview(part)[sent:])
            sent = max(0, sent - len(part))
        if self._pending:
            self._flush_soon()

    def _send_now(self, send: Callable[[T], int], data: T) -> int:
        """How many bytes of it could be written at once: none while earlier ones wait."""
        if self._broken:
            raise trio.BrokenResourceError("the connection is lost")
        if self._flushing:
            return 0
        try:
            return send(data)
        except trio.BrokenResourceError:
            self._break()
            raise

    def put_pong(self, payload: bytes) -> None:
        """Answer a ping, in place of an earlier one that still waits for its answer. A lost connection is no error."""
        if self._flushing:
            self._pong = payload
        elif not self._broken:
            try:
                self.put(encode_frame(PONG, payload))
            except trio.BrokenResourceError:
                self._break()

    async def wait_flushed(self) -> None:
        """Wait until everything is written.

        Raises:
            trio.BrokenResourceError: it will not be.
        """
        while self._flushing:
            await self._flushed.park()
        if self._broken:
            raise trio.BrokenResourceError("the connection is lost")

    async def flush(self) -> None:
        """Write what waits, to its end."""
        try:
            while self._next():
                with trio.move_on_after(self._send_timeout_s) as patience:
                    sent = await self._pipe.send_some(self._pending[0])
                if patience.cancelled_caught:
                    self._break()
                    return
                self._pending[0] = self._pending[0][sent:]
        except trio.BrokenResourceError:
            self._break()
        finally:
            if self._pending:  # cancelled, perhaps in the middle of a frame
                self._break()
            self._flushing = False
            self._flushed.unpark_all()

    def _next(self) -> bool:
        while self._pending and not self._pending[0]:
            self._pending.popleft()
        if not self._pending and self._pong is not None:
            self._pending.append(memoryview(encode_frame(PONG, self._pong)))
            self._pong = None
        return bool(self._pending)

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._start_task(self.flush)

    def _break(self) -> None:
        self._broken = True
        self._pending.clear()
        self._pong = None
        self._pipe.stop_reading()  # whoever reads learns of it
