"""Who gets which event: one bounded queue per subscriber, filled synchronously by the reader.

The reader never waits for a subscriber. A queue that is full when an event arrives takes nothing any more:
its owner reads what is in it and then gets `DuplexLagError`, and nobody else notices. How the session ended
reaches every subscriber after the events that came before.
"""

from __future__ import annotations

from types import TracebackType

import trio

from duplex_trio.clients.errors import DuplexClientError, DuplexLagError
from duplex_trio.clients.events import ErrorEvent, ServerEvent

SUBSCRIBER_EVENTS_MAX = 1024
"""Events that a subscriber may be behind: half a minute of 20 ms audio deltas with their transcripts, while a
server that paces its media is at most 0.3 s ahead of play-out."""


class EventStream:
    """The events of one subscriber, from the moment it was made; an async iterator for one task.

    Iteration ends when the session ended as expected. It raises what ended the session otherwise, and
    `DuplexLagError` after this subscriber fell behind. Close it (or use it as a context manager) when done
    with it early; one that is merely dropped costs its queue until that is full.
    """

    def __init__(self, fanout: Fanout, events_max: int) -> None:
        self._fanout = fanout
        self._send, self._receive = trio.open_memory_channel[ServerEvent](events_max)
        self._events_max = events_max
        self._error: DuplexClientError | None = None

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> ServerEvent:
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            if self._error is not None:
                raise self._error from None
            raise StopAsyncIteration from None

    async def wait_for(self, *types: str) -> ServerEvent:
        """The next event whose type is one of `types`; others are passed over.

        Raises:
            DuplexProtocolError: an `error` event came first (unless `types` asks for it).
            DuplexClientError: the session ended first; `DuplexSessionClosedError` when it ended as expected.
        """
        async for event in self:
            if event.type in types:
                return event
            if isinstance(event, ErrorEvent) and not event.of_acknowledgment:
                raise event.to_exception()
        raise self._fanout.closed_error()

    def statistics(self) -> trio.MemoryChannelStatistics:
        """Fill of the queue."""
        return self._receive.statistics()

    def close(self) -> None:
        """Stop getting events. Idempotent, never blocks."""
        self._fanout.remove(self)
        self._send.close()
        self._receive.close()

    def __enter__(self) -> EventStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def put(self, event: ServerEvent) -> bool:
        """Queue one event; false when the queue was full and the stream has ended. Called by the fan-out."""
        try:
            self._send.send_nowait(event)
        except trio.WouldBlock:
            self.end(DuplexLagError("the event stream", self._events_max))
            return False
        return True

    def end(self, error: DuplexClientError | None) -> None:
        """Nothing follows. Called by the fan-out."""
        self._error = error
        self._send.close()


class Fanout:
    """All subscribers of one client, and how its session ended."""

    def __init__(self) -> None:
        self._streams: list[EventStream] = []
        self.ended = False
        self.error: DuplexClientError | None = None
        self._closed_error: DuplexClientError | None = None

    def subscribe(self, events_max: int = SUBSCRIBER_EVENTS_MAX) -> EventStream:
        """A stream of the events from now on; of none at all once the session has ended."""
        stream = EventStream(self, events_max)
        if self.ended:
            stream.end(self.error)
        else:
            self._streams.append(stream)
        return stream

    def remove(self, stream: EventStream) -> None:
        """Forget a subscriber."""
        if stream in self._streams:
            self._streams.remove(stream)

    def publish(self, event: ServerEvent) -> None:
        """Hand an event to every subscriber. Never blocks."""
        self._streams = [stream for stream in self._streams if stream.put(event)]

    def end(self, error: DuplexClientError | None, closed_error: DuplexClientError) -> None:
        """The session is over: `error` is `None` when that was expected. The first call counts.

        Args:
            error: what iteration raises.
            closed_error: what everything else raises that needs a live session.
        """
        if self.ended:
            return
        self.ended, self.error, self._closed_error = True, error, closed_error
        streams, self._streams = self._streams, []
        for stream in streams:
            stream.end(error)

    def closed_error(self) -> DuplexClientError:
        """What to raise for a request that the end of the session left without an answer."""
        assert self._closed_error is not None
        return self._closed_error
