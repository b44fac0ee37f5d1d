"""The bridge between the sound device's threads and Trio, without a device."""

from __future__ import annotations

import base64
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import trio

from duplex_trio.cli.talk.loudspeaker import Loudspeaker
from duplex_trio.cli.talk.microphone import LiveMicrophone
from duplex_trio.cli.talk.scenario import FRAME_SAMPLES, MICROPHONE_HZ
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
    assert microphone.dropped_s == 0


async def test_a_second_of_sound_may_wait_and_the_rest_is_dropped_and_counted() -> None:
    microphone = LiveMicrophone(Timeline())
    for _ in range(57):
        microphone.callback(block(0), FRAME_SAMPLES, None, None)
    await trio.testing.wait_all_tasks_blocked()
    assert microphone.dropped_s == pytest.approx(7 * 0.02)
    for _ in range(50):
        await microphone.next_frame()
    microphone.callback(block(0.5), FRAME_SAMPLES, None, None)
    frame = await microphone.next_frame()
    assert frame is not None
    assert frame[0] == 0.5


@pytest.mark.parametrize("rate_hz", [8_000, 44_100, 48_000])
async def test_a_device_may_have_another_rate_and_blocks_of_its_own(rate_hz: int) -> None:
    """A tone of a second is one of a second, in whole frames, at its height."""
    microphone = LiveMicrophone(Timeline(), rate_hz=rate_hz)
    tone = np.sin(2 * np.pi * 440 * np.arange(rate_hz) / rate_hz).astype(np.float32)

    def device() -> None:
        for start in range(0, rate_hz, 611):
            part = tone[start : start + 611]
            microphone.callback(part[:, None], len(part), None, None)
        microphone.finished()

    await trio.to_thread.run_sync(device)
    frames = []
    while (frame := await microphone.next_frame()) is not None:
        assert frame.shape == (FRAME_SAMPLES,)
        frames.append(frame)
    heard = np.concatenate(frames)
    assert 0.9 * MICROPHONE_HZ < len(heard) <= MICROPHONE_HZ  # the resampler holds the last milliseconds
    spectrum = np.abs(np.fft.rfft(heard[1600:14400]))
    assert np.fft.rfftfreq(12800, 1 / MICROPHONE_HZ)[spectrum.argmax()] == pytest.approx(440, abs=2)
    assert np.abs(heard[1600:14400]).max() == pytest.approx(1.0, abs=0.05)


async def test_a_device_that_is_unplugged_ends_the_conversation() -> None:
    microphone = LiveMicrophone(Timeline())
    await trio.to_thread.run_sync(microphone.finished)
    with trio.fail_after(10):
        assert await microphone.next_frame() is None
    assert microphone.lost


async def test_a_microphone_that_is_muted_sends_silence() -> None:
    muted = [True, False]
    microphone = LiveMicrophone(Timeline(), muted=lambda: muted.pop(0))
    for _ in range(2):
        microphone.callback(block(0.5), FRAME_SAMPLES, None, None)
    frames = [await microphone.next_frame() for _ in range(2)]
    assert [float(frame[0]) for frame in frames if frame is not None] == [0.0, 0.5]


async def test_sound_that_the_device_lost_is_counted() -> None:
    microphone = LiveMicrophone(Timeline())
    microphone.callback(block(0), FRAME_SAMPLES, None, SimpleNamespace(input_overflow=True))
    microphone.callback(block(0), FRAME_SAMPLES, None, SimpleNamespace(input_overflow=False))
    await trio.testing.wait_all_tasks_blocked()
    assert microphone.overruns == 1


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


def test_the_loudspeaker_has_a_rate_of_its_own() -> None:
    """Half a second in pieces is half a second at the device's rate once the answer is done, and not before."""
    speaker = Loudspeaker(rate_hz=48_000)
    for _ in range(5):
        speaker.observe(delta(*[0.5] * 24))
    speaker.observe(parse_event({"type": "response.done", "response": {"id": "r", "status": "completed"}}))
    out = np.full((48_000, 1), 9.0, np.float32)
    speaker.callback(out, 48_000, None, None)
    heard = np.flatnonzero(np.abs(out[:, 0]) > 0.01)
    assert heard[-1] - heard[0] == pytest.approx(24_000, abs=50)
    assert out[12_000, 0] == pytest.approx(0.5, abs=0.01)


def test_the_loudspeaker_knows_when_it_is_heard() -> None:
    speaker = Loudspeaker()
    assert not speaker.playing
    speaker.observe(delta(0.1, 0.2))
    assert speaker.playing
    pull(speaker, 200)
    assert speaker.playing  # the last block is being played now
    pull(speaker, 50)
    assert not speaker.playing


def test_a_loudspeaker_that_ran_dry_counts_it() -> None:
    speaker = Loudspeaker()
    speaker.callback(np.zeros((10, 1), np.float32), 10, None, SimpleNamespace(output_underflow=True))
    assert speaker.underruns == 1
