"""What leaves a video: two lanes and the one task that empties them.

Answers and faults go first, then a pair of metadata and payload, and never anything between the two of a pair. Both
lanes are bounded, so that a client that does not read costs what the two hold and no more: whoever adds to a full one
waits, which keeps the generator from going on and commands from being read. One parking lot is what all of them wait
at, since each change may be what any of them waits for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import trio
from attrs import field, frozen

from duplex_trio.protocol.video import VideoChunkMetadata, VideoEvent, encode_event
from duplex_trio.video.encoders.encoder import EncodedPayload
from duplex_trio.video.transport import VideoTransport

PAIRS_MAX = 2
"""Pairs that are there at a time, the one that is being written among them."""
CONTROL_MAX = 256
"""Answers that may wait; with more, commands are not read until some have left."""


class SendTimeoutError(Exception):
    """The client did not take a message in time; the transport may be in the middle of one."""


@frozen
class Goodbye:
    """How a video ends on the wire.

    Attributes:
        code: the close code.
        reason: the reason that goes with it.
        events: what is said before.
    """

    code: int
    reason: str
    events: Sequence[VideoEvent] = field(factory=tuple)


Item = EncodedPayload | bytes
"""A payload, or the trailer."""


class Egress:
    """The lanes of one video.

    Args:
        transport: where they lead.
        send_timeout_s: how long the client may take for one message or pair.
        describe: makes the metadata of an item just before it is written.
        sent: told when a pair has been written.
    """

    def __init__(
        self,
        transport: VideoTransport,
        *,
        send_timeout_s: float,
        describe: Callable[[Item], VideoChunkMetadata],
        sent: Callable[[Item, VideoChunkMetadata], object],
    ) -> None:
        self._transport = transport
        self._send_timeout_s = send_timeout_s
        self._describe = describe
        self._sent = sent
        self._control: deque[VideoEvent] = deque()
        self._pairs: deque[Item] = deque()
        self._changed = trio.lowlevel.ParkingLot()
        self._goodbye: Callable[[], Goodbye] | None = None
        self._pairs_dropped = False
        self._closed = False
        self._writing = trio.CancelScope()

    @property
    def ending(self) -> bool:
        """Whether no pair will be added any more."""
        return self._goodbye is not None

    @property
    def closed(self) -> bool:
        """Whether the end is being said, or is to be said at once: what is added now is not sent."""
        return self._closed

    @property
    def waiting(self) -> tuple[int, int]:
        """How many answers and pairs are there."""
        return len(self._control), len(self._pairs)

    # ------------------------------------------------------------------ adding

    def wake(self) -> None:
        """Let all who wait look again at what they wait for."""
        self._changed.unpark_all()

    async def change(self) -> None:
        """Wait until something has changed, here or by `wake`."""
        await self._changed.park()

    def say(self, event: VideoEvent) -> None:
        """Add an answer. Who answers commands has waited for `control_room` before the command was read."""
        if not self.closed:
            self._control.append(event)
            self.wake()

    async def control_room(self) -> None:
        """Wait until an answer may be added. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while len(self._control) >= CONTROL_MAX and not self.closed:
            await self._changed.park()

    async def pair_room(self, unless: Callable[[], bool] = lambda: False) -> None:
        """Wait until a pair may be added, or `unless` says not to. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while len(self._pairs) >= PAIRS_MAX and not self.ending and not unless():
            await self._changed.park()

    async def put(self, item: Item) -> None:
        """Wait for room and add a pair."""
        await self.pair_room()
        if not self.ending:
            self._pairs.append(item)
            self.wake()

    # ------------------------------------------------------------------ ending

    def finish(self, goodbye: Callable[[], Goodbye]) -> None:
        """End when all that was added has been written; `goodbye` is asked then."""
        if self._goodbye is None:
            self._goodbye = goodbye
            self.wake()

    def break_off(self, goodbye: Goodbye) -> None:
        """End with the answers that wait and without the pairs that do, but for the one that is being written."""
        if not self._pairs_dropped:
            self._goodbye = lambda: goodbye
            self._pairs_dropped = self._closed = True
            self.wake()

    def hurry(self, send_timeout_s: float) -> None:
        """Give the client less time for a message from now on, the one that is being written included."""
        self._send_timeout_s = min(self._send_timeout_s, send_timeout_s)
        self._writing.deadline = min(self._writing.deadline, trio.current_time() + send_timeout_s)

    # ------------------------------------------------------------------ writing

    async def run(self) -> Goodbye:
        """Write until the end has been decided; what is left to do is to say so by `part`, and to close.

        Raises:
            trio.BrokenResourceError: the client has gone.
            SendTimeoutError: it does not read.
        """
        while True:
            if self._control:
                event = self._control.popleft()
                self.wake()
                await self._write(self._transport.send_text, encode_event(event))
            elif self._pairs and not self._pairs_dropped:
                item = self._pairs[0]
                await self._write_pair(item)
                self._pairs.popleft()
                self.wake()
            elif self._goodbye is not None:
                break
            else:
                await self._changed.park()
        self._closed = True
        return self._goodbye()

    async def part(self, goodbye: Goodbye) -> None:
        """Say the end, behind all that `run` has written.

        Raises:
            trio.BrokenResourceError: the client has gone.
            SendTimeoutError: it does not read.
        """
        for event in goodbye.events:
            await self._write(self._transport.send_text, encode_event(event))

    async def _write_pair(self, item: Item) -> None:
        metadata = self._describe(item)
        payload = item if isinstance(item, bytes) else item.data
        await self._write(self._transport.send_pair, encode_event(metadata), payload)
        self._sent(item, metadata)

    async def _write(self, write: Callable[..., Awaitable[None]], *data: bytes) -> None:
        with trio.move_on_after(self._send_timeout_s) as self._writing:
            await write(*data)
            return
        raise SendTimeoutError
