"""How the work behind a model reference reports that it moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from attrs import frozen

ProgressAction = Literal["download", "verify", "unpack", "convert"]


@frozen
class ModelProgress:
    """One report. `done` and `total` are bytes of the step at hand; `total` is None while it is not known."""

    action: ProgressAction
    done: int
    total: int | None


ProgressCallback = Callable[[ModelProgress], None]


def ignore_progress(_: ModelProgress) -> None:
    """Take a report and do nothing."""
