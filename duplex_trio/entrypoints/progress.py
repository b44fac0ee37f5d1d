"""A bar for a batch: how many answers there are, how many failed, and how long it may still take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

ProgressMaker = Callable[..., Any]
"""Makes a bar as `tqdm` is called, `make(total=..., desc=...)`: it has `update(n)` and `close()`."""


class RichBar:
    """A bar on standard error; nothing is shown where that is no terminal and no notebook.

    Args:
        total: answers that are to come.
        desc: what they are called.
    """

    def __init__(self, *, total: int, desc: str) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("<"),
            TimeRemainingColumn(),
            console=console,
            disable=not (console.is_terminal or console.is_jupyter),
        )
        self._task = self._progress.add_task(desc, total=total)
        self._progress.start()

    def update(self, n: int = 1) -> None:
        """So many more have come."""
        self._progress.advance(self._task, n)

    def close(self) -> None:
        """No more come."""
        self._progress.stop()


class NoBar:
    """Shows nothing."""

    def update(self, n: int = 1) -> None:
        """So many more have come."""

    def close(self) -> None:
        """No more come."""


def make_bar(progress: bool | ProgressMaker, total: int) -> Any:
    """The bar of a batch.

    Args:
        progress: whether one is shown, or what makes it.
        total: answers that are to come.
    """
    if callable(progress):
        return progress(total=total, desc="answers")
    return RichBar(total=total, desc="answers") if progress else NoBar()
