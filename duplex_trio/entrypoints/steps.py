"""The steps of a start, as they are told to the log; `start_up` says what each is."""

from __future__ import annotations

from typing import Literal

import structlog

Step = Literal["deployment", "session_mode", "servers", "model", "stages", "warm_up"]


def begin_step(step: Step) -> None:
    """Note that a step begins; the one before it is done."""
    # Not a logger that is kept: a command sets the log up between one step and the next.
    structlog.get_logger("duplex_trio.start").debug("start.step", step=step)
