"""Thousands of turns in virtual time, with everything going wrong now and then: nothing is left, nothing grows.

Sessions come in waves. Each of their users talks, writes, interrupts, cancels, loses the connection and comes
back, stops reading, or asks what the model fails at, as a seeded die decides; stages become slow or stuck. When a
wave is over the engine is empty, and as many of our objects are alive as after the first waves.
"""

from __future__ import annotations

import gc
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import structlog
import trio
from attrs import define, field
from trio.testing import MockClock

from duplex_trio.benchmarks.figures import resident_bytes
from duplex_trio.deploy import SessionLimits
from duplex_trio.engine import JournalGapError
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    AckPlayback,
    BargeIn,
    CancelResponse,
    Commit,
    RealtimeError,
    ResponseCreated,
    ResponseDone,
)
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing import ReturningTalker, check_stream, open_returning, scripted_omni
from duplex_trio.testing.conformance.stuck import HeldInlineStage
from duplex_trio.testing.invariants import check_engine, check_engine_at_rest, check_session
from duplex_trio.testing.run import STEP_S

LONG = "alpha bravo charlie delta echo foxtrot golf hotel. " * 2
WORD_MS = 100
ENDINGS = {"over", "disconnect_grace_expired"}
PATIENCE_S = 30.0
GROWTH_BYTES_MAX = 24 << 20
"""What the allocator may keep of what the waves behind the second one needed at once."""


@define
class Soak:
    """One run.

    Attributes:
        die: decides everything.
        told: what has happened how often.
    """

    die: random.Random
    told: Counter[str] = field(factory=Counter)

    async def hold_waves(
        self, omni: DuplexOmni, stages: list[HeldInlineStage], waves: int, *, turns: int
    ) -> None:
        """Let one wave of sessions after another talk, as many at once as the engine admits."""
        for _ in range(waves):
            async with trio.open_nursery() as users:
                with trio.CancelScope() as trouble:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._make_trouble, stages)
                        for _ in range(omni.statistics().max_sessions):
                            users.start_soon(self._live, omni, turns)
                        while len(users.child_tasks) > 0:
                            await trio.sleep(1.0)
                            check_engine(omni)
                        trouble.cancel()
            await trio.sleep(PATIENCE_S + 10.0)
            check_engine_at_rest(omni)

    async def _live(self, omni: DuplexOmni, turns: int) -> None:
        talker = await open_returning(omni)
        self.told["sessions"] += 1
        for _ in range(turns):
            if talker.handle.closing:
                await self._check(talker)
                talker = await self._reopened(omni)
            await self._turn(talker)
            self.told["turns"] += 1
            check_session(talker.handle, trio.current_time())
        if self.die.random() < 0.1:
            talker.lose()
        else:
            self._come_back(talker)
            talker.handle.close("over")
        await self._check(talker)

    async def _reopened(self, omni: DuplexOmni) -> ReturningTalker:
        while True:
            # Somebody else's session that is lost may hold the slot for its grace.
            with suppress(RealtimeError):
                talker = await open_returning(omni)
                self.told["sessions"] += 1
                return talker
            await trio.sleep(1.0)

    async def _check(self, talker: ReturningTalker) -> None:
        end = await talker.handle.wait_closed()
        assert end.reason in ENDINGS, end
        heard = talker.heard
        check_stream(talker.events, ended=heard.closed is not None and not (heard.broken or heard.stalled))
        assert talker.gapless
        for done in (event for event in talker.events if isinstance(event, ResponseDone)):
            self.told[done.response.status] += 1
        self.told["created"] += sum(isinstance(event, ResponseCreated) for event in talker.events)

    # ------------------------------------------------------------------ what users do

    async def _turn(self, talker: ReturningTalker) -> None:
        kinds: list[tuple[int, Callable[[ReturningTalker], Awaitable[None]]]] = [
            (10, self._write),
            (4, self._speak),
            (3, self._interrupt),
            (2, self._cancel),
            (2, self._fail),
            (2, self._leave),
            (1, self._stall),
        ]
        weights, ways = zip(*kinds, strict=True)
        (way,) = self.die.choices(ways, weights)
        self.told[way.__name__] += 1
        await way(talker)

    async def _answered(self, talker: ReturningTalker) -> None:
        """Wait until one more response is over, or long enough."""
        count = responses_over(talker)
        with trio.move_on_after(PATIENCE_S):
            while not talker.handle.closing and responses_over(talker) == count:  # noqa: ASYNC110
                await trio.sleep(0.25)

    async def _write(self, talker: ReturningTalker) -> None:
        talker.write("hello")
        await self._answered(talker)
        if self.die.random() < 0.5:
            talker.send(AckPlayback(played_ms=self.die.randrange(1000)))

    async def _speak(self, talker: ReturningTalker) -> None:
        talker.append(400, loud=True)
        talker.append(800, loud=False)
        if self.die.random() < 0.2:
            talker.send(Commit(response_create=True))
        await self._answered(talker)

    async def _interrupt(self, talker: ReturningTalker) -> None:
        talker.write("long")
        await trio.sleep(self.die.random() * 2)
        if self.die.random() < 0.5:
            talker.send(BargeIn())
        else:
            talker.append(400, loud=True)
            talker.append(800, loud=False)
        await self._answered(talker)

    async def _cancel(self, talker: ReturningTalker) -> None:
        talker.write("long")
        await trio.sleep(self.die.random())
        talker.send(CancelResponse())

    async def _fail(self, talker: ReturningTalker) -> None:
        talker.write(self.die.choice(["bad", "spoken badly"]))
        await self._answered(talker)

    async def _leave(self, talker: ReturningTalker) -> None:
        talker.write("long")
        await trio.sleep(self.die.random())
        talker.lose()
        await trio.sleep(self.die.choice([0.0, 0.1, 1.0, 5.0]))
        self._come_back(talker)

    async def _stall(self, talker: ReturningTalker) -> None:
        talker.write("long")
        await trio.sleep(0.5)
        talker.heard.stalled = True
        await trio.sleep(self.die.choice([1.0, 6.0, 40.0]))
        self._come_back(talker)

    def _come_back(self, talker: ReturningTalker) -> None:
        if talker.heard.broken or talker.heard.stalled or not talker.handle.attached:
            try:
                talker.resume()
            except (RealtimeError, JournalGapError):
                self.told["not resumed"] += 1

    # ------------------------------------------------------------------ what stages do

    async def _make_trouble(self, stages: list[HeldInlineStage]) -> None:
        while True:
            await trio.sleep(self.die.uniform(1.0, 20.0))
            stage = self.die.choice(stages)
            if self.die.random() < 0.5:
                stage.hold()
            else:
                stage.step_s = 0.5
            try:
                await trio.sleep(self.die.uniform(0.5, 4.0))
            finally:
                stage.let_go()
                stage.step_s = STEP_S
            self.told["troubles"] += 1


def responses_over(talker: ReturningTalker) -> int:
    counters = talker.handle.counters
    return counters.responses_completed + counters.responses_cancelled + counters.responses_failed


def ours() -> Counter[str]:
    """How many objects of each of our classes are alive."""
    gc.collect()
    return Counter(
        f"{type(one).__module__}.{type(one).__qualname__}"
        for one in gc.get_objects()
        if str(type(one).__module__).startswith("duplex_trio.")
    )


async def soak(*, waves: int, sessions: int, turns: int) -> Counter[str]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    stages: list[HeldInlineStage] = []

    def carry(worker: StageWorker) -> HeldInlineStage:
        stages.append(HeldInlineStage(worker, step_s=STEP_S))
        return stages[-1]

    script = Script(
        otherwise=lambda _: "good day",
        replies={"long": LONG, "spoken badly": "alpha bravo. Boom."},
        fail_on=frozenset({"bad"}),
        fail_speaking="Boom.",
        word_ms=WORD_MS,
        words_per_step=4,
    )
    run = Soak(random.Random(17))
    limits = SessionLimits(cleanup_timeout_s=1.0)
    async with scripted_omni(script, max_sessions=sessions, limits=limits, stage_factory=carry) as omni:
        await run.hold_waves(omni, stages, 2, turns=turns)
        script.asked.clear()
        before, before_bytes = ours(), resident_bytes()
        await run.hold_waves(omni, stages, waves - 2, turns=turns)
        script.asked.clear()
        grown = {name: count - before[name] for name, count in ours().items() if count > before[name]}
        grown_bytes = resident_bytes() - before_bytes
    assert grown_bytes < GROWTH_BYTES_MAX, f"the process has grown by {grown_bytes} bytes"
    assert not grown, f"more of these are alive than after two waves: {grown}"
    return run.told


def check_told(told: Counter[str], *, turns: int) -> None:
    """Everything has happened, and every response that was created was done, except where nobody heard of it."""
    assert told["turns"] >= turns
    for status in ("completed", "cancelled", "failed"):
        # Rare enough that the order in which tasks run, which no seed fixes, moves the counts of a short run.
        assert told[status] >= turns // 300, told
    assert told["troubles"] > 0
    done = told["completed"] + told["cancelled"] + told["failed"] + told["incomplete"]
    assert told["created"] - done <= told["sessions"] * 0.2, told


async def test_hundreds_of_turns(autojump_clock: MockClock) -> None:
    """A short one, for every day."""
    told = await soak(waves=3, sessions=10, turns=10)
    check_told(told, turns=300)


@pytest.mark.slow
async def test_ten_thousand_turns_over_two_hundred_sessions(autojump_clock: MockClock) -> None:
    """Twenty sessions at once, ten waves of them, fifty turns each."""
    told = await soak(waves=10, sessions=20, turns=50)
    check_told(told, turns=10_000)
    assert told["sessions"] >= 200
