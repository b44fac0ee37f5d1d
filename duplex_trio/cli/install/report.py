"""What the person at the terminal sees of an installation: a line per step, and a live bar while one runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import field, frozen
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

_ACTIVITY_WIDTH = 48


@frozen
class LiveStep:
    """The line of the step that is running."""

    _progress: Progress | None
    _task: TaskID

    def show(self, activity: str, done: int = 0, total: int | None = None) -> None:
        """Say what is going on; `done` of `total` bytes move the bar, without a total it only swings."""
        if self._progress is None:
            return
        known = f" of {decimal(total)}" if total else ""
        amount = f"{decimal(done)}{known}" if done else ""
        # One task shows several activities in turn; it must not count as finished when one of them is.
        completed = min(done, total - 1) if total else done
        self._progress.update(
            self._task, activity=_shorten(activity), amount=amount, completed=completed, total=total or None
        )


@frozen
class InstallReport:
    """Prints to `console`. `clock` returns seconds; `quiet` leaves only what goes wrong."""

    console: Console
    quiet: bool = False
    clock: Callable[[], float] = field(default=time.monotonic)

    def say(self, text: str = "") -> None:
        """A line of plain text."""
        if not self.quiet:
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def done_already(self, title: str) -> None:
        """A step that needs nothing."""
        self._line("[green]✓[/]", title, "already in place")

    def planned(self, title: str, size: int) -> None:
        """A step that a dry run only names; `size` is its download in bytes."""
        self._line("[cyan]•[/]", title, f"to do, {decimal(size)} to download" if size else "to do")

    @contextmanager
    def step(self, title: str) -> Iterator[LiveStep]:
        """Show a running step; afterwards one line with its time, or with a cross when it raised."""
        started = self.clock()
        try:
            if self.quiet or not self.console.is_terminal:
                self.say(f"  … {title}")
                yield LiveStep(None, TaskID(0))
            else:
                with self._bar() as progress:
                    yield LiveStep(progress, progress.add_task(title, total=None, activity="", amount=""))
        except BaseException:
            self._line("[red]✗[/]", title, "not finished")
            raise
        self._line("[green]✓[/]", title, f"{self.clock() - started:.0f} s")

    def _bar(self) -> Progress:
        return Progress(
            TextColumn(" "),
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[amount]}"),
            TextColumn("[dim]{task.fields[activity]}"),
            console=self.console,
            transient=True,
        )

    def _line(self, mark: str, title: str, outcome: str) -> None:
        if not self.quiet:
            self.console.print(f"  {mark} {title:<52} [dim]{outcome}[/]", highlight=False, soft_wrap=True)


def _shorten(text: str) -> str:
    return text if len(text) <= _ACTIVITY_WIDTH else text[: _ACTIVITY_WIDTH - 1] + "…"
