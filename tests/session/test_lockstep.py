"""A model that answers every frame: frames in are frames out, in order, at the pace of the frames."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.lockstep import FRAME_MS, FRAME_SAMPLES, LockstepPipeline, LockstepPlugin
from duplex_trio.pipelines.requests import RequestView, StageForward
from duplex_trio.plugin.resumable import UnitInput
from duplex_trio.protocol.duplex import (
    AppendAudio,
    BargeIn,
    CancelResponse,
    ClearInput,
    Commit,
    CreateResponse,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    InputAudioBufferSpeechStopped,
    ResponseCreated,
    ResponseDone,
    ResponseListen,
    ResponseOutputAudioDelta,
    ResponseOutputAudioTranscriptDelta,
    SessionCreated,
)
from duplex_trio.protocol.duplex.audio import pcm16_bytes
from duplex_trio.testing import Talker, open_session

NO_VAD = {"turn_detection": None}
FRAME_S = FRAME_MS / 1000
STEP_S = 0.02


class Watched(LockstepPlugin):
    """Keeps the frames that were planned, with their times."""

    def __init__(self) -> None:
        self.units: list[UnitInput] = []
        self.times_s: list[float] = []

    def plan_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        self.units.append(unit)
        self.times_s.append(trio.current_time())
        return super().plan_append(unit, request)


class WatchedPipeline(LockstepPipeline):
    def __init__(self) -> None:
        super().__init__()
        self.plugin: Watched = Watched()


class Deaf(WatchedPipeline):
    def build_vad_worker(self) -> None:
        return None


def append_frame(talker: Talker, loudness: float, samples: int = FRAME_SAMPLES) -> None:
    """A frame that is as loud as `loudness` in all of its samples."""
    talker.send(AppendAudio(audio=pcm16_bytes(np.full(samples, loudness, np.float32))))


def loudness_heard(talker: Talker) -> list[float]:
    """The root mean square of each delta."""
    heard = []
    for event in talker.heard.of(ResponseOutputAudioDelta):
        pcm = np.frombuffer(event.delta, "<i2").astype(np.float32) / 32768
        heard.append(float(np.sqrt(np.mean(pcm * pcm))))
    return heard


def sound_ms(talker: Talker) -> float:
    return sum(len(event.delta) for event in talker.heard.of(ResponseOutputAudioDelta)) / 48


async def test_each_frame_is_answered_by_one_as_loud(autojump_clock: MockClock) -> None:
    """In order, none twice and none lost; all of it is one response."""
    loudness = [0.01 * (1 + number % 40) for number in range(100)]
    async with open_session(pipeline=WatchedPipeline(), patch=NO_VAD) as talker:
        for value in loudness:
            append_frame(talker, value)
            await trio.sleep(FRAME_S)
        await talker.heard.nth(ResponseOutputAudioDelta, 100)
        heard = loudness_heard(talker)
        assert len(talker.heard.of(ResponseCreated)) == 1
        assert not talker.heard.of(ResponseDone)
    assert heard[:100] == pytest.approx(loudness, abs=2e-3)
    assert len(talker.heard.of(ResponseDone)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("chunk_ms", [20, 80, 100, 200])
async def test_no_drift_over_a_minute(autojump_clock: MockClock, chunk_ms: int) -> None:
    """However long the chunks are: the model is never more than a chunk ahead or behind."""
    pipeline = WatchedPipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        began_s = trio.current_time()
        for _ in range(60_000 // chunk_ms):
            await trio.sleep(chunk_ms / 1000)
            talker.append(chunk_ms, loud=True)
        await trio.sleep(2 * STEP_S)
        spoken_ms = sound_ms(talker)
        units = list(pipeline.plugin.units)
    assert sum(not unit.silence for unit in units) == 60_000 // FRAME_MS
    assert sum(unit.silence for unit in units) * FRAME_MS <= chunk_ms
    assert spoken_ms == pytest.approx(60_000, abs=2 * chunk_ms + FRAME_MS)
    late_s = [
        at_s - began_s - (number + 1) * FRAME_S for number, at_s in enumerate(pipeline.plugin.times_s[:700])
    ]
    assert max(late_s) - min(late_s) <= 2 * chunk_ms / 1000 + FRAME_S


async def test_a_client_that_stutters_is_filled_in_for_once(autojump_clock: MockClock) -> None:
    """Sound that is 50 ms late now and then costs one frame of silence, not one each time."""
    pipeline = WatchedPipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        began_s = trio.current_time()
        for number in range(300):
            late_s = 0.05 if number % 10 == 5 else 0.0
            await trio.sleep_until(began_s + number * FRAME_S + late_s)
            append_frame(talker, 0.2)
        units = list(pipeline.plugin.units)
    assert sum(unit.silence for unit in units) == 1


async def test_silence_comes_at_the_pace_of_frames(autojump_clock: MockClock) -> None:
    """When the client stops the model is kept going; when it comes back there is no silence in between."""
    pipeline = WatchedPipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        for _ in range(20):
            append_frame(talker, 0.2)
            await trio.sleep(FRAME_S)
        await trio.sleep(3.0)
        for _ in range(20):
            append_frame(talker, 0.3)
            await trio.sleep(FRAME_S)
        units, times_s = list(pipeline.plugin.units), list(pipeline.plugin.times_s)
        assert len(talker.heard.of(ResponseCreated)) == 1
        assert not talker.heard.of(ErrorEvent)
    silent = [at_s for unit, at_s in zip(units, times_s, strict=True) if unit.silence]
    assert 36 <= len(silent) <= 38
    assert [later - earlier for earlier, later in pairwise(silent[1:])] == pytest.approx(
        [FRAME_S] * (len(silent) - 2)
    )
    assert silent[0] - times_s[19] == pytest.approx(FRAME_S, abs=0.025)
    assert [unit.silence for unit in units[-19:]] == [False] * 19


async def test_a_client_that_is_gone_is_not_talked_to_for_ever(autojump_clock: MockClock) -> None:
    """After 64 frames in a row the response ends; the next frame begins another one."""
    pipeline = WatchedPipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        append_frame(talker, 0.2)
        done = await talker.heard.wait_for(ResponseDone)
        assert done.response.status == "completed"
        assert [event.response.metadata.reason for event in talker.heard.of(ResponseListen)] == [
            "continuation_limit"
        ]
        silent = sum(unit.silence for unit in pipeline.plugin.units)
        await trio.sleep(30)
        assert sum(unit.silence for unit in pipeline.plugin.units) == silent == 64
        append_frame(talker, 0.2)
        await talker.heard.nth(ResponseCreated, 2)


async def test_pauses_do_not_add_up(autojump_clock: MockClock) -> None:
    """Many pauses of two seconds in one response are no reason to end it."""
    async with open_session(pipeline=WatchedPipeline(), patch=NO_VAD) as talker:
        for _ in range(6):
            await talker.speak(0.4)
            await trio.sleep(2.0)
        assert not talker.heard.of(ResponseDone)


async def test_it_cannot_be_interrupted_but_cancelled(autojump_clock: MockClock) -> None:
    """`barge_in` is refused; `response.cancel` ends the response, and the next frame is answered by another."""
    async with open_session(pipeline=WatchedPipeline(), patch=NO_VAD) as talker:
        await talker.speak(1.0)
        talker.send(BargeIn(event_id="e1"), CreateResponse(event_id="e2"))
        await talker.heard.nth(ErrorEvent, 2)
        refused = [(event.error.code, event.error.event_id) for event in talker.heard.of(ErrorEvent)]
        assert sorted(refused) == [("barge_in_unsupported", "e1"), ("unsupported", "e2")]
        assert not talker.heard.of(ResponseDone)
        talker.send(CancelResponse())
        await talker.speak(0.5)
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "cancelled"
        assert len(talker.heard.of(ResponseCreated)) == 2


async def test_it_says_a_word_now_and_then(autojump_clock: MockClock) -> None:
    """Words are told apart and come with their sound."""
    async with open_session(pipeline=WatchedPipeline(), patch=NO_VAD) as talker:
        await talker.speak(3.0)
        words = "".join(event.delta for event in talker.heard.of(ResponseOutputAudioTranscriptDelta))
    assert words == "frame 12 frame 24 frame 36"


async def test_a_flood_waits_and_is_played_in_time(autojump_clock: MockClock) -> None:
    """Half a minute at once is answered at the pace of play-out; what waits is bounded, and a cancel drops little."""
    pipeline = WatchedPipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        for _ in range(30):
            talker.append(1000, loud=True)
        await trio.sleep(10.0)
        assert sound_ms(talker) == pytest.approx(10_300, abs=3 * FRAME_MS)
        assert len(pipeline.plugin.units) * FRAME_MS < 13_500
        assert not talker.heard.of(ErrorEvent)
        await trio.sleep(20.0)
        assert sum(not unit.silence for unit in pipeline.plugin.units) == 30_000 // FRAME_MS


async def test_more_than_waits_is_refused(autojump_clock: MockClock) -> None:
    """Sound that does not fit is refused as a whole, and the frames before and after it are answered."""
    limits = SessionLimits(pending_input_bytes_max=4 * 24_000 * 4)
    pipeline = WatchedPipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD, limits=limits) as talker:
        for _ in range(6):
            talker.append(1000, loud=True)
        error = await talker.heard.wait_for(ErrorEvent)
        assert (error.error.code, error.error.param) == ("input_backpressure", "audio")
        await trio.sleep(8.0)
        assert sum(not unit.silence for unit in pipeline.plugin.units) == 4_000 // FRAME_MS


async def test_a_commit_pads_the_last_frame(autojump_clock: MockClock) -> None:
    """The rest of the sound is a frame with silence behind it."""
    pipeline = WatchedPipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        append_frame(talker, 0.3, FRAME_SAMPLES + 480)
        talker.send(Commit())
        await talker.heard.nth(ResponseOutputAudioDelta, 2)
    first, last = pipeline.plugin.units[:2]
    assert (first.final, last.final) == (False, True)
    assert np.count_nonzero(last.pcm) == 480


async def test_a_commit_waits_behind_the_sound_before_it(autojump_clock: MockClock) -> None:
    """While the model is behind, the rest of the sound is padded when its turn comes; a clear forgets it."""
    pipeline = WatchedPipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD) as talker:
        append_frame(talker, 0.3, 40 * FRAME_SAMPLES + 480)
        talker.send(Commit())
        await trio.sleep(5.0)
        finals = [np.count_nonzero(unit.pcm) for unit in pipeline.plugin.units if unit.final]
        assert finals == [480]
        append_frame(talker, 0.3, 40 * FRAME_SAMPLES + 480)
        talker.send(Commit(), ClearInput())
        append_frame(talker, 0.3, 480)
        await trio.sleep(2.0)
        assert sum(unit.final for unit in pipeline.plugin.units) == 1


async def test_speech_is_found_at_its_own_rate(autojump_clock: MockClock) -> None:
    """The detector hears 16 kHz and the model 24: positions are milliseconds all the same, for as long as it lasts."""
    limits = SessionLimits(pending_input_bytes_max=8 * 24_000 * 4)
    patch = {"turn_detection": {"type": "server_vad", "silence_duration_ms": 500}}
    async with open_session(pipeline=WatchedPipeline(), patch=patch, limits=limits) as talker:
        for _ in range(5):
            await talker.pause(3.0)
            await talker.speak(1.0)
        await talker.pause(3.0)
        starts_ms = [event.audio_start_ms for event in talker.heard.of(InputAudioBufferSpeechStarted)]
        ends_ms = [event.audio_end_ms for event in talker.heard.of(InputAudioBufferSpeechStopped)]
        assert starts_ms == pytest.approx([3000 - 300 + 4000 * turn for turn in range(5)], abs=64)
        assert ends_ms == pytest.approx([4000 + 500 + 4000 * turn for turn in range(5)], abs=64)
        assert not talker.heard.of(InputAudioBufferCommitted)
        assert not talker.heard.of(ErrorEvent)
        assert sound_ms(talker) == pytest.approx(23_000, abs=200)


async def test_speech_is_found_soon_at_its_own_rate(autojump_clock: MockClock) -> None:
    """What the resampler holds back comes on top of what speech takes to count, and nothing else."""
    patch = {"turn_detection": {"type": "server_vad"}}
    async with open_session(pipeline=WatchedPipeline(), patch=patch) as talker:
        await talker.pause(2.0)
        spoke_s = trio.current_time()
        await talker.speak(0.5)
        heard_s = talker.heard.times_s[talker.heard.types.index("input_audio_buffer.speech_started")]
        assert heard_s - spoke_s <= 0.096 + 0.032 + 0.021 + 0.02 + STEP_S + 1e-6


async def test_frames_are_answered_when_voice_activity_is_gone(autojump_clock: MockClock) -> None:
    """A client that asks for it where there is none is told once, and its frames are answered for long."""
    limits = SessionLimits(pending_input_bytes_max=8 * 24_000 * 4)
    patch = {"turn_detection": {"type": "server_vad"}}
    async with open_session(pipeline=Deaf(), patch=patch, limits=limits) as talker:
        await talker.speak(20.0)
        errors = [event.error.code for event in talker.heard.of(ErrorEvent)]
        assert errors == ["server_vad_unavailable"]
        assert sound_ms(talker) == pytest.approx(20_000, abs=200)


async def test_nothing_is_detected_unless_asked(autojump_clock: MockClock) -> None:
    """A session of such a model begins without turn detection."""
    async with open_session(pipeline=WatchedPipeline()) as talker:
        shown = talker.heard.of(SessionCreated)[0].session
        assert shown["turn_detection"] is None
        await talker.speak(1.0)
        assert not talker.heard.of(ErrorEvent)


async def test_a_small_line_never_runs_full_of_what_was_heard(autojump_clock: MockClock) -> None:
    """The model has taken the sound, so however little may wait, a client in real time is never refused."""
    limits = SessionLimits(pending_input_bytes_max=20_000)
    async with open_session(
        pipeline=LockstepPipeline(), patch={"turn_detection": None}, limits=limits
    ) as talker:
        await talker.speak(5.0)
        assert not talker.heard.of(ErrorEvent)
