"""Voice activity that breaks, hangs or is missing: the client is told once and goes on by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


class FragilePipeline(ScriptedPipeline):
    def __init__(self, script: Script, frames: int, *, dies: bool) -> None:
        super().__init__(script=script)
        self._frames, self._dies = frames, dies

    def build_vad_worker(self) -> StageWorker:
        return Fragile(self._frames, dies=self._dies)


def codes(talker: Talker) -> list[str]:
    return [event.error.code for event in talker.heard.of(ErrorEvent)]


async def commit_by_hand(talker: Talker) -> None:
    """A turn as a client without detection gives it, and its answer."""
    answered = len(talker.heard.of(ResponseDone))
    await talker.speak(0.5)
    talker.send(Commit(response_create=True))
    done = await talker.heard.nth(ResponseDone, answered + 1)
    assert done.response.status == "completed"


@pytest.mark.usefixtures("faults_expected")
@pytest.mark.parametrize("dies", [False, True], ids=["its request fails", "its runtime dies"])
@pytest.mark.parametrize("frames", [0, 10, 35, 45, 200])
async def test_a_detector_that_breaks(autojump_clock: MockClock, frames: int, dies: bool) -> None:
    """At the first frame, in speech, in a pause, at the end of a turn, in silence: the same for every session."""
    pipeline = FragilePipeline(Script(), frames, dies=dies)
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
