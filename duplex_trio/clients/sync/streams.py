"""Events and answers of a synchronous client, as plain iterators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TypeVar

import trio

from duplex_trio.clients.errors import DuplexSessionClosedError
from duplex_trio.clients.events import FunctionCall, ServerEvent
from duplex_trio.clients.fanout import EventStream
from duplex_trio.clients.responses import ResponseHandle, ResponseStream
from duplex_trio.clients.sync.thread import ClientThread

T = TypeVar("T")


class SyncEventStream:
    """The events from the moment it was made, for one thread; see `EventStream`."""

    def __init__(self, thread: ClientThread, stream: EventStream) -> None:
        self._thread = thread
        self._stream = stream

    def __iter__(self) -> Iterator[ServerEvent]:
        return self

    def __next__(self) -> ServerEvent:
        return _next(self._thread, self._stream)

    def wait_for(self, *types: str, timeout_s: float | None = None) -> ServerEvent:
        """The next event of one of the types; see `EventStream.wait_for`.

        Raises:
            TimeoutError: `timeout_s` is over.
        """
        return within(self._thread, partial(self._stream.wait_for, *types), timeout_s)

    def close(self) -> None:
        """Stop getting events. Idempotent."""
        with suppress(DuplexSessionClosedError):
            self._thread.call_now(self._stream.close)

    def __enter__(self) -> SyncEventStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncResponse:
    """One answer; see `ResponseHandle`, whose attributes it has."""

    def __init__(self, thread: ClientThread, handle: ResponseHandle) -> None:
        self._thread = thread
        self.handle = handle

    @property
    def response_id(self) -> str | None:
        """The server's id; `None` for a decision to listen that belongs to no response."""
        return self.handle.response_id

    @property
    def item_id(self) -> str | None:
        """The conversation item that holds the answer, once known."""
        return self.handle.item_id

    @property
    def decision(self) -> str | None:
        """`speak`, `listen`, or `None` for a response that ended before it produced anything."""
        return self.handle.decision

    @property
    def transcript(self) -> str:
        """What is spoken, as far as it arrived."""
        return self.handle.transcript

    @property
    def text(self) -> str:
        """What is written instead of spoken, as far as it arrived."""
        return self.handle.text

    @property
    def function_calls(self) -> Sequence[FunctionCall]:
        """Functions that the model calls, as far as they arrived."""
        return tuple(self.handle.function_calls)

    @property
    def played_ms(self) -> float:
        """Length of the sound that `audio()` has yielded."""
        return self.handle.played_ms

    @property
    def encoding(self) -> str | None:
        """Of the sound, once some of it arrived."""
        return self.handle.encoding

    @property
    def sample_rate_hz(self) -> int | None:
        """Of the sound, once some of it arrived."""
        return self.handle.sample_rate_hz

    @property
    def cut(self) -> bool:
        """Whether the rest of its sound must not be played."""
        return self.handle.cut

    @property
    def created_event(self) -> ServerEvent | None:
        """The event that opened the response."""
        return self.handle.created_event

    @property
    def done_event(self) -> ServerEvent | None:
        """The event that ended the response."""
        return self.handle.done_event

    @property
    def status(self) -> str | None:
        """The response's final status, once there is one."""
        return self.handle.status

    @property
    def finished(self) -> bool:
        """Whether nothing of this response follows."""
        return self.handle.finished

    def audio(self) -> Iterator[bytes]:
        """The sound, piece by piece as it arrives; see `ResponseHandle.audio`."""
        pieces = self.handle.audio()
        while True:
            try:
                yield _next(self._thread, pieces)
            except StopIteration:
                return

    def wait(self, timeout_s: float | None = None) -> ServerEvent:
        """Wait for the end of the response and return the event that ended it.

        Raises:
            TimeoutError: it did not end within `timeout_s`.
            DuplexClientError: the session ended first.
        """
        return within(self._thread, self.handle.wait, timeout_s)


class SyncResponseStream:
    """The answers one by one, for one thread; see `ResponseStream`."""

    def __init__(self, thread: ClientThread, stream: ResponseStream) -> None:
        self._thread = thread
        self._stream = stream

    def __iter__(self) -> Iterator[SyncResponse]:
        return self

    def __next__(self) -> SyncResponse:
        return SyncResponse(self._thread, _next(self._thread, self._stream))


def within(thread: ClientThread, function: Callable[[], Awaitable[T]], timeout_s: float | None) -> T:
    """Call an async function of the client, for so long at the most.

    Raises:
        TimeoutError: `timeout_s` is over.
    """

    async def run() -> T:
        with trio.fail_after(float("inf") if timeout_s is None else timeout_s):
            return await function()

    try:
        return thread.call(run)
    except trio.TooSlowError:
        raise TimeoutError(f"not within {timeout_s:g} s") from None


def _next(thread: ClientThread, stream: AsyncIterator[T]) -> T:
    """The next of an asynchronous iterator.

    Raises:
        StopIteration: there is none.
    """

    async def ask() -> list[T]:
        # The end of an iterator is no exception that may leave a coroutine.
        try:
            return [await anext(stream)]
        except StopAsyncIteration:
            return []

    found = thread.call(ask)
    if not found:
        raise StopIteration
    return found[0]
