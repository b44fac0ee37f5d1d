"""How a video calls its model: in threads of the engine's videos, which are never left behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import trio

T = TypeVar("T")


class ModelExitError(Exception):
    """A model wanted to end the whole process."""


async def in_thread(threads: trio.CapacityLimiter, call: Callable[[], T]) -> T:
    """Call something of the model in a thread and wait for it, cancelled or not.

    A model is closed only when nothing of it runs. So that a cancellation does not wait for long, what is called here
    asks whether it is still wanted, or is short.

    Raises:
        ModelExitError: it raised `SystemExit`. Anything else comes as it is.
    """
    return await trio.to_thread.run_sync(partial(_contained, call), limiter=threads)


def _contained(call: Callable[[], T]) -> T:
    try:
        return call()
    except SystemExit as error:
        raise ModelExitError(f"the model called sys.exit({error.code!r})") from error
