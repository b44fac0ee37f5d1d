"""Something that happens between two given steps of the tasks, to try every order that there can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio


class AtStep(trio.abc.Instrument):
    """Does something just before the `number`th step of any task.

    Args:
        number: the step, 1 being the first after the instrument was added; 0 for none.
        action: what to do; it may not wait.

    Attributes:
        steps: steps so far.
        error: what the action raised.
    """

    def __init__(self, number: int, action: Callable[[], object]) -> None:
        self.steps = 0
        self.error: Exception | None = None
        self._number = number
        self._action = action

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count, and act when it is time."""
        self.steps += 1
        if self.steps == self._number:
            try:
                self._action()
            except Exception as error:
                # Trio would only log it and switch the instrument off.
                self.error = error


@contextmanager
def acting_at(number: int, action: Callable[[], object]) -> Iterator[AtStep]:
    """Count the steps of a block and act at one of them.

    Raises:
        Exception: what the action raised.
    """
    instrument = AtStep(number, action)
    trio.lowlevel.add_instrument(instrument)
    try:
        yield instrument
    finally:
        trio.lowlevel.remove_instrument(instrument)
    if instrument.error is not None:
        raise instrument.error


class EachStep(trio.abc.Instrument):
    """Checks something before each step of any task, until it fails.

    Args:
        check: raises if something is wrong; may not wait.

    Attributes:
        error: what the check raised.
    """

    def __init__(self, check: Callable[[], object]) -> None:
        self.error: Exception | None = None
        self._check = check

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Check."""
        if self.error is None:
            try:
                self._check()
            except Exception as error:
                self.error = error


@contextmanager
def checking_each_step(check: Callable[[], object]) -> Iterator[None]:
    """Check something between any two steps of any task while a block runs.

    Raises:
        Exception: what the check raised, once the block is over or has raised itself.
    """
    instrument = EachStep(check)
    trio.lowlevel.add_instrument(instrument)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(instrument)
        if instrument.error is not None:
            raise instrument.error
