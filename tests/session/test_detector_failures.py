"""Voice activity that breaks, hangs or is missing: what is soon back is not noticed, of the rest the client is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.workers import EnergyVad
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.protocol.duplex import (
    Commit,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    InputAudioBufferSpeechStopped,
    ResponseDone,
    UpdateSession,
)
from duplex_trio.stages.vad import Frames, Scores
from duplex_trio.stages.worker import StageWorker, WorkerContext
from duplex_trio.testing import Talker, finish, open_talker, scripted_omni
from duplex_trio.testing.invariants import check_session

VAD = {"turn_detection": {"type": "server_vad"}}


class Fragile(EnergyVad):
    """Breaks at a frame: its request fails, or the runtime itself."""

    def __init__(self, frames: int, *, dies: bool) -> None:
        super().__init__()
        self._left = frames
        self._dies = dies

    def score(self, speakers: Sequence[None], frames: Frames) -> Scores:
        self._left -= 1
        if self._left < 0 and not self._dies:
            raise RuntimeError("the network is broken")
        return super().score(speakers, frames)

    def step(self, context: WorkerContext) -> bool:
        if self._left < 0 and self._dies:
            raise RuntimeError("the runtime is broken")
        return super().step(context)


class Unloadable(EnergyVad):
    def load(self) -> None:
        raise OSError("no weights")


class FragilePipeline(ScriptedPipeline):
    """Its detector breaks once; `unloadable` of those behind it cannot be loaded."""

    def __init__(self, script: Script, frames: int, *, dies: bool, unloadable: int = 0) -> None:
        super().__init__(script=script)
        self._frames, self._dies, self._unloadable = frames, dies, unloadable
        self.lives = 0

    def build_vad_worker(self) -> StageWorker:
        self.lives += 1
        if self.lives == 1:
            return Fragile(self._frames, dies=self._dies)
        return Unloadable() if self.lives - 1 <= self._unloadable else EnergyVad()


def codes(talker: Talker) -> list[str]:
    return [event.error.code for event in talker.heard.of(ErrorEvent)]


async def commit_by_hand(talker: Talker) -> None:
    """A turn as a client without detection gives it, and its answer."""
    answered = len(talker.heard.of(ResponseDone))
    await talker.speak(0.5)
    talker.send(Commit(response_create=True))
    done = await talker.heard.nth(ResponseDone, answered + 1)
    assert done.response.status == "completed"


AT_FRAME = pytest.mark.parametrize("frames", [0, 10, 35, 45, 200])
"""At the first frame, in speech, in a pause, at the end of a turn, in silence."""


@pytest.mark.usefixtures("faults_expected")
@AT_FRAME
async def test_a_detector_that_fails_at_its_work(autojump_clock: MockClock, frames: int) -> None:
    """The same for every session."""
    pipeline = FragilePipeline(Script(), frames, dies=False)
    async with scripted_omni(pipeline=pipeline) as omni:
        talkers = [await open_talker(omni, patch=VAD, dialect="beta") for _ in range(2)]
        async with trio.open_nursery() as nursery:
            for talker in talkers:
                nursery.start_soon(talker.turn)
        async with trio.open_nursery() as nursery:
            for talker in talkers:
                nursery.start_soon(talker.pause, 8.0)
        for talker in talkers:
            assert codes(talker) == ["server_vad_unavailable"]
            check_session(talker.handle, trio.current_time())
        for talker in talkers:
            await commit_by_hand(talker)
            await commit_by_hand(talker)
            started = talker.heard.of(InputAudioBufferSpeechStarted)
            stopped = talker.heard.of(InputAudioBufferSpeechStopped)
            assert [event.item_id for event in started] == [event.item_id for event in stopped]
            assert codes(talker) == ["server_vad_unavailable"]
        await finish(omni, *talkers)


async def two_turns(pipeline: Pipeline) -> list[list[tuple[int, int]]]:
    """What two sessions are told of where their speech begins and ends, in two turns each that are answered."""
    async with scripted_omni(pipeline=pipeline) as omni:
        talkers = [await open_talker(omni, patch=VAD, dialect="beta") for _ in range(2)]
        for number in (1, 2):
            async with trio.open_nursery() as nursery:
                for talker in talkers:
                    nursery.start_soon(talker.turn)
            async with trio.open_nursery() as nursery:
                for talker in talkers:
                    nursery.start_soon(talker.pause, 2.5)
            for talker in talkers:
                done = talker.heard.of(ResponseDone)
                assert [each.response.status for each in done] == ["completed"] * number
                check_session(talker.handle, trio.current_time())
                assert codes(talker) == []
        await finish(omni, *talkers)
    return [
        [
            (started.audio_start_ms, stopped.audio_end_ms)
            for started, stopped in zip(
                talker.heard.of(InputAudioBufferSpeechStarted),
                talker.heard.of(InputAudioBufferSpeechStopped),
                strict=True,
            )
        ]
        for talker in talkers
    ]


@AT_FRAME
async def test_a_detector_that_dies_and_is_soon_back(autojump_clock: MockClock, frames: int) -> None:
    """No speech is lost and nobody is told: every turn is heard as if nothing had been."""
    pipeline = FragilePipeline(Script(), frames, dies=True)
    heard = await two_turns(pipeline)
    assert pipeline.lives == 2
    undisturbed = await two_turns(ScriptedPipeline(script=Script()))
    assert np.abs(np.array(heard) - np.array(undisturbed)).max() <= 32, "a frame"


@pytest.mark.usefixtures("faults_expected")
@pytest.mark.parametrize("speaks", [False, True], ids=["in silence", "in speech"])
async def test_a_detector_that_stays_away_and_comes_back(autojump_clock: MockClock, speaks: bool) -> None:
    """The client is told once, commits by hand meanwhile, and then is heard again by itself."""
    pipeline = FragilePipeline(
        Script(), 20, dies=True, unloadable=4
    )  # away for 0.5 + 1 + 2 + 4 + 8 seconds at most
    async with scripted_omni(pipeline=pipeline) as omni:
        talker = await open_talker(omni, patch=VAD, dialect="beta")
        by_hand = await open_talker(omni, patch={"turn_detection": None}, dialect="beta")
        await (talker.speak(1.0) if speaks else talker.pause(1.0))
        await talker.pause(3.5)
        assert codes(talker) == []
        await talker.pause(1.6)
        assert codes(talker) == ["server_vad_unavailable"]
        await commit_by_hand(talker)
        late = await open_talker(omni, patch=VAD, dialect="beta")
        await late.pause(0.1)
        assert codes(late) == ["server_vad_unavailable"]
        await talker.pause(16.0)
        assert omni.healthy
        for each in (talker, late):
            answered = len(each.heard.of(ResponseDone))
            await each.turn()
            done = await each.heard.nth(ResponseDone, answered + 1)
            assert done.response.status == "completed"
            assert codes(each) == ["server_vad_unavailable"]
        await commit_by_hand(by_hand)
        assert codes(by_hand) == []
        await finish(omni, talker, late, by_hand)


@pytest.mark.usefixtures("faults_expected")
async def test_detection_that_is_asked_for_while_it_is_away(autojump_clock: MockClock) -> None:
    """The client that had turned it off is told when it wants it."""
    pipeline = FragilePipeline(Script(), 20, dies=True, unloadable=4)
    async with scripted_omni(pipeline=pipeline) as omni:
        talker = await open_talker(omni, patch=VAD, dialect="beta")
        await talker.pause(1.0)
        talker.send(UpdateSession(patch={"turn_detection": None}))
        await talker.pause(7.0)
        assert codes(talker) == []
        talker.send(UpdateSession(patch=VAD))
        await talker.pause(0.1)
        assert codes(talker) == ["server_vad_unavailable"]
        await talker.pause(16.0)
        await talker.turn()
        assert (await talker.heard.wait_for(ResponseDone)).response.status == "completed"
        await finish(omni, talker)


async def test_a_detector_that_hangs(autojump_clock: MockClock) -> None:
    """It has its time; then its sessions go on without it, and so do those that come while it hangs."""
    limits = SessionLimits(vad_timeout_s=3.0)
    async with scripted_omni(limits=limits, step_s={"vad": 60.0}) as omni:
        talker = await open_talker(omni, patch=VAD)
        await talker.speak(2.9)
        assert codes(talker) == []
        await talker.speak(0.3)
        assert codes(talker) == ["server_vad_unavailable"]
        await commit_by_hand(talker)
        another = await open_talker(omni, patch=VAD)
        await another.speak(4.0)
        await commit_by_hand(another)
        assert codes(talker) == codes(another) == ["server_vad_unavailable"]
        await finish(omni, talker, another)


async def test_it_stays_off_in_a_session_that_lost_it(autojump_clock: MockClock) -> None:
    """Also when its settings change; a new session tries anew."""
    limits = SessionLimits(vad_timeout_s=3.0)
    async with scripted_omni(limits=limits, step_s={"vad": 4.0}) as omni:
        talker = await open_talker(omni, patch=VAD, dialect="beta")
        await talker.speak(3.5)
        assert codes(talker) == ["server_vad_unavailable"]
        talker.send(UpdateSession(patch={"turn_detection": {"type": "server_vad", "threshold": 0.7}}))
        await talker.turn()
        await talker.pause(5.0)
        assert not talker.heard.of(InputAudioBufferCommitted)
        assert codes(talker) == ["server_vad_unavailable"]
        await finish(omni, talker)


class _Bug(Exception):
    pass


@pytest.mark.usefixtures("faults_expected")
@pytest.mark.parametrize("make_pipeline", [ScriptedPipeline, NativePipeline])
async def test_a_session_that_breaks_at_its_scores_ends_alone(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, make_pipeline: type[Pipeline]
) -> None:
    """They are judged in the stage's delivery, which serves everybody."""
    async with scripted_omni(pipeline=make_pipeline()) as omni:
        broken, sound = [await open_talker(omni, patch=VAD) for _ in range(2)]

        def bug(*_: Any) -> None:
            raise _Bug

        detector = broken.handle._dispatch._detector
        monkeypatch.setattr(detector, "_speech_begins", bug)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broken.turn)
            nursery.start_soon(sound.turn)
        end = await broken.handle.wait_closed()
        assert (end.reason, end.code) == ("internal_error", 1011)
        assert codes(broken) == ["internal_error"]
        assert codes(sound) == []
        assert len(sound.heard.of(InputAudioBufferSpeechStopped)) == 1
        await finish(omni, broken, sound)
