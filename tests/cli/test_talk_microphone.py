"""The bridge between the sound device's threads and Trio, without a device."""

from __future__ import annotations

import base64
import sys
import threading
from types import ModuleType

import numpy as np
import pytest
import trio

from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.talk.microphone import (
    FRAMES_WAITING_MAX,
    LiveMicrophone,
    Loudspeaker,
    load_sounddevice,
)
from duplex_trio.cli.talk.scenario import FRAME_SAMPLES
from duplex_trio.cli.talk.timeline import Timeline
from duplex_trio.clients.events import ServerEvent, parse_event
from duplex_trio.protocol.duplex.audio import pcm16_bytes


def block(level: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.full((FRAME_SAMPLES, 1), level, np.float32)


async def test_frames_cross_from_the_devices_thread_in_order() -> None:
    microphone = LiveMicrophone(Timeline())

    def device() -> None:
        buffer = block(0)
        for index in range(10):
            buffer[:] = index
            # The device reuses its buffer: what crosses must be a copy.
            microphone.callback(buffer, FRAME_SAMPLES, None, None)
        buffer[:] = -1

    await trio.to_thread.run_sync(device)
    received = []
    with trio.fail_after(10):
        for _ in range(10):
            frame = await microphone.next_frame()
            assert frame is not None
            assert frame.shape == (FRAME_SAMPLES,)
            received.append(float(frame[0]))
    assert received == list(range(10))
    microphone.stop()
    assert await microphone.next_frame() is None
    assert microphone.dropped == 0


async def test_a_second_of_frames_may_wait_and_the_rest_is_dropped_and_counted() -> None:
    microphone = LiveMicrophone(Timeline())
    for _ in range(FRAMES_WAITING_MAX + 7):
        microphone.callback(block(0), FRAME_SAMPLES, None, None)
    await trio.testing.wait_all_tasks_blocked()
    assert microphone.dropped == 7


async def test_frames_after_the_end_are_ignored() -> None:
    microphone = LiveMicrophone(Timeline())
    microphone.stop()
    microphone.callback(block(0), FRAME_SAMPLES, None, None)
    await trio.testing.wait_all_tasks_blocked()
    assert await microphone.next_frame() is None


def test_a_device_that_outlives_trio_does_no_harm() -> None:
    async def make() -> LiveMicrophone:
        return LiveMicrophone(Timeline())

    microphone = trio.run(make)
    thread = threading.Thread(target=microphone.callback, args=(block(0), FRAME_SAMPLES, None, None))
    thread.start()
    thread.join()


def delta(*levels: float) -> ServerEvent:
    pcm = np.repeat(np.array(levels, np.float32), 100)
    audio = base64.b64encode(pcm16_bytes(pcm)).decode()
    return parse_event({"type": "response.output_audio.delta", "response_id": "r", "delta": audio})


def pull(speaker: Loudspeaker, frames: int) -> list[float]:
    out = np.full((frames, 1), 9.0, np.float32)
    speaker.callback(out, frames, None, None)
    return [round(float(value), 2) for value in out[::50, 0]]


def test_the_loudspeaker_plays_in_order_across_blocks_and_then_silence() -> None:
    speaker = Loudspeaker()
    speaker.observe(delta(0.1, 0.2))
    speaker.observe(delta(0.3))
    assert pull(speaker, 150) == [0.1, 0.1, 0.2]
    assert pull(speaker, 300) == [0.2, 0.3, 0.3, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "ending",
    [
        {"type": "output_audio_buffer.cleared", "response_id": "r"},
        {"type": "response.done", "response": {"id": "r", "status": "cancelled"}},
    ],
)
def test_the_loudspeaker_falls_silent_when_an_answer_is_cut(ending: dict[str, object]) -> None:
    speaker = Loudspeaker()
    speaker.observe(delta(0.1, 0.2))
    assert pull(speaker, 50) == [0.1]
    speaker.observe(parse_event(ending))
    assert pull(speaker, 100) == [0.0, 0.0]
    speaker.observe(delta(0.3))
    assert pull(speaker, 50) == [0.3]


def test_a_missing_library_is_said_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(CommandError, match=r"pip install 'duplex-trio\[mic\]'"):
        load_sounddevice()


def test_a_machine_without_sound_devices_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class PortAudioError(Exception):
        pass

    def query_devices(*, kind: str) -> None:
        raise PortAudioError(f"Error querying device -1 ({kind})")

    library = ModuleType("sounddevice")
    library.PortAudioError = PortAudioError  # type: ignore[attr-defined]
    library.query_devices = query_devices  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sounddevice", library)
    with pytest.raises(CommandError, match="no input device"):
        load_sounddevice()
