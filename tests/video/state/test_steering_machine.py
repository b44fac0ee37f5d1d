"""The steering held against a model of it that keeps nothing but history and derives all else from definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import count

import pytest
from attrs import define, field, frozen
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.protocol.video import SessionInteraction, VideoRefused
from duplex_trio.video.state.steering import Admission, VideoSteering
from duplex_trio.video.state.timeline import ResolvedChunk

Weights = Mapping[int, Fraction]
"""A state as what each prompt weighs in it, by the number of its admission; -1 is the start."""
START: Weights = {-1: Fraction(1)}
DEFAULT_CHUNKS = 2
LIMITS = VideoSessionDeploy(preparing_max=3, ids_max=4, interactions_per_s=4.0, interactions_burst=6)


def mix(source: Weights, target: Weights, alpha: Fraction) -> Weights:
    names = {**source, **target}
    mixed = {
        name: source.get(name, Fraction(0)) * (1 - alpha) + target.get(name, Fraction(0)) * alpha
        for name in names
    }
    return {name: weight for name, weight in mixed.items() if weight}


@frozen
class Asked:
    """An admission, in the model."""

    number: int
    event_id: str
    payload: tuple[str, int | None]

    @property
    def chunks(self) -> int:
        chunks = self.payload[1]
        return max(1, DEFAULT_CHUNKS if chunks is None else chunks)


@frozen
class Started:
    """An update with the chunk that it began with and the one in which it is to be fully in force."""

    asked: Asked
    first: int

    @property
    def final(self) -> int:
        return self.first + self.asked.chunks - 1


@define
class History:
    """What happened, in order, and what follows from it by the definitions of video.md 3.2 to 3.4."""

    windows: list[list[Asked]] = field(factory=lambda: [[]])
    """Of each chunk: what became ready for it. The last window is that of the chunk to come."""

    after: list[Asked] = field(factory=list)
    """What became ready after a chunk that was not sent: nothing comes of it."""

    @property
    def chunks(self) -> int:
        return len(self.windows) - 1

    def forget_chunk(self) -> None:
        """The newest chunk was not sent: it is as if there had been no boundary in front of it."""
        self.after = self.windows.pop()

    @property
    def starts(self) -> list[Started]:
        return [Started(window[-1], g) for g, window in enumerate(self.windows[:-1]) if window]

    def state(self, chunk: int, starts: Sequence[Started]) -> Weights:
        """The prompt of a chunk, if nothing but `starts` ever began."""
        if not starts:
            return START
        last = starts[-1]
        target = {last.asked.number: Fraction(1)}
        if chunk >= last.final:
            return target
        progress = Fraction(chunk - last.first + 1, last.asked.chunks)
        return mix(self.state(last.first, starts[:-1]), target, progress)

    def over(self, started: Started) -> Started | None:
        """What began while it was on its way, if anything."""
        later = [other for other in self.starts if started.first < other.first <= started.final]
        return later[0] if later else None

    def shown(self, started: Started, chunk: int) -> bool:
        """Whether it has an effect on a chunk of its own transition, its source aside."""
        if not started.first <= chunk <= started.final:
            return False
        ender = self.over(started)
        return ender is None or chunk < ender.first or (chunk == ender.first and ender.asked.chunks > 1)

    def resolved(self) -> tuple[object, ...]:
        """The newest chunk: index, state, started, active, completed."""
        chunk = self.chunks - 1
        active = [started for started in self.starts if self.shown(started, chunk)]
        return (
            chunk,
            self.state(chunk, self.starts),
            tuple(started.asked.event_id for started in self.starts if started.first == chunk),
            tuple(started.asked.event_id for started in active),
            tuple(started.asked.event_id for started in active if started.final == chunk),
        )

    def fate(self, asked: Asked, *, settled: bool) -> str:
        """What became of one that was prepared, as far as it is decided; the newest chunk counts if `settled`."""
        sent = self.chunks if settled else self.chunks - 1
        for g, window in enumerate((*self.windows, self.after)):
            if asked in window:
                if window[-1] is not asked:
                    return "superseded"
                if g >= self.chunks:
                    return "live"
                started = Started(asked, g)
                if started.final < sent and self.shown(started, started.final):
                    return "completed"
                ender = self.over(started)
                return "interrupted" if ender is not None and ender.first < sent else "live"
        raise AssertionError("it never was ready")


@define
class Model:
    """The steering by its history. Whether it is over is all that it keeps besides."""

    history: History = field(factory=History)
    preparing: list[Asked] = field(factory=list)
    remembered: list[Asked] = field(factory=list)
    """Those whose ids are taken, oldest first."""
    failed: list[str] = field(factory=list)
    all_asked: list[Asked] = field(factory=list)
    failures: int = 0
    refusals: int = 0
    takes_s: list[float] = field(factory=list)
    open: bool = True
    ended: bool = False

    def fate(self, asked: Asked) -> str:
        fate = "live" if asked in self.preparing else self.history.fate(asked, settled=self.ended)
        if fate == "live":
            return "unfinished" if self.ended and asked not in self.preparing else "queued"
        return fate

    def tokens(self, now_s: float) -> float:
        """What a bucket holds: the least of what it can have got since any time."""
        burst, rate = LIMITS.interactions_burst, LIMITS.interactions_per_s
        used = enumerate(reversed(self.takes_s), 1)
        return min([burst, *(burst - taken + rate * (now_s - at_s) for taken, at_s in used)])

    def admit(self, event_id: str | None, payload: tuple[str, int | None], now_s: float) -> str:
        """What is answered: a code, `again`, or `new`."""
        same = [asked for asked in self.remembered if asked.event_id == event_id]
        if same:
            return "again" if same[0].payload == payload else "event_id_conflict"
        if not self.open:
            return "interaction_failed"
        if len(self.preparing) >= LIMITS.preparing_max or self.tokens(now_s) < 1:
            return "input_backpressure"
        self.takes_s.append(now_s)
        if len(self.remembered) == LIMITS.ids_max:
            over = [asked for asked in self.remembered if self.fate(asked) != "queued"]
            if not over:
                return "resource_exhausted"
            self.remembered.remove(over[0])
        return "new"

    def enter(self, asked: Asked) -> None:
        self.failed = [name for name in self.failed if name != asked.event_id]
        self.preparing.append(asked)
        self.remembered.append(asked)
        self.all_asked.append(asked)
        self.trim()

    def fail(self, asked: Asked) -> None:
        self.preparing.remove(asked)
        self.remembered.remove(asked)
        self.all_asked.remove(asked)
        self.failures += 1
        self.failed.append(asked.event_id)
        self.trim()

    def trim(self) -> None:
        room = LIMITS.ids_max - len(self.remembered)
        self.failed = self.failed[max(0, len(self.failed) - room) :]

    def outcomes(self) -> dict[str, str]:
        told = {asked.event_id: self.fate(asked) for asked in self.remembered}
        return told | dict.fromkeys(self.failed, "failed")

    def counts(self) -> dict[str, int]:
        told = Counter(self.fate(asked) for asked in self.all_asked)
        told += Counter(failed=self.failures, refused=self.refusals)
        return dict(told)


PROMPTS = ("a", "b")
payloads = st.tuples(st.sampled_from(PROMPTS), st.sampled_from((None, 0, 1, 2, 3, 4)))


class SteeringMachine(RuleBasedStateMachine):
    """One video, whatever comes in whatever order."""

    @initialize()
    def begin(self) -> None:
        self.now_s = 0.0
        self.numbers = count()
        self.model = Model()
        self.shown: list[ResolvedChunk[Weights]] = []
        self.steering = VideoSteering[Weights](
            mix, default_transition_chunks=DEFAULT_CHUNKS, supports_updates=True, limits=LIMITS
        )
        self.steering.begin(START)

    @rule(quarters=st.integers(1, 6))
    def time_goes_by(self, quarters: int) -> None:
        self.now_s += quarters / 4

    @precondition(lambda self: self.model.remembered)
    @rule(data=st.data(), other=st.none() | payloads)
    def come_again(self, data: st.DataObject, other: tuple[str, int | None] | None) -> None:
        asked = data.draw(st.sampled_from(self.model.remembered))
        self.admit(asked.event_id, other if other is not None else asked.payload)

    @rule(event_id=st.sampled_from([None, *"pqrstuvw"]), payload=payloads)
    def admit(self, event_id: str | None, payload: tuple[str, int | None]) -> None:
        number = next(self.numbers)
        asked = SessionInteraction(
            event_id=event_id, event={"prompt": payload[0]}, transition_chunks=payload[1]
        )
        expected = self.model.admit(event_id, payload, self.now_s)
        name = event_id if event_id is not None else f"made-{number}"
        if expected in ("new", "again"):
            admission = self.steering.admit(asked, now_s=self.now_s, new_id=lambda: name)
            assert admission == Admission(event_id=name, prepare=expected == "new")
            if expected == "new":
                self.model.enter(Asked(number, name, payload))
            return
        self.model.refusals += 1
        with pytest.raises(VideoRefused) as caught:
            self.steering.admit(asked, now_s=self.now_s, new_id=lambda: name)
        assert (caught.value.code, caught.value.event_id) == (expected, event_id)

    @precondition(lambda self: self.model.preparing)
    @rule(data=st.data())
    def prepared(self, data: st.DataObject) -> None:
        self._prepare(data.draw(st.sampled_from(self.model.preparing)))

    @precondition(lambda self: self.model.preparing)
    @rule(data=st.data())
    def failed(self, data: st.DataObject) -> None:
        asked = data.draw(st.sampled_from(self.model.preparing))
        assert self.steering.failed(asked.event_id)
        self.model.fail(asked)

    @rule(event_id=st.sampled_from("pqrstuvw"), fails=st.booleans())
    def what_is_not_in_preparation_is_neither_prepared_nor_fails(self, event_id: str, fails: bool) -> None:
        if event_id in (asked.event_id for asked in self.model.preparing):
            return
        if fails:
            assert not self.steering.failed(event_id)
        else:
            assert not self.steering.prepared(event_id, START)

    @precondition(lambda self: self.model.open)
    @rule(number=st.integers(1, 3))
    def chunks_go_by(self, number: int) -> None:
        for _ in range(number):
            self._resolve(last=False)

    @precondition(lambda self: self.model.open)
    @rule(updates=st.lists(payloads, min_size=1, max_size=3), quarters=st.integers(0, 3))
    def updates_come_and_a_chunk_goes_by(self, updates: list[tuple[str, int | None]], quarters: int) -> None:
        self.time_goes_by(quarters)
        for payload in updates:
            self._update(payload)
        self._resolve(last=False)

    @precondition(lambda self: self.model.open and self.model.history.chunks >= 8)
    @rule()
    def last_chunk(self) -> None:
        self._resolve(last=True)
        self._close(self.steering.close_boundaries())

    @precondition(lambda self: not self.model.ended and self.model.history.chunks >= 8)
    @rule(stopped=st.booleans(), discard=st.booleans(), update=st.none() | payloads)
    def end(self, stopped: bool, discard: bool, update: tuple[str, int | None] | None) -> None:
        if update is not None:
            self._update(update)
        if discard:
            self.steering.discard_chunk()
        late = self.steering.end(stopped=stopped)
        self.model.ended = True
        self._close(late)
        if discard and self.model.history.chunks:
            self.model.history.forget_chunk()

    @precondition(lambda self: self.model.ended)
    @rule()
    def end_again(self) -> None:
        assert self.steering.close_boundaries() == ()
        assert self.steering.end(stopped=True) == ()

    @invariant()
    def the_fates_are_told(self) -> None:
        if hasattr(self, "model"):
            assert self.steering.outcomes() == self.model.outcomes()
            assert self.steering.counts() == self.model.counts()
            assert len(self.steering.outcomes()) <= LIMITS.ids_max

    def _update(self, payload: tuple[str, int | None]) -> None:
        before = len(self.model.preparing)
        self.admit(None, payload)
        for asked in tuple(self.model.preparing[before:]) if self.model.open else ():
            self._prepare(asked)

    def _prepare(self, asked: Asked) -> None:
        assert self.steering.prepared(asked.event_id, {asked.number: Fraction(1)})
        self.model.preparing.remove(asked)
        self.model.history.windows[-1].append(asked)

    def _resolve(self, *, last: bool) -> None:
        chunk = self.steering.next_chunk(last=last)
        self.model.history.windows.append([])
        told = (chunk.index, chunk.state, chunk.started, chunk.active, chunk.completed)
        assert told == self.model.history.resolved()
        self._check_alone(chunk)
        self.shown.append(chunk)

    def _check_alone(self, chunk: ResolvedChunk[Weights]) -> None:
        """What holds of any chunk, whatever the model says."""
        assert sum(chunk.state.values()) == 1
        assert all(weight > 0 for weight in chunk.state.values())
        assert set(chunk.completed) <= set(chunk.active)
        assert set(chunk.started) <= set(chunk.active)
        assert len(chunk.started) <= 1
        assert not set(chunk.interrupted) & set(chunk.completed)
        before = self.shown[-1].state if self.shown else None
        assert chunk.changed == (chunk.state != before)
        assert not chunk.hard or chunk.active == chunk.completed == chunk.started != ()
        if not chunk.hard and self.shown:
            # An id goes on from the last chunk, or it starts.
            gone_on = [name for name in self.shown[-1].active if name not in self.shown[-1].completed]
            assert set(chunk.active) - set(chunk.started) <= set(gone_on)

    def _close(self, late: Sequence[str]) -> None:
        self.model.open = False
        assert list(late) == [asked.event_id for asked in self.model.preparing]
        for asked in tuple(self.model.preparing):
            self.model.fail(asked)


TestSteeringMachine = SteeringMachine.TestCase
TestSteeringMachine.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)


@pytest.mark.slow
class TestSteeringMachineForLong(SteeringMachine.TestCase):  # type: ignore[misc]
    """The same, with more of it."""

    settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
