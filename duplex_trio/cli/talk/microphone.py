"""A real microphone: what a device's thread records, as frames of a conversation.

The device calls back on a thread of its own. Its blocks cross into Trio through a channel in which a second of sound
may wait; what does not fit is dropped and counted, because sound that is later than that helps nobody. A device has a
rate and a block size of its own: both are evened out on the Trio side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import trio

from duplex_trio.cli.talk.conversation import Microphone
from duplex_trio.cli.talk.latency import said_by_turns
from duplex_trio.cli.talk.scenario import FRAME_SAMPLES, MICROPHONE_HZ, Said
from duplex_trio.cli.talk.timeline import Timeline
from duplex_trio.protocol.duplex.audio import Pcm, StreamResampler

SECONDS_WAITING_MAX = 1.0
"""Sound between the device's thread and Trio."""


class LiveMicrophone(Microphone):
    """The frames of an input device.

    Args:
        timeline: tells which of the sound were turns.
        rate_hz: of the device.
        muted: asked for each frame whether silence is to be sent instead of it.

    Attributes:
        dropped_s: sound that came while a second of it was waiting.
        overruns: how often the device had lost sound itself before it called back.
        lost: whether the device went away.
    """

    def __init__(
        self,
        timeline: Timeline,
        *,
        rate_hz: int = MICROPHONE_HZ,
        muted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._timeline = timeline
        self._rate_hz = rate_hz
        self._muted = muted
        self._resampler = StreamResampler(rate_hz, MICROPHONE_HZ)
        # Blocks have the size that the device likes, so that their number says nothing; what waits is counted.
        self._send, self._receive = trio.open_memory_channel[Pcm](float("inf"))
        self._waiting = 0
        self._rest: Pcm = np.empty(0, np.float32)
        self._token = trio.lowlevel.current_trio_token()
        self.dropped_s = 0.0
        self.overruns = 0
        self.lost = False

    def callback(self, data: Any, _frames: int, _time: object, status: Any) -> None:
        """Take one block from the device, shape (frames, 1), on the device's thread."""
        overrun = bool(getattr(status, "input_overflow", False))
        self._to_trio(self._put, np.array(data[:, 0], np.float32), overrun)

    def finished(self) -> None:
        """The device has stopped, on its thread: also when it was unplugged."""
        self._to_trio(self._lose)

    def stop(self) -> None:
        """There is nothing more to be said."""
        self._send.close()

    async def next_frame(self) -> Pcm | None:
        """Wait for the next frame; `None` after `stop`, or when the device is gone."""
        while len(self._rest) < FRAME_SAMPLES:
            try:
                block = await self._receive.receive()
            except trio.EndOfChannel:
                return None
            self._waiting -= len(block)
            self._rest = np.concatenate((self._rest, self._resampler.feed(block)))
        frame, self._rest = self._rest[:FRAME_SAMPLES], self._rest[FRAME_SAMPLES:]
        return np.zeros_like(frame) if self._muted() else frame

    def said(self) -> list[Said]:
        """The user's turns, as the server took them."""
        return said_by_turns(self._timeline)

    def _to_trio(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            self._token.run_sync_soon(function, *arguments)
        except trio.RunFinishedError:
            return

    def _put(self, block: Pcm, overrun: bool) -> None:
        self.overruns += overrun
        if self._waiting + len(block) > SECONDS_WAITING_MAX * self._rate_hz:
            self.dropped_s += len(block) / self._rate_hz
            return
        try:
            self._send.send_nowait(block)
        except trio.ClosedResourceError:
            return
        self._waiting += len(block)

    def _lose(self) -> None:
        self.lost = True
        self._send.close()
