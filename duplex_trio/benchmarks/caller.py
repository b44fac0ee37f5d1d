"""One session of a benchmark: what is sent to it, and what comes, without keeping what comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any

import numpy as np
import trio

from duplex_trio.entrypoints.duplex_omni import Attachment, DuplexOmni, DuplexSessionHandle
from duplex_trio.protocol.duplex import (
    AppendAudio,
    ConversationCreated,
    CreateItem,
    CreateResponse,
    DuplexEvent,
    ErrorEvent,
    InputAudioBufferSpeechStarted,
    InputTextPart,
    MessageItem,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
)
from duplex_trio.protocol.duplex.audio import pcm16_bytes

CLIENT_RATE_HZ = 24_000
SILENCE_DURATION_MS = 600
"""Silence that ends a turn, where speech is detected."""
WAIT_MAX_S = 30.0
MANUAL: Mapping[str, Any] = {"turn_detection": None}
DETECTED: Mapping[str, Any] = {
    "turn_detection": {"type": "server_vad", "silence_duration_ms": SILENCE_DURATION_MS}
}
"""Session objects without and with detection of speech."""


class BenchError(Exception):
    """A session did something that no benchmark asked for, so that its figures mean nothing."""


def sound(milliseconds: int, *, loud: bool) -> AppendAudio:
    """An append of a tone, or of silence."""
    samples = CLIENT_RATE_HZ * milliseconds // 1000
    time_s = np.arange(samples, dtype=np.float32) / CLIENT_RATE_HZ
    pcm = 0.3 * np.sin(2 * np.pi * 200 * time_s) if loud else np.zeros(samples)
    return AppendAudio(audio=pcm16_bytes(pcm.astype(np.float32)))


class Listener(Attachment):
    """Takes events and notes only what is measured.

    Attributes:
        ready: whether the session has said hello.
        response_id: of the newest response.
        deltas: pieces of sound of the newest response so far.
        deltas_total: pieces of sound of all responses.
        status: how the newest response ended; None while it goes on.
        done_ns: when the latest response that is over ended, on the performance counter.
        user_speaks: whether the user was heard to speak.
        first_audio_ms: from the end of the user's speech to the first sound of each answer, as the server says.
        refused: codes of the errors that came.
    """

    def __init__(self) -> None:
        self.ready = self.user_speaks = False
        self.response_id: str | None = None
        self.deltas = self.deltas_total = 0
        self.done_ns = 0
        self.status: str | None = None
        self.first_audio_ms: list[float] = []
        self.refused: list[str] = []
        self._news = trio.lowlevel.ParkingLot()

    @property
    def over(self) -> bool:
        """Whether the newest response has ended."""
        return self.status is not None

    async def send(self, event: DuplexEvent) -> None:
        """Note an event."""
        arrived_ns = perf_counter_ns()
        match event:
            case ResponseOutputAudioDelta(response_id=response_id):
                self.deltas_total += 1
                self.deltas += response_id == self.response_id
                self._note_wait(event)
            case ResponseCreated():
                self.response_id, self.deltas = event.response.id, 0
                self.status = None
            case ResponseDone() if event.response.id == self.response_id:
                self.done_ns, self.status = arrived_ns, event.response.status
            case ConversationCreated():
                self.ready = True
            case InputAudioBufferSpeechStarted():
                self.user_speaks = True
            case ErrorEvent():
                self.refused.append(event.error.code)
        self._news.unpark_all()
        await trio.lowlevel.checkpoint()

    def _note_wait(self, event: ResponseOutputAudioDelta) -> None:
        told = event.duplex.request_metrics if event.duplex is not None else None
        if told is not None and told.speech_end_to_first_audio_ms is not None:
            self.first_audio_ms.append(told.speech_end_to_first_audio_ms)

    async def close(self, code: int, reason: str) -> None:
        """Nothing is left to do."""
        await trio.lowlevel.checkpoint()

    async def wait(self, come: Callable[[], bool]) -> None:
        """Wait until the events so far make `come` true.

        Raises:
            BenchError: they do not in time, or the session refused something.
        """
        with trio.move_on_after(WAIT_MAX_S) as scope:
            while not come() and not self.refused:
                await self._news.park()
        if self.refused:
            raise BenchError(f"the session refused something: {', '.join(self.refused)}")
        if scope.cancelled_caught:
            raise BenchError(f"nothing came for {WAIT_MAX_S:.0f} s")


class Caller:
    """One session and the one who uses it."""

    def __init__(self, handle: DuplexSessionHandle, listener: Listener) -> None:
        self.handle = handle
        self.heard = listener

    async def ask(self, text: str) -> None:
        """Write to the model, and wait until it has begun to answer."""
        before, heard = self.heard.response_id, self.heard
        self.handle.submit(CreateItem(item=MessageItem(role="user", content=(InputTextPart(text),))))
        self.handle.submit(CreateResponse())
        await heard.wait(lambda: heard.response_id != before)

    async def hear(self) -> None:
        """Wait for the first sound of the answer."""
        await self.heard.wait(lambda: self.heard.deltas > 0)

    async def be_heard(self) -> None:
        """Wait until the session has noticed that its user speaks."""
        await self.heard.wait(lambda: self.heard.user_speaks)

    async def leave(self) -> None:
        """Close the session, and wait until all of it is gone."""
        self.handle.close("over")
        with trio.fail_after(WAIT_MAX_S):
            await self.handle.wait_closed()


async def call(omni: DuplexOmni, patch: Mapping[str, Any] = MANUAL) -> Caller:
    """Open a session, and let its first events come."""
    listener = Listener()
    handle = await omni.open_session(dialect="duplex", attachment=listener, patch=patch)
    await listener.wait(lambda: listener.ready)
    return Caller(handle, listener)


async def call_many(omni: DuplexOmni, count: int, patch: Mapping[str, Any] = MANUAL) -> list[Caller]:
    """Open several sessions."""
    return [await call(omni, patch) for _ in range(count)]


async def leave_all(callers: list[Caller]) -> None:
    """Close sessions, and wait until all of them is gone."""
    for caller in callers:
        caller.handle.close("over")
    for caller in callers:
        await caller.leave()
