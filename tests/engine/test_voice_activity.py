"""Voice activity for all sessions: who is scored with whom and when, and what happens when something breaks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from duplex_trio.engine.voice_activity import (
    FRAMES_PER_JOB_MAX,
    FRAMES_PER_TICK_MAX,
    JOB_SPACING_S,
    VoiceActivity,
)
from duplex_trio.session.port import VoiceLine, VoiceListener
from duplex_trio.stages.inline import InlineStage
from duplex_trio.stages.pool import RestartPolicy, StagePool
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.run import ThreadStage
from duplex_trio.stages.units import Pcm, VadBatch, VadScores
from duplex_trio.stages.vad import Frames, Scores, VadWorker
from duplex_trio.stages.worker import StageWorker, WorkerContext
from duplex_trio.testing.run import carried
from duplex_trio.testing.stage_script import GUARD_S

STEP_S = 0.02
TIMEOUT_S = 5.0


class Echo(VadWorker):
    """Scores a frame by its first sample."""

    name = "vad"

    def load(self) -> None:
        pass

    def new_speaker(self) -> None:
        pass

    def score(self, speakers: Sequence[None], frames: Frames) -> Scores:
        return frames[:, 0].copy()


class Watched(Echo):
    """Remembers who was in each job with how many frames, when, and how many speakers it knew then."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[dict[int, int]] = []
        self.times_s: list[float] = []
        self.known: list[int] = []
        self.fault: Exception | None = None

    def process(self, request: StageRequest, state: dict[int, Any], unit: VadBatch) -> Iterator[VadScores]:
        if self.fault is not None:
            raise self.fault
        self.jobs.append({number: len(pcm) // 512 for number, pcm in unit.frames.items()})
        self.times_s.append(trio.current_time())
        yield from super().process(request, state, unit)
        self.known.append(len(state))


@define(eq=False)
class Speaker(VoiceListener):
    """A session: the frames that it has to score, and what it was told."""

    hub: VoiceActivity
    waiting: list[float] = field(factory=list)
    told: list[float] = field(factory=list)
    times_s: list[float] = field(factory=list)
    lost: int = 0
    away: list[str] = field(factory=list)
    handed: list[float] = field(factory=list)
    errors: list[Exception] = field(factory=list)
    on_judge: Callable[[], None] = lambda: None
    line: VoiceLine | None = None
    news: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)

    def enter(self) -> Speaker:
        self.line = self.hub.open(self)
        return self

    def say(self, *frames: float) -> None:
        assert self.line is not None
        self.waiting += frames
        self.line.ready()

    def next_frames(self, frames_max: int) -> Pcm:
        taken, self.waiting = self.waiting[:frames_max], self.waiting[frames_max:]
        self.handed = taken
        return np.repeat(np.array(taken, np.float32), 512)

    def judge(self, probabilities: Sequence[float]) -> None:
        self.on_judge()
        self.told += probabilities
        self.times_s.append(trio.current_time())
        self.news.unpark_all()
        if self.waiting:
            assert self.line is not None
            self.line.ready()

    def give_back(self) -> None:
        self.waiting = self.handed + self.waiting

    def suspended(self) -> None:
        self.away.append("suspended")

    def resumed(self) -> None:
        self.away.append("resumed")

    def unavailable(self) -> None:
        self.lost += 1

    def crashed(self, error: Exception) -> None:
        self.errors.append(error)


class Raises(Speaker):
    """A session whose own code is broken."""

    def unavailable(self) -> None:
        raise RuntimeError("broken")


@asynccontextmanager
async def running(
    worker: StageWorker, *, step_s: float = STEP_S
) -> AsyncIterator[tuple[VoiceActivity, ThreadStage]]:
    stage = InlineStage(worker, step_s=step_s)
    hub = VoiceActivity(stage, job_timeout_s=TIMEOUT_S)
    async with trio.open_nursery() as nursery:
        await nursery.start(stage.run)
        nursery.start_soon(hub.pace)
        nursery.start_soon(hub.watch)
        yield hub, stage
        nursery.cancel_scope.cancel()


async def test_a_session_by_itself_is_scored_at_once(autojump_clock: MockClock) -> None:
    """Nothing waits for company: the score is there when the stage has done its work."""
    async with running(Watched()) as (hub, _):
        speaker = Speaker(hub).enter()
        for number in range(3):
            said_s = trio.current_time()
            speaker.say(number / 10)
            await trio.sleep(0.032)
            assert speaker.times_s[-1] == pytest.approx(said_s + STEP_S)
        assert speaker.told == pytest.approx([0.0, 0.1, 0.2])


async def test_who_comes_while_a_job_runs_goes_into_the_next(autojump_clock: MockClock) -> None:
    """All of them together, each with its own scores."""
    worker = Watched()
    async with running(worker) as (hub, _):
        speakers = [Speaker(hub).enter() for _ in range(5)]
        speakers[0].say(0.5)
        await trio.sleep(STEP_S / 2)
        for index, speaker in enumerate(speakers):
            speaker.say(index / 10, index / 10 + 0.05)
        await trio.sleep(1)
        assert [list(job.values()) for job in worker.jobs] == [[1], [2, 2, 2, 2, 2]]
        assert speakers[0].told == pytest.approx([0.5, 0.0, 0.05])
        assert [speaker.told for speaker in speakers[1:]] == [
            pytest.approx([index / 10, index / 10 + 0.05]) for index in range(1, 5)
        ]


async def test_jobs_of_a_quick_stage_keep_their_distance(autojump_clock: MockClock) -> None:
    """However many sessions there are, and nobody waits longer than that."""
    worker = Watched()
    async with running(worker, step_s=0.0) as (hub, _):
        speakers = [Speaker(hub).enter() for _ in range(40)]
        for _ in range(10):
            for speaker in speakers:
                speaker.say(trio.current_time())
                await trio.sleep(0.032 / 40)
        await trio.sleep(1)
        gaps_s = np.diff(worker.times_s)
        assert gaps_s.min() >= JOB_SPACING_S - 1e-9
        assert sum(len(job) for job in worker.jobs) == 400
        for speaker in speakers:
            for said_s, told_s in zip(speaker.told, speaker.times_s, strict=True):
                assert told_s - said_s <= JOB_SPACING_S + 1e-6


async def test_one_that_is_far_behind_starves_nobody(autojump_clock: MockClock) -> None:
    """It gives a second of sound to each job, and everybody else is in the very next one."""
    worker = Watched()
    async with running(worker) as (hub, _):
        behind, other = Speaker(hub).enter(), Speaker(hub).enter()
        behind.say(*[0.5] * 200)
        for _ in range(5):
            await trio.sleep(STEP_S)
            said_s = trio.current_time()
            other.say(0.25)
            await trio.sleep(STEP_S / 2)
            assert len(other.told) < len(behind.told)
            await trio.sleep(2 * STEP_S)
            assert other.times_s[-1] - said_s <= 2 * STEP_S + 1e-6
        await trio.sleep(1)
        assert len(behind.told) == 200
        assert max(max(job.values()) for job in worker.jobs) == FRAMES_PER_JOB_MAX


async def test_when_many_are_behind_they_share_a_job(autojump_clock: MockClock) -> None:
    """A job holds no more than a few hundredths of a second of work."""
    worker = Watched()
    async with running(worker) as (hub, _):
        first = Speaker(hub).enter()
        first.say(0.0)
        speakers = [Speaker(hub).enter() for _ in range(FRAMES_PER_TICK_MAX // 4)]
        for speaker in speakers:
            speaker.say(*[0.5] * 20)
        await trio.sleep(5)
        assert set(worker.jobs[1].values()) == {4}
        assert max(sum(job.values()) for job in worker.jobs) <= FRAMES_PER_TICK_MAX
        assert all(len(speaker.told) == 20 for speaker in speakers)


async def test_more_sessions_than_a_job_holds_take_turns(autojump_clock: MockClock) -> None:
    worker = Watched()
    async with running(worker) as (hub, _):
        speakers = [Speaker(hub).enter() for _ in range(FRAMES_PER_TICK_MAX * 2)]
        for speaker in speakers:
            speaker.say(0.5, 0.5)
        await trio.sleep(5)
        assert all(speaker.told == [0.5, 0.5] for speaker in speakers)
        assert max(sum(job.values()) for job in worker.jobs) == FRAMES_PER_TICK_MAX
        assert worker.jobs[1].keys() | worker.jobs[2].keys() >= set(range(2, FRAMES_PER_TICK_MAX * 2 + 1))


@pytest.mark.parametrize("call", ["next_frames", "judge"])
async def test_a_session_that_crashes_crashes_alone(autojump_clock: MockClock, call: str) -> None:
    """It is told of its own exception and asked nothing more; the others are scored on."""
    async with running(Watched()) as (hub, _):
        broken, sound = Speaker(hub).enter(), Speaker(hub).enter()

        def fail(*_: object) -> None:
            raise RuntimeError("broken")

        if call == "judge":
            broken.on_judge = fail
        else:
            broken.next_frames = fail  # type: ignore[method-assign]
        broken.say(0.1)
        sound.say(0.2)
        await trio.sleep(1)
        assert [str(error) for error in broken.errors] == ["broken"]
        broken.say(0.1)
        sound.say(0.3)
        await trio.sleep(1)
        assert (len(broken.errors), broken.told) == (1, [])
        assert sound.told == pytest.approx([0.2, 0.3])


async def test_sound_that_is_not_whole_frames_is_the_sessions_own_fault(autojump_clock: MockClock) -> None:
    """It never reaches the stage, which would fail everybody in the job."""
    async with running(Watched()) as (hub, _):
        broken, sound = Speaker(hub).enter(), Speaker(hub).enter()
        broken.next_frames = lambda frames_max: np.zeros(511, np.float32)  # type: ignore[method-assign]
        broken.say(0.1)
        sound.say(0.2)
        await trio.sleep(1)
        assert "511" in str(broken.errors[0])
        assert sound.told == pytest.approx([0.2])


@pytest.mark.parametrize("when", ["waiting", "in the job", "after it"])
async def test_a_session_that_leaves_is_told_nothing_more(autojump_clock: MockClock, when: str) -> None:
    worker = Watched()
    async with running(worker) as (hub, stage):
        stays, leaves = Speaker(hub).enter(), Speaker(hub).enter()
        stays.say(0.5)
        leaves.say(0.25)
        if when != "waiting":
            await trio.sleep(1.5 * STEP_S if when == "in the job" else 1)
        assert leaves.line is not None
        leaves.line.close()
        leaves.line.close()
        leaves.say(0.75)
        await trio.sleep(1)
        stays.say(0.5)
        await trio.sleep(1)
        assert leaves.told == ([0.25] if when == "after it" else [])
        assert stays.told == [0.5, 0.5]
        assert worker.known[-1] == 1
        assert stage.statistics().live_requests == 1


async def test_the_last_one_turns_off_the_light(autojump_clock: MockClock) -> None:
    """Without sessions the stage has no request, also when the last one left while it was being scored."""
    async with running(Watched()) as (hub, stage):
        for _ in range(3):
            speaker = Speaker(hub).enter()
            speaker.say(0.5)
            await trio.sleep(STEP_S / 2)
            assert speaker.line is not None
            speaker.line.close()
            assert stage.statistics().live_requests == 0
            another = Speaker(hub).enter()
            another.say(0.25)
            await trio.sleep(1)
            assert (speaker.told, another.told) == ([], [0.25])
            assert another.line is not None
            another.line.close()


async def test_a_stage_that_fails_loses_its_sessions_once(autojump_clock: MockClock) -> None:
    """All of them, those that are quiet too, and whatever one of them makes of it."""
    worker = Watched()
    async with running(worker) as (hub, stage):
        speakers = [Speaker(hub).enter(), Raises(hub).enter(), Speaker(hub).enter()]
        worker.fault = RuntimeError("the network is gone")
        speakers[0].say(0.5)
        await trio.sleep(1)
        assert [speaker.lost for speaker in speakers] == [1, 0, 1]
        assert [len(speaker.errors) for speaker in speakers] == [0, 1, 0]
        for speaker in speakers:
            speaker.say(0.5)
            assert speaker.line is not None
            speaker.line.close()
        assert stage.statistics().live_requests == 0
        worker.fault = None
        later = Speaker(hub).enter()
        later.say(0.75)
        await trio.sleep(1)
        assert later.told == [0.75]


async def test_a_stage_that_is_stuck_loses_its_sessions_after_the_timeout(autojump_clock: MockClock) -> None:
    """Not before, and a job that began later has its own time."""
    async with running(Watched(), step_s=4.0) as (hub, _):
        speaker = Speaker(hub).enter()
        for _ in range(3):
            speaker.say(0.5)
            await trio.sleep(4.5)
        assert (len(speaker.told), speaker.lost) == (3, 0)
    async with running(Watched(), step_s=100.0) as (hub, stage):
        speakers = [Speaker(hub).enter(), Speaker(hub).enter()]
        await trio.sleep(20)
        speakers[0].say(0.5)
        await trio.sleep(TIMEOUT_S - 0.1)
        assert speakers[0].lost == 0
        await trio.sleep(0.2)
        assert [speaker.lost for speaker in speakers] == [1, 1]
        assert stage.statistics().live_requests == 0


async def test_without_a_stage_nobody_is_let_in() -> None:
    none = VoiceActivity(None, job_timeout_s=TIMEOUT_S)
    assert none.open(Speaker(none)) is None


# ------------------------------------------------------------------ a stage that dies and comes back


class Mortal(Watched):
    """Breaks, as a whole, at the next job that it is given."""

    doomed = False

    def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
        if type(self).doomed:
            type(self).doomed = False
            raise RuntimeError("out of memory")
        super().submit(request_id, unit, final, context)


@asynccontextmanager
async def mortal(**policy: float) -> AsyncIterator[tuple[VoiceActivity, StagePool, list[Mortal]]]:
    workers: list[Mortal] = []

    def make(_index: int) -> InlineStage:
        workers.append(Mortal())
        return InlineStage(workers[-1], step_s=STEP_S)

    pool = StagePool("vad", make, policy=RestartPolicy(jitter=0.0, **policy))
    hub = VoiceActivity(pool, job_timeout_s=TIMEOUT_S)
    async with carried(pool), trio.open_nursery() as nursery:
        nursery.start_soon(hub.pace)
        nursery.start_soon(hub.watch)
        yield hub, pool, workers
        nursery.cancel_scope.cancel()


async def test_sessions_wait_for_a_stage_that_dies(autojump_clock: MockClock) -> None:
    """What was being scored and what came meanwhile is scored when it is back; nobody is told a thing."""
    async with mortal() as (hub, pool, workers):
        speakers = [Speaker(hub).enter() for _ in range(3)]
        speakers[0].say(0.1)
        await trio.sleep(1)
        Mortal.doomed = True
        for speaker in speakers[:2]:
            speaker.say(0.2, 0.3)
        await trio.sleep(0.1)
        speakers[0].say(0.4)
        late = Speaker(hub).enter()
        late.say(0.5)
        assert not pool.alive
        await trio.sleep(1)
        speakers[2].say(0.6)
        await trio.sleep(1)
        assert [speaker.told for speaker in (*speakers, late)] == [
            pytest.approx([0.1, 0.2, 0.3, 0.4]),
            pytest.approx([0.2, 0.3]),
            pytest.approx([0.6]),
            pytest.approx([0.5]),
        ]
        assert [(speaker.lost, speaker.away) for speaker in (*speakers, late)] == [(0, [])] * 4
        assert len(workers) == 2
        for speaker in (*speakers, late):
            assert speaker.line is not None
            speaker.line.close()
        assert pool.statistics().live_requests == 0


async def test_sessions_are_told_when_it_stays_away_and_when_it_is_back(autojump_clock: MockClock) -> None:
    """Also one that comes while it is away, and once each."""
    async with mortal(first_s=TIMEOUT_S + 3) as (hub, pool, _):
        speaker, quiet = Speaker(hub).enter(), Speaker(hub).enter()
        Mortal.doomed = True
        speaker.say(0.1)
        await trio.sleep(TIMEOUT_S - 0.1)
        assert speaker.away == []
        await trio.sleep(0.3)
        late = Speaker(hub).enter()
        gone = Speaker(hub).enter()
        assert gone.line is not None
        gone.line.close()
        speaker.say(0.2)
        await trio.sleep(2)
        assert [each.away for each in (speaker, quiet, late, gone)] == [["suspended"]] * 4
        await trio.sleep(2)
        assert [each.away for each in (speaker, quiet, late)] == [["suspended", "resumed"]] * 3
        assert gone.away == ["suspended"]
        late.say(0.3)
        await trio.sleep(1)
        assert speaker.told == pytest.approx([0.1, 0.2])
        assert late.told == pytest.approx([0.3])
        assert (speaker.lost, pool.statistics().live_requests) == (0, 1)


async def test_a_stage_that_dies_at_each_job_does_not_count_as_back(autojump_clock: MockClock) -> None:
    """Its sessions are not left to wait for ever."""

    class Cursed(Watched):
        def submit(self, request_id: str, unit: Any, final: bool, context: WorkerContext) -> None:
            raise RuntimeError("out of memory")

    pool = StagePool("vad", lambda _index: InlineStage(Cursed()))
    hub = VoiceActivity(pool, job_timeout_s=TIMEOUT_S)
    async with carried(pool), trio.open_nursery() as nursery:
        nursery.start_soon(hub.watch)
        speaker = Speaker(hub).enter()
        speaker.say(0.1)
        await trio.sleep(12)
        assert speaker.away[0] == "suspended"
        assert speaker.told == []
        nursery.cancel_scope.cancel()


async def test_a_session_that_breaks_at_the_news_breaks_alone(autojump_clock: MockClock) -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    async with mortal() as (hub, _, _workers):
        broken, sound = Speaker(hub).enter(), Speaker(hub).enter()
        broken.give_back = fail  # type: ignore[method-assign]
        Mortal.doomed = True
        broken.say(0.1)
        sound.say(0.2)
        await trio.sleep(2)
        assert [str(error) for error in broken.errors] == ["broken"]
        assert sound.told == pytest.approx([0.2])


async def test_a_stage_that_stops_between_jobs_is_noticed_at_the_next(autojump_clock: MockClock) -> None:
    async with running(Watched()) as (hub, stage):
        speaker = Speaker(hub).enter()
        stage.alive = False
        speaker.say(0.5)
        assert speaker.waiting == [0.5], "given back"
        await trio.sleep(TIMEOUT_S + 1)
        assert speaker.away == ["suspended"]


async def test_a_thread_carries_it_as_well() -> None:
    """The same with a real thread: many sessions, every frame scored once and in order."""
    stage = ThreadStage(Echo())
    hub = VoiceActivity(stage, job_timeout_s=TIMEOUT_S)
    async with trio.open_nursery() as nursery:
        await nursery.start(stage.run)
        nursery.start_soon(hub.pace)
        nursery.start_soon(hub.watch)
        speakers = [Speaker(hub).enter() for _ in range(20)]
        for number in range(25):
            for speaker in speakers:
                speaker.say(number / 100)
            await trio.lowlevel.checkpoint()
        with trio.fail_after(GUARD_S):
            for speaker in speakers:
                while len(speaker.told) < 25:
                    await speaker.news.park()
        for speaker in speakers:
            assert speaker.told == pytest.approx([number / 100 for number in range(25)])
        nursery.cancel_scope.cancel()
