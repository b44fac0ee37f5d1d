"""Threads under a clock that jumps: it may not do so while one of them works, unless a test holds it up on purpose."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import trio
from attrs import define, field

PATIENCE_S = 60.0
"""A hold that nobody opens fails its test after this long; nothing is timed by it."""
LOOK_S = 0.0002


@define(eq=False)
class Hold:
    """Keeps a thread where it is until it is opened.

    Attributes:
        reached: whether a thread has come to it.
    """

    reached: bool = False
    _open: threading.Event = field(factory=threading.Event)
    _waiting: int = 0
    _wanted: Callable[[], bool] = field(default=lambda: True)

    def wait(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Wait, in a thread, until it is open or `cancelled` says that nobody wants it any more."""
        until_s = time.monotonic() + PATIENCE_S
        self._wanted = lambda: not cancelled()
        self.reached = True
        self._waiting += 1
        while not self._open.wait(0.001) and not cancelled():
            if time.monotonic() > until_s:
                raise TimeoutError("nobody has opened the hold")
        self._waiting = 0

    def open(self) -> None:
        """Let threads go on, now and from now on."""
        self._open.set()

    @property
    def held(self) -> int:
        """Threads that are to stay where they are."""
        return self._waiting if not self._open.is_set() and self._wanted() else 0


class _Patience(trio.abc.Instrument):
    """Keeps the loop from being idle while a thread works."""

    def __init__(self, threads: trio.CapacityLimiter, holds: Collection[Hold]) -> None:
        self._threads = threads
        self._holds = holds

    def before_io_wait(self, timeout: float) -> None:
        """Wait until a thread has something to say, where only threads could have."""
        while True:
            now = trio.lowlevel.current_statistics()
            working = self._threads.borrowed_tokens - sum(hold.held for hold in self._holds)
            if now.tasks_runnable or working <= 0:
                return
            if now.run_sync_soon_queue_size:
                # It may not have woken the loop yet, which would find itself idle. This waits for it to have done so.
                trio.lowlevel.current_trio_token().run_sync_soon(_nothing, idempotent=True)
                return
            time.sleep(LOOK_S)


def _nothing() -> None:
    """Wakes the loop."""


@contextmanager
def patient(threads: trio.CapacityLimiter, holds: Collection[Hold]) -> Iterator[None]:
    """While the block goes on, time stands still as long as a thread of these works.

    Args:
        threads: where they come from.
        holds: where they may be held up, so that time goes on without them; more may be added later.
    """
    instrument = _Patience(threads, holds)
    trio.lowlevel.add_instrument(instrument)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(instrument)
