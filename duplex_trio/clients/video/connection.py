"""One connection of a client of video: its tasks, and what stands between them and whoever holds the client."""

from __future__ import annotations

import trio
from attrs import define, field

from duplex_trio.clients.video.buffer import ChunkBuffer
from duplex_trio.clients.video.errors import (
    AnswerTimeoutError,
    InteractionBackpressureError,
    InteractionRefusedError,
    VideoClientError,
    VideoConnectionError,
    VideoEndedError,
)
from duplex_trio.clients.video.link import VideoLink
from duplex_trio.clients.video.outbox import Outbox
from duplex_trio.clients.video.record import Ask, VideoRecord
from duplex_trio.protocol.video import (
    SessionPing,
    SessionStart,
    SessionStop,
    VideoCommand,
    encode_command,
)

COMMAND_BYTES_MAX = 1024 * 1024
"""A longer message would end the connection instead of being refused (video.md 3.3: the socket cap)."""
UNANSWERED_MAX = 1000
"""Interactions that a server may leave unanswered before no more are sent."""
STOP_TIMEOUT_S = 5.0
"""How long the end of a video that is left early is waited for."""


@define(eq=False)
class VideoConnection:
    """Carries one video.

    Attributes:
        url: where it leads, for messages to people.
        link: carries its messages.
        start: the request.
        ping_interval_s: how often to ping, and how long to wait for a sign of life after that.
        record: the account of what has come.
        buffer: the payloads that are not read yet.
        changed: parked in by whoever waits for something that a message may bring.
    """

    url: str
    link: VideoLink
    start: SessionStart
    handshake_timeout_s: float
    ping_interval_s: float
    buffer_bytes_max: int
    record: VideoRecord = field(factory=VideoRecord, init=False)
    buffer: ChunkBuffer = field(init=False)
    changed: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _outbox: Outbox = field(factory=Outbox, init=False)
    _reading_s: float | None = field(default=None, init=False)
    _messages: int = field(default=0, init=False)

    @buffer.default
    def _make_buffer(self) -> ChunkBuffer:
        return ChunkBuffer(self.buffer_bytes_max, lambda: self.record.awaited)

    # ------------------------------------------------------------------ for the client

    async def ask(self, command: VideoCommand, ask: Ask, timeout_s: float) -> None:
        """Send what the server answers, and wait for the answer.

        Raises:
            InteractionRefusedError: the answer.
            AnswerTimeoutError: there was none in time.
            VideoClientError: the video is over, before or meanwhile.
        """
        text, event_id = encode_command(command), ask.event_id
        if len(text) > COMMAND_BYTES_MAX:
            raise InteractionRefusedError("message_too_large", f"{len(text)} bytes", event_id=event_id)
        if len(self.record.asked) >= UNANSWERED_MAX:
            raise InteractionBackpressureError(
                "input_backpressure", f"{UNANSWERED_MAX} have no answer yet", event_id=event_id
            )
        answered = trio.Event()
        errors: list[InteractionRefusedError] = []

        def answer(error: InteractionRefusedError | None) -> None:
            errors.extend([] if error is None else [error])
            answered.set()

        with trio.move_on_after(timeout_s):
            try:
                await self._outbox.wait_for_room()
                self.check_live()
                ask.done = answer
                self.record.asked.append(ask)
                if event_id is not None:
                    self.record.interactions.sent(event_id, ask.prompt)
                self._outbox.put(text)
                self.buffer.look_again()
                await answered.wait()
            finally:
                ask.done = None
        if not answered.is_set():
            raise AnswerTimeoutError(
                "a ping" if event_id is None else f"interaction {event_id}", timeout_s, event_id
            )
        if errors:
            raise errors[0]
        if ask in self.record.asked:  # the end released it, not an answer
            self.check_live()

    async def tell(self, command: VideoCommand) -> None:
        """Send what the server does not answer; it is on its way when this returns."""
        await self._outbox.wait_for_room()
        self._outbox.put(encode_command(command))

    async def stop(self) -> None:
        """Ask for the end of generation, unless it is over."""
        if not self.record.over:
            await self.tell(SessionStop())

    def check_live(self) -> None:
        """Raise what ended the video, if it is over."""
        if self.record.failure is not None:
            raise self.record.failure
        if self.record.over:
            raise VideoEndedError("the video has ended")

    # ------------------------------------------------------------------ tasks; called by `run`

    async def begin(self) -> None:
        """Ask for the video and wait until it has begun."""
        await self.tell(self.start)
        while self.record.started is None and not self.record.over:
            await self.changed.park()
        if self.record.started is None:
            self.check_live()

    async def read(self) -> None:
        """Take what the server says, until there is nothing more."""
        record = self.record
        try:
            while not record.over:
                self._reading_s = None
                await self.buffer.wait_for_room()
                self._reading_s = trio.current_time()
                message = await self.link.receive()
                self._messages += 1
                chunk = record.take(message)
                if chunk is not None:
                    self.buffer.put(chunk)
                self.changed.unpark_all()
        except VideoConnectionError as error:
            record.lost(error)
        except VideoClientError as error:
            record.end(error)
        self._finish()

    async def write(self) -> None:
        """Write what there is to say. A lost connection is found by the reader, behind what the server still said."""
        try:
            while (text := await self._outbox.next()) is not None:
                await self.link.send(text)
        except VideoConnectionError:
            self._outbox.close()

    async def beat(self) -> None:
        """Tell the server from time to time that the client is there, until nothing comes back."""
        while not self.record.over:
            await trio.sleep(self.ping_interval_s)
            heard = self._messages
            self.record.asked.append(Ask(None, "", None))
            await self.tell(SessionPing())
            await trio.sleep(self.ping_interval_s)
            reading_s = self._reading_s  # None while the buffer is full, which is no silence of the server's
            listened = reading_s is not None and trio.current_time() - reading_s >= self.ping_interval_s
            if listened and self._messages == heard:
                silent = f"the server said nothing for {self.ping_interval_s:g} s after a ping"
                self.record.lost(VideoConnectionError(silent))
                self._finish()

    async def leave(self) -> None:
        """End a video that still runs, without reading it any more."""
        self.buffer.discard()
        with trio.move_on_after(STOP_TIMEOUT_S):
            await self.stop()
            while not self.record.over:
                await self.changed.park()

    def _finish(self) -> None:
        for ask in self.record.asked:
            if ask.done is not None:
                ask.done(None)
        self._outbox.close()
        self.buffer.end()
        self.changed.unpark_all()
