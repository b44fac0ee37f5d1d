"""Answers, one handle each, taken apart from the single event stream.

`ResponseStream` sees every event synchronously and yields a `ResponseHandle` once it is known whether the
model speaks or listens. A handle goes on filling whether or not anybody reads it; its sound is bounded in
bytes and dropped at once when the response is cut, so that whoever plays `audio()` never plays a superseded
answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

import trio

from duplex_trio.clients.errors import DuplexClientError, DuplexLagError, DuplexSessionClosedError
from duplex_trio.clients.events import (
    AudioDelta,
    ErrorEvent,
    FunctionCall,
    ListenDecision,
    OutputAudioCleared,
    ResponseCreated,
    ResponseDone,
    ServerEvent,
    SpeakDecision,
    TextDelta,
    TranscriptDelta,
)

RESPONSE_AUDIO_BYTES_MAX = 16 * 1024 * 1024
"""Sound of one answer that may wait for its reader: 350 s of pcm16 at 24 kHz."""
RESPONSES_PENDING_MAX = 64
"""Answers, listen decisions and errors that may wait for the reader of `ResponseStream`."""
_FINISHED_KEPT = 16
"""Finished handles kept reachable: their sound may still be waiting to be played when it is cleared."""


class ResponseHandle:
    """One answer of the model.

    Attributes:
        response_id: the server's id; `None` for a decision to listen that belongs to no response.
        item_id: the conversation item that holds the answer, once known.
        decision: `speak`, `listen`, or `None` for a response that ended before it produced anything.
        transcript: what is spoken, as far as it arrived.
        text: what is written instead of spoken, as far as it arrived.
        function_calls: functions that the model calls, in order, as far as they arrived.
        played_ms: length of the sound that `audio()` has yielded.
        encoding, sample_rate_hz: of that sound, known with the first piece.
        created_event, done_event: the events that opened and ended the response.
        cut: whether the rest of its sound must not be played.
    """

    def __init__(self, response_id: str | None) -> None:
        self.response_id = response_id
        self.item_id: str | None = None
        self.decision: str | None = None
        self.transcript = ""
        self.text = ""
        self.function_calls: list[FunctionCall] = []
        self.played_ms = 0.0
        self.encoding: str | None = None
        self.sample_rate_hz: int | None = None
        self.created_event: ResponseCreated | None = None
        self.done_event: ResponseDone | ListenDecision | None = None
        self.cut = False
        self._deltas: deque[AudioDelta] = deque()
        self._bytes_waiting = 0
        self._error: DuplexClientError | None = None
        self._audio_error: DuplexClientError | None = None
        self._over = trio.Event()
        self._changed = trio.lowlevel.ParkingLot()

    @property
    def finished(self) -> bool:
        """Whether nothing of this response follows."""
        return self._over.is_set()

    @property
    def status(self) -> str | None:
        """The response's final status, once there is one."""
        return self.done_event.status if isinstance(self.done_event, ResponseDone) else None

    async def wait(self, timeout_s: float | None = None) -> ServerEvent:
        """Wait for the end of the response and return the event that ended it.

        Raises:
            trio.TooSlowError: it did not end within `timeout_s`.
            DuplexClientError: the session ended first.
        """
        with trio.fail_after(float("inf") if timeout_s is None else timeout_s):
            await self._over.wait()
        if self.done_event is None:
            raise self._error or DuplexSessionClosedError("closed")
        return self.done_event

    def audio(self) -> AsyncIterator[bytes]:
        """The sound, piece by piece as it arrived, for one reader; ends with the response, or at once when it
        is cut. It may be left at any time, and be taken up again by another call.

        Raises:
            DuplexLagError: more than `RESPONSE_AUDIO_BYTES_MAX` waited for the reader.
            DuplexClientError: the session ended before the response did.
        """
        return _Sound(self)

    async def next_piece(self) -> bytes | None:
        """The next piece of sound; `None` when there is no more. Called by what `audio` returns."""
        await trio.lowlevel.checkpoint()
        while not (self._deltas or self._audio_error or self.cut or self.finished):
            await self._changed.park()
        if self._deltas:
            delta = self._deltas.popleft()
            self._bytes_waiting -= len(delta.audio)
            self.played_ms += delta.duration_ms
            return delta.audio
        error = self._audio_error or self._error
        if error is not None and not self.cut:
            raise error
        return None

    def take(self, event: ServerEvent) -> None:
        """Account for one event of this response. Called by `ResponseStream`; never blocks."""
        self.item_id = event.item_id or self.item_id
        match event:
            case AudioDelta():
                self._take_audio(event)
            case TextDelta():
                self.text += event.text
            case TranscriptDelta():
                self.transcript += event.text
            case FunctionCall():
                self.function_calls.append(event)
            case ResponseCreated():
                self.created_event = event
            case OutputAudioCleared():
                self._cut_audio()
            case ResponseDone():
                if event.status == "cancelled":
                    self._cut_audio()
                self._finish(event)

    def listened(self, event: ListenDecision) -> None:
        """The model decided to listen; without a response of its own that is all there is to this handle."""
        self.decision = self.decision or "listen"
        if self.response_id is None:
            self._finish(event)

    def end(self, error: DuplexClientError | None) -> None:
        """The session is over. Called by `ResponseStream`."""
        if not self.finished:
            self._error = error or DuplexSessionClosedError("closed")
            self._finish(None)

    def _take_audio(self, event: AudioDelta) -> None:
        self.encoding = event.encoding
        self.sample_rate_hz = event.sample_rate_hz
        if self.cut or self._audio_error is not None:
            return
        if self._bytes_waiting + len(event.audio) > RESPONSE_AUDIO_BYTES_MAX:
            self._audio_error = DuplexLagError("the sound of the response", RESPONSE_AUDIO_BYTES_MAX)
        else:
            self._deltas.append(event)
            self._bytes_waiting += len(event.audio)
        self._changed.unpark_all()

    def _cut_audio(self) -> None:
        self.cut = True
        self._deltas.clear()
        self._bytes_waiting = 0
        self._changed.unpark_all()

    def _finish(self, event: ResponseDone | ListenDecision | None) -> None:
        self.done_event = event
        self._over.set()
        self._changed.unpark_all()


class _Sound(AsyncIterator[bytes]):
    """No generator, which would complain of a reader who leaves early."""

    def __init__(self, handle: ResponseHandle) -> None:
        self._handle = handle

    async def __anext__(self) -> bytes:
        piece = await self._handle.next_piece()
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Leave early, as with a generator; nothing has to be let go of."""
        await trio.lowlevel.checkpoint()


class ResponseStream:
    """The answers of one client, for one consumer; an async iterator that can be entered again after an
    error."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[ResponseHandle | DuplexClientError](
            RESPONSES_PENDING_MAX
        )
        self._handles: dict[str, ResponseHandle] = {}
        self._finished: deque[str] = deque()
        self._listen_waiting = False
        self._error: DuplexClientError | None = None

    def __aiter__(self) -> ResponseStream:
        return self

    async def __anext__(self) -> ResponseHandle:
        try:
            item = await self._receive.receive()
        except trio.EndOfChannel:
            if self._error is not None:
                raise self._error from None
            raise StopAsyncIteration from None
        if isinstance(item, DuplexClientError):
            raise item
        if item.response_id is None:
            self._listen_waiting = False
        return item

    def observe(self, event: ServerEvent) -> None:
        """Take one event of the session. Called by the client for every event; never blocks."""
        match event:
            case ErrorEvent() if not event.of_acknowledgment:
                self._put(event.to_exception())
            case ListenDecision() if event.response_id is None:
                self._listen(event)
            case OutputAudioCleared() if event.response_id is None:
                for handle in self._handles.values():
                    handle.take(event)
            case _ if event.response_id is not None:
                self._of_response(event.response_id, event)

    def end(self, error: DuplexClientError | None) -> None:
        """The session is over; `error` is `None` when that was expected."""
        self._error = self._error or error
        for handle in self._handles.values():
            handle.end(error)
        self._send.close()

    def _listen(self, event: ListenDecision) -> None:
        # A server that says "silence" for every quiet append must not fill the queue of a consumer that is
        # busy playing.
        if not self._listen_waiting:
            handle = ResponseHandle(None)
            handle.listened(event)
            self._listen_waiting = self._put(handle)

    def _of_response(self, response_id: str, event: ServerEvent) -> None:
        handle = self._handles.get(response_id)
        if handle is None:
            if not event.type.startswith("response."):
                return
            handle = self._handles[response_id] = ResponseHandle(response_id)
        known = handle.decision is not None or handle.finished
        if isinstance(event, ListenDecision):
            handle.listened(event)
        elif isinstance(event, SpeakDecision) or event.type.endswith(".delta"):
            handle.decision = handle.decision or "speak"
        was_finished = handle.finished
        handle.take(event)
        if not known and (handle.decision is not None or handle.finished):
            self._put(handle)
        if handle.finished and not was_finished:
            self._finished.append(response_id)
            if len(self._finished) > _FINISHED_KEPT:
                self._handles.pop(self._finished.popleft(), None)

    def _put(self, item: ResponseHandle | DuplexClientError) -> bool:
        if self._error is not None:
            return False
        try:
            self._send.send_nowait(item)
        except trio.WouldBlock:
            self._error = DuplexLagError("the response stream", RESPONSES_PENDING_MAX)
            self._send.close()
            return False
        except trio.ClosedResourceError:
            return False
        return True
