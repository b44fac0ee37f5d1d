"""Structure: programs of messages, made by hypothesis, until one breaks something or the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count, product

import trio
from hypothesis import HealthCheck, Phase, given, seed, settings
from trio.testing import MockClock

from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.testing.fuzz.program import Step, programs
from duplex_trio.testing.fuzz.run import MODELS, play

STEPS_MAX = 1_000_000
"""Steps of all tasks in one program. One that takes more goes round in circles without time going by."""
DIALECTS: tuple[DialectName, ...] = ("duplex", "ga", "beta")


class _StepLimit(trio.abc.Instrument):
    """Cancels a run that goes round in circles, in which a mock clock stands still."""

    def __init__(self, scope: trio.CancelScope) -> None:
        self._scope = scope
        self._left = STEPS_MAX

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel()


def play_alone(program: Sequence[Step], model: str, dialect: DialectName) -> None:
    """Play one program on a mock clock of its own.

    Raises:
        AssertionError: it broke something; hypothesis and pytest show what.
    """

    async def main() -> None:
        with trio.CancelScope() as scope:
            trio.lowlevel.add_instrument(_StepLimit(scope))
            await play(program, MODELS[model], dialect)
        assert not scope.cancelled_caught, "the program does not come to its end"

    trio.run(main, clock=MockClock(autojump_threshold=0))


def try_programs(model: str, dialect: DialectName, *, number: int, examples: int) -> None:
    """Try some programs, the same ones for the same number.

    Raises:
        AssertionError: one broke something; its notes have the shortest such program.
    """

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(program=programs(dialect))
    def attempt(program: list[Step]) -> None:
        play_alone(program, model, dialect)

    attempt()


def try_for(
    seconds: float, first_seed: int, *, examples: int = 25, tell: Callable[[str], None] = lambda line: None
) -> int:
    """Try programs of all models and dialects in turn until the time is over, at least `examples` of them.

    Args:
        seconds: how long.
        first_seed: of the first round; each further one has the next.
        examples: programs per model, dialect and seed.
        tell: is told what is tried.

    Returns:
        How many programs were tried.

    Raises:
        AssertionError: one broke something.
    """
    end_s, tried = time.monotonic() + seconds, 0
    for number in count(first_seed):
        for dialect, model in product(DIALECTS, MODELS):
            tell(f"seed {number}: {examples} programs of {model}, {dialect} dialect")
            try_programs(model, dialect, number=number, examples=examples)
            tried += examples
            if time.monotonic() >= end_s:
                return tried
    raise AssertionError("unreachable")
