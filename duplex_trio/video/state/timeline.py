"""Which prompt each chunk is rendered from: transitions between prompts, counted in chunks (video.md 3.4).

Exact and ignorant of what a prompt's state is: it mixes states by a function that it is given, with fractions. The
progress of a transition is always computed from both of its ends, so that nothing adds up.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Generic, TypeVar

from attrs import define, field, frozen

S = TypeVar("S")

Blend = Callable[[S, S, Fraction], S]
"""The state on the way from the first (0) to the second (1); the fraction is in ]0, 1[."""


@frozen(kw_only=True)
class ResolvedChunk(Generic[S]):
    """What one chunk is rendered from, and what it is to the interactions.

    Attributes:
        index: the chunk, from 0.
        state: the prompt, mixed as far as the transition has come.
        changed: whether it is another state than the last chunk's. The first chunk's is always a new one.
        hard: whether a prompt came into force at once, without a transition.
        started: the interaction that begins to have an effect with it, if any.
        active: those that have an effect on it, oldest first.
        completed: those of `active` that are fully in force.
        interrupted: the one whose transition another one ends before it is fully in force, if any.
    """

    index: int
    state: S
    changed: bool
    hard: bool
    started: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    completed: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()


@frozen
class _Target(Generic[S]):
    """A prompt that is ready to come into force."""

    event_id: str
    state: S
    chunks: int


@define
class _Transition(Generic[S]):
    """On the way from `source` to its target: `step` of `target.chunks` done."""

    source: S
    target: _Target[S]
    step: int

    @property
    def complete(self) -> bool:
        return self.step == self.target.chunks


@define
class PromptTimeline(Generic[S]):
    """The prompt of one video.

    Args:
        start: the state that it begins with.
        blend: mixes two states.
    """

    _state: S
    _blend: Blend[S]
    _next_index: int = field(default=0, init=False)
    _running: _Transition[S] | None = field(default=None, init=False)
    _pending: _Target[S] | None = field(default=None, init=False)

    @property
    def pending(self) -> str | None:
        """The interaction that begins with the next chunk."""
        return self._pending.event_id if self._pending is not None else None

    @property
    def blends(self) -> bool:
        """Whether the next `resolve` mixes states, and so may take long; one that does not takes no time."""
        if self._pending is not None:
            return self._pending.chunks > 1
        return self._running is not None

    def offer(self, event_id: str, target: S, transition_chunks: int) -> str | None:
        """Let a prompt come into force from the next chunk on. The newest one before a chunk is the one that does.

        Args:
            event_id: whose it is.
            target: the state.
            transition_chunks: chunks until it is fully in force: it is so in that one. 0 and 1 both mean at once.

        Returns:
            The interaction that is superseded by it, and will never start.
        """
        superseded = self.pending
        self._pending = _Target(event_id, target, transition_chunks)
        return superseded

    def resolve(self) -> ResolvedChunk[S]:
        """Go on by one chunk: to be called once for each chunk, before it is rendered, the first one included.

        What `blend` raises comes through; the video cannot go on then.
        """
        index, self._next_index = self._next_index, self._next_index + 1
        old, new = self._running, self._pending
        self._running = self._pending = None
        if old is not None:
            old.step += 1
        if new is None:
            return self._go_on(index, old)
        if new.chunks <= 1:
            self._state = new.state
            return ResolvedChunk(
                index=index,
                state=new.state,
                changed=True,
                hard=True,
                started=(new.event_id,),
                active=(new.event_id,),
                completed=(new.event_id,),
                interrupted=_ids(old),
            )
        source = self._reached(old)
        self._running = _Transition(source, new, 1)
        self._state = self._reached(self._running)
        done = _ids(old) if old is not None and old.complete else ()
        return ResolvedChunk(
            index=index,
            state=self._state,
            changed=True,
            hard=False,
            started=(new.event_id,),
            active=(*_ids(old), new.event_id),
            completed=done,
            interrupted=() if done else _ids(old),
        )

    def _go_on(self, index: int, running: _Transition[S] | None) -> ResolvedChunk[S]:
        if running is None:
            return ResolvedChunk(index=index, state=self._state, changed=index == 0, hard=False)
        self._state = self._reached(running)
        if not running.complete:
            self._running = running
        return ResolvedChunk(
            index=index,
            state=self._state,
            changed=True,
            hard=False,
            active=_ids(running),
            completed=_ids(running) if running.complete else (),
        )

    def _reached(self, transition: _Transition[S] | None) -> S:
        """The state after the steps done; without a transition, the one that stays."""
        if transition is None:
            return self._state
        target = transition.target
        if transition.complete:
            return target.state
        return self._blend(transition.source, target.state, Fraction(transition.step, target.chunks))


def _ids(transition: _Transition[S] | None) -> tuple[str, ...]:
    return (transition.target.event_id,) if transition is not None else ()
