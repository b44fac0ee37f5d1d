"""A real microphone and loudspeaker, through the optional `sounddevice` library.

The device calls back on threads of its own. Its frames cross into Trio through a bounded channel, from which
the oldest second is what may wait; what does not fit is dropped and counted, because sound that is later than
that helps nobody. Sound to be played crosses the other way in a deque, which either side may touch at any
time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import trio

from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.talk.conversation import Microphone
from duplex_trio.cli.talk.latency import said_by_turns
from duplex_trio.cli.talk.recording import RECORDING_HZ
from duplex_trio.cli.talk.scenario import FRAME_SAMPLES, MICROPHONE_HZ, Said
from duplex_trio.cli.talk.timeline import Timeline
from duplex_trio.clients.events import AudioDelta, OutputAudioCleared, ResponseDone, ServerEvent
from duplex_trio.protocol.duplex.audio import Pcm, float_from_pcm16

FRAMES_WAITING_MAX = 50
"""One second of frames between the device's thread and Trio."""


class LiveMicrophone(Microphone):
    """The frames of an input device.

    Attributes:
        dropped: frames that came while a second of them was waiting.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._send, self._receive = trio.open_memory_channel[Pcm](FRAMES_WAITING_MAX)
        self._token = trio.lowlevel.current_trio_token()
        self.dropped = 0

    def callback(self, data: Any, _frames: int, _time: object, _status: object) -> None:
        """Take one block from the device, shape (320, 1), on the device's thread."""
        try:
            self._token.run_sync_soon(self._put, np.array(data[:, 0], np.float32))
        except trio.RunFinishedError:
            return

    def stop(self) -> None:
        """There is nothing more to be said."""
        self._send.close()

    async def next_frame(self) -> Pcm | None:
        """Wait for the next frame; `None` after `stop`."""
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            return None

    def said(self) -> list[Said]:
        """The user's turns, as the server took them."""
        return said_by_turns(self._timeline)

    def _put(self, frame: Pcm) -> None:
        try:
            self._send.send_nowait(frame)
        except trio.WouldBlock:
            self.dropped += 1
        except trio.ClosedResourceError:
            return


class Loudspeaker:
    """Plays answers as they arrive and falls silent when one is cut. `callback` runs on the device's
    thread."""

    def __init__(self) -> None:
        self._waiting: deque[Pcm] = deque()
        self._cuts = 0

    def observe(self, event: ServerEvent) -> None:
        """Queue the sound of a delta, or forget what is waiting."""
        match event:
            case AudioDelta() if event.encoding == "pcm16":
                self._waiting.append(float_from_pcm16(event.audio))
            case OutputAudioCleared():
                self._cut()
            case ResponseDone() if event.status == "cancelled":
                self._cut()

    def callback(self, out: Any, frames: int, _time: object, _status: object) -> None:
        """Fill one block of the device, shape (frames, 1)."""
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

    def _cut(self) -> None:
        self._cuts += 1
        self._waiting.clear()


def load_sounddevice() -> ModuleType:
    """The `sounddevice` library, with devices to use.

    Raises:
        CommandError: it is not installed, or there is no device.
    """
    try:
        import sounddevice
    except ImportError:
        raise CommandError(
            "The microphone needs the sounddevice library: pip install 'duplex-trio[mic]'"
        ) from None
    except OSError as error:
        raise CommandError(
            f"The sound system cannot be used: {error}. On Debian and Ubuntu: apt install libportaudio2"
        ) from None
    for kind in ("input", "output"):
        try:
            sounddevice.query_devices(kind=kind)
        except (sounddevice.PortAudioError, ValueError) as error:
            raise CommandError(f"There is no {kind} device for sound: {error}") from None
    return sounddevice  # type: ignore[no-any-return]


@contextmanager
def open_devices(sounddevice: Any, microphone: LiveMicrophone, speaker: Loudspeaker) -> Iterator[float]:
    """Open both devices for the block and give the output's latency in seconds.

    Raises:
        CommandError: a device cannot be opened at the rate that is needed.
    """
    try:
        source = sounddevice.InputStream(
            samplerate=MICROPHONE_HZ,
            channels=1,
            dtype="float32",
            blocksize=FRAME_SAMPLES,
            callback=microphone.callback,
        )
        sink = sounddevice.OutputStream(
            samplerate=RECORDING_HZ, channels=1, dtype="float32", callback=speaker.callback
        )
    except sounddevice.PortAudioError as error:
        raise CommandError(f"The sound devices cannot be opened: {error}") from None
    with source, sink:
        yield float(sink.latency)
