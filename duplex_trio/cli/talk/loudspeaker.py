"""A real loudspeaker: plays answers as they arrive, and falls silent when one is cut.

Sound crosses from Trio to the device's thread in a deque, which either side may touch at any time.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from duplex_trio.cli.talk.recording import RECORDING_HZ
from duplex_trio.clients.events import AudioDelta, OutputAudioCleared, ResponseDone, ServerEvent
from duplex_trio.protocol.duplex.audio import Pcm, StreamResampler, float_from_pcm16


class Loudspeaker:
    """An output device. `callback` runs on the device's thread, the rest on Trio's.

    Args:
        rate_hz: of the device.

    Attributes:
        underruns: how often the device ran dry before it called back.
    """

    def __init__(self, *, rate_hz: int = RECORDING_HZ) -> None:
        self._rate_hz = rate_hz
        self._waiting: deque[Pcm] = deque()
        self._cuts = 0
        self._answer: tuple[str | None, int] | None = None
        self._resampler = StreamResampler(rate_hz, rate_hz)
        self._busy = False
        self.underruns = 0

    @property
    def playing(self) -> bool:
        """Whether sound is being heard, or about to be."""
        return self._busy or bool(self._waiting)

    def observe(self, event: ServerEvent) -> None:
        """Queue the sound of a delta, or forget what is waiting."""
        match event:
            case AudioDelta() if event.encoding == "pcm16":
                rate_hz = event.sample_rate_hz or RECORDING_HZ
                if (event.response_id, rate_hz) != self._answer:
                    self._play(self._resampler.flush())
                    self._answer = (event.response_id, rate_hz)
                    self._resampler = StreamResampler(rate_hz, self._rate_hz)
                self._play(self._resampler.feed(float_from_pcm16(event.audio)))
            case OutputAudioCleared():
                self._cut()
            case ResponseDone() if event.status == "cancelled":
                self._cut()
            case ResponseDone():
                self._play(self._resampler.flush())

    def callback(self, out: Any, frames: int, _time: object, status: Any) -> None:
        """Fill one block of the device, shape (frames, 1)."""
        self.underruns += bool(getattr(status, "output_underflow", False))
        filled, cuts = 0, self._cuts
        while filled < frames:
            try:
                piece = self._waiting.popleft()
            except IndexError:
                break
            part = piece[: frames - filled]
            out[filled : filled + len(part), 0] = part
            filled += len(part)
            # A cut may have come between taking the piece and giving the rest of it back.
            if len(part) < len(piece) and self._cuts == cuts:
                self._waiting.appendleft(piece[len(part) :])
        out[filled:, 0] = 0
        self._busy = filled > 0

    def _play(self, pcm: Pcm) -> None:
        if len(pcm):
            self._waiting.append(pcm)

    def _cut(self) -> None:
        self._cuts += 1
        self._waiting.clear()
        self._resampler.reset()
