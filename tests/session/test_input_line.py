"""What happens to sound when there is much of it: refused whole or taken whole, and let go in time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import Attachment, SessionLimits
from duplex_trio.models.scripted.lockstep import LockstepPipeline
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.protocol.duplex import (
    AppendAudio,
    BargeIn,
    CancelInput,
    ClearInput,
    Commit,
    DuplexCommand,
    DuplexEvent,
    ErrorEvent,
    InputAudioBufferSpeechStarted,
    InputAudioBufferSpeechStopped,
)
from duplex_trio.testing import Talker, open_session, scripted_omni
from duplex_trio.testing.invariants import core_of
from duplex_trio.testing.snapshots import snapshot
from duplex_trio.testing.watched import WatchedNativePipeline

VAD = {"turn_detection": {"type": "server_vad", "interrupt_response": False}}
BYTES_PER_S = 16_000 * 4
CLIENT_RATE_HZ = 24_000


class Forgetful(Attachment):
    """A client that keeps nothing."""

    async def send(self, event: DuplexEvent) -> None:
        await trio.lowlevel.checkpoint()

    async def close(self, code: int, reason: str) -> None:
        await trio.lowlevel.checkpoint()


def refused(talker: Talker) -> list[tuple[str, str | None]]:
    return [(event.error.code, event.error.param) for event in talker.heard.of(ErrorEvent)]


async def test_a_refused_append_reaches_neither_the_line_nor_the_model(autojump_clock: MockClock) -> None:
    """The line is full because voice activity lags behind, though the model has taken its units already."""
    pipeline = WatchedNativePipeline()
    limits = SessionLimits(pending_input_bytes_max=4 * BYTES_PER_S)
    async with open_session(pipeline=pipeline, patch=VAD, limits=limits, step_s={"vad": 2.0}) as talker:
        talker.append(3100, loud=True)
        await trio.sleep(1.0)
        assert pipeline.plugin.loud == 3
        talker.append(3100, loud=True)
        await trio.sleep(0.5)
        assert refused(talker) == [("input_backpressure", "audio")]
        assert pipeline.plugin.loud == 3
        await trio.sleep(10.0)
        assert pipeline.plugin.loud == 3
        # All is judged by now, so there is room again, for as much as before.
        for count in range(2, 5):
            talker.append(3100, loud=True)
            await trio.sleep(10.0)
            assert pipeline.plugin.loud == 3 * count
        assert len(refused(talker)) == 1


async def test_an_append_that_the_model_has_no_room_for_is_not_taken_by_half(
    autojump_clock: MockClock,
) -> None:
    """The line would have had room."""
    pipeline = WatchedNativePipeline()
    limits = SessionLimits(pending_input_bytes_max=int(3.15 * BYTES_PER_S))
    async with open_session(pipeline=pipeline, patch=VAD, limits=limits) as talker:
        talker.append(3100, loud=True)
        await trio.sleep(1.0)
        end = talker.handle._core.state.timeline.end
        talker.append(3100, loud=True)
        await trio.sleep(1.0)
        assert refused(talker) == [("input_backpressure", "audio")]
        assert talker.handle._core.state.timeline.end == end
        assert pipeline.plugin.loud == 3
        talker.append(2000, loud=True)
        await trio.sleep(1.0)
        assert len(refused(talker)) == 1
        assert pipeline.plugin.loud == 5


@pytest.mark.parametrize("loud", [True, False])
@pytest.mark.parametrize("make_pipeline", [ScriptedPipeline, WatchedNativePipeline, LockstepPipeline])
@pytest.mark.parametrize("append_ms", [20, 1500])
async def test_a_small_line_goes_on_taking_sound(
    autojump_clock: MockClock, make_pipeline: type[Pipeline], loud: bool, append_ms: int
) -> None:
    """Speech or silence, in real time: what is judged makes room, and nothing is refused though the line is short."""
    limits = SessionLimits(pending_input_bytes_max=6 * BYTES_PER_S)
    async with open_session(pipeline=make_pipeline(), patch=VAD, limits=limits) as talker:
        for _ in range(15_000 // append_ms):
            talker.append(append_ms, loud=loud)
            await trio.sleep(append_ms / 1000)
        assert not refused(talker)
        assert bool(talker.heard.of(InputAudioBufferSpeechStarted)) is loud


def stops_ms(talker: Talker) -> list[int]:
    return [event.audio_end_ms for event in talker.heard.of(InputAudioBufferSpeechStopped)]


@pytest.mark.parametrize("make_pipeline", [ScriptedPipeline, NativePipeline])
async def test_sound_at_another_rate_goes_on_where_the_last_ended(
    autojump_clock: MockClock, make_pipeline: type[Pipeline]
) -> None:
    """A resampler that is not needed any more gives back what it held, before the next one's sound."""
    async with open_session(pipeline=make_pipeline(), patch={"turn_detection": None}) as talker:
        for rate_hz in (8000, 48_000, 24_000, 16_000, 44_100) * 4:
            loud = np.full(rate_hz // 10, 12_000, "<i2").tobytes()
            talker.send(AppendAudio(audio=loud, sample_rate_hz=rate_hz))
        talker.send(Commit())
        await trio.sleep(0.1)
        assert stops_ms(talker) == [2000]
        core = core_of(talker.handle)
        if core.units is not None:
            assert core.units.line.held_bytes == 0


@pytest.mark.parametrize("drop", [ClearInput(), CancelInput(), BargeIn()])
@pytest.mark.parametrize("patch", [VAD, {"turn_detection": None}])
async def test_sound_that_is_dropped_counts_for_the_clock(
    autojump_clock: MockClock, drop: DuplexCommand, patch: dict[str, Any]
) -> None:
    """All of it: the client's clock knows nothing of resamplers."""
    async with open_session(patch=patch) as talker:
        for end_ms in (400, 800, 1200):
            talker.append(400, loud=True)
            await trio.sleep(0.1)
            talker.send(drop)
            assert core_of(talker.handle).state.timeline.end == end_ms * 16
            assert core_of(talker.handle).state.timeline.held_bytes == 0
        await trio.sleep(0.1)
        assert stops_ms(talker) == [400, 800, 1200]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_pipeline", "detects"),
    [
        (ScriptedPipeline, True),
        (NativePipeline, True),
        (NativePipeline, False),
        (LockstepPipeline, True),
        (LockstepPipeline, False),
    ],
)
async def test_hours_of_sound_leave_nothing_behind(
    autojump_clock: MockClock, make_pipeline: type[Pipeline], detects: bool
) -> None:
    """A microphone that is left open: everything below a session and its engine is as large as it was."""
    patch = VAD if detects else {"turn_detection": None}
    async with scripted_omni(pipeline=make_pipeline()) as omni:
        handle = await omni.open_session(dialect="duplex", attachment=Forgetful(), patch=patch)

        async def minutes(count: int) -> tuple[int, int]:
            """How many values there are then, and how many bytes of sound."""
            for _ in range(count * 12):
                handle.submit(AppendAudio(audio=bytes(5 * CLIENT_RATE_HZ * 2)))
                await trio.sleep(5)
            await trio.sleep(1)
            picture = snapshot(core_of(handle))
            # Of an endless response there are now more marks, now fewer, up to a bound of their own.
            places = [place for place in picture if not place.startswith(".state.active.marks")]
            arrays = [picture[place][2] for place in places if _is_array(picture[place])]
            return len(places), sum(map(len, arrays))

        # A model with short units has made as many in a tenth of the time.
        count = 6 if make_pipeline is LockstepPipeline else 25
        values, sound_bytes = await minutes(count)
        for _ in range(2):
            more_values, more_sound_bytes = await minutes(count)
            assert more_values <= values + 20
            assert more_sound_bytes <= sound_bytes + BYTES_PER_S
        assert handle.counters.commands_refused == 0
        handle.close("over")
        await handle.wait_closed()


def _is_array(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 3
