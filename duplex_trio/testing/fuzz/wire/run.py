"""Throws streams of bytes at a server, many at once, while a session beside them goes on.

Each connection must end by itself once its client has said its last byte, and what it was sent must be what a
server may write. The session beside gets every answer whole; a new one works at the end; memory and sockets
are what they were.
"""

from __future__ import annotations

import math
import random
import socket
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import trio
from attrs import define, field

from duplex_trio.testing.fuzz.wire.answers import BadBytes, check_answer
from duplex_trio.testing.fuzz.wire.live import Answer, LiveSession, open_files, resident_bytes
from duplex_trio.testing.fuzz.wire.mutate import in_pieces
from duplex_trio.testing.fuzz.wire.recorded import almost_http, almost_websocket

AT_ONCE = 12
END_TIMEOUT_S = 60.0
"""How long a server may take to end a connection whose client has ended its half.

Generous for a busy machine.
"""
ANSWER_TIMEOUT_S = 0.5
GROWTH_MAX_BYTES = 64 << 20
SETTLE_S = 1.0
WORDS = "tell me everything"

MakeStream = Callable[[random.Random], tuple[bytes, bytes]]
"""Makes what a client says at once, and what it says when that was answered."""

STREAMS: dict[str, MakeStream] = {"websocket": almost_websocket, "http": almost_http}


class ServerHurt(AssertionError):
    """A server did not take what it was thrown as it should; the message has the seed of the connection."""


@define(eq=False)
class Storm:
    """What was thrown at one server, and what it made of it.

    Args:
        port: where the server is.
        pid: its process.
        make: makes the stream of one connection.
        seed: the first connection's; each further one has the next.

    Attributes:
        thrown: connections so far.
        answers: how often each status and close code was answered.
    """

    port: int
    pid: int
    make: MakeStream
    seed: int
    thrown: int = 0
    answers: Counter[int] = field(factory=Counter)

    async def throw(self, connections: int, *, seconds: float = math.inf) -> None:
        """Throw so many streams, or for so long.

        Raises:
            ServerHurt: something is not as it must be.
        """
        live = await LiveSession.open(self.port)
        expected = await live.turn(WORDS)
        over = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._talk, live, expected, over)
            await self._throw_some(AT_ONCE * 2)
            memory_bytes, files = await self._at_rest()
            with trio.move_on_after(seconds):
                await self._throw_some(connections - self.thrown)
            over.set()
        await live.aclose()
        await self._check_rest(memory_bytes, files)
        again = await LiveSession.open(self.port)
        await again.turn(WORDS)
        await again.aclose()

    async def _talk(self, live: LiveSession, expected: Answer, over: trio.Event) -> None:
        turns = 0
        while not over.is_set():
            answer = await live.turn(WORDS)
            turns += 1
            if answer != expected:
                raise ServerHurt(f"answer {turns} of the session beside: {answer}, not {expected}")

    async def _throw_some(self, count: int) -> None:
        async with trio.open_nursery() as nursery:
            room = trio.CapacityLimiter(AT_ONCE)
            for _ in range(count):
                await room.acquire_on_behalf_of(self.thrown)
                nursery.start_soon(partial(self._throw, self.thrown, room))
                self.thrown += 1

    async def _throw(self, number: int, room: trio.CapacityLimiter) -> None:
        seed = self.seed + number
        try:
            rng = random.Random(seed)  # noqa: S311  not for secrets
            self.answers.update(await self.throw_one(rng))
        except (BadBytes, OSError, trio.TooSlowError) as error:
            raise ServerHurt(f"connection with seed {seed}: {error!r}") from error
        finally:
            room.release_on_behalf_of(number)

    async def throw_one(self, rng: random.Random) -> list[int]:
        """Throw one stream, and return the statuses and the close code that came back."""
        first, then = self.make(rng)
        impatient, resets = rng.random() < 0.1, rng.random() < 0.1
        peer = _Peer(await trio.open_tcp_stream("127.0.0.1", self.port))
        with trio.fail_after(END_TIMEOUT_S):
            async with peer.stream, trio.open_nursery() as nursery:
                nursery.start_soon(peer.read)
                await peer.write(in_pieces(rng, first), rng)
                if then and not impatient:
                    with trio.move_on_after(ANSWER_TIMEOUT_S):  # what is cut short waits for more
                        await peer.answered.wait()
                await peer.write(in_pieces(rng, then), rng)
                if resets:
                    peer.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    nursery.cancel_scope.cancel()
                await peer.end()
        return [] if resets else check_answer(bytes(peer.received))

    async def _at_rest(self) -> tuple[int, int]:
        await trio.sleep(SETTLE_S)
        return resident_bytes(self.pid), open_files(self.pid)

    async def _check_rest(self, memory_bytes: int, files: int) -> None:
        for _ in range(30):
            now_bytes, now_files = await self._at_rest()
            if now_bytes - memory_bytes <= GROWTH_MAX_BYTES and now_files <= files + 2:
                return
        raise ServerHurt(
            f"{self.thrown} connections left {(now_bytes - memory_bytes) >> 20} MiB and {now_files - files} files"
        )


@define(eq=False)
class _Peer:
    """One connection, from the client's side; a server that wants no more of it may say so at any time."""

    stream: trio.SocketStream
    received: bytearray = field(factory=bytearray)
    answered: trio.Event = field(factory=trio.Event)

    async def read(self) -> None:
        try:
            async for data in self.stream:
                self.received += data
                self.answered.set()
        except trio.BrokenResourceError:
            pass  # it was reset over bytes that nobody wanted to read
        self.answered.set()

    async def write(self, pieces: list[bytes], rng: random.Random) -> None:
        with suppress(trio.BrokenResourceError):
            for piece in pieces:
                await self.stream.send_all(piece)
                if rng.random() < 0.2:
                    await trio.sleep(0.002)

    async def end(self) -> None:
        with suppress(trio.BrokenResourceError):
            await self.stream.send_eof()
