"""What the person at the terminal sees: how far the clip is, what it shows, and at its end what became of it.

`LiveView` redraws one line in place, `LineView` prints what happens for everything that is no terminal, `SilentView`
shows nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from attrs import frozen
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from duplex_trio.cli.video.result import ClipResult, TurnResult
from duplex_trio.cli.video.times import shown_time

_PROMPT_WIDTH = 32
_GOOD, _BAD = frozenset({"completed"}), frozenset({"failed", "refused", "not sent", "superseded"})
_WORDS = {
    "completed": "shown",
    "interrupted": "the next one began before it was wholly there",
    "unfinished": "the clip ended before it was wholly there",
    "superseded": "the next one came before it began",
    "not sent": "no chunk began at its time or later",
}


@frozen
class Progressed:
    """How far a clip is.

    Attributes:
        seconds: of playback that have come.
        total_s: that are wanted.
        rate: frames that come in a second, lately.
        size_bytes: of the file.
        prompt: what it shows.
        towards: what it is under way to; None when it is there.
        step: chunks of the way that are behind, of `steps`.
        steps: chunks of the way.
        stopping: whether it is being ended by hand.
        since_s: playback time since which it shows that, or is under way to it.
    """

    seconds: float
    total_s: float
    rate: float
    size_bytes: int
    prompt: str
    towards: str | None = None
    step: int = 0
    steps: int = 0
    stopping: bool = False
    since_s: float = 0.0

    @property
    def scene(self) -> str:
        """What it shows, on one line."""
        if self.stopping:
            return "stopping"
        if self.towards is None:
            return _short(self.prompt, _PROMPT_WIDTH)
        half = _PROMPT_WIDTH // 2 - 4
        return f"{_short(self.prompt, half)} → {_short(self.towards, half)} {self.step}/{self.steps}"


class View(ABC):
    """Shows how a clip is made."""

    @abstractmethod
    def waiting(self, what: str) -> None:
        """Something takes its time before the clip can begin."""

    @abstractmethod
    def show(self, progress: Progressed) -> None:
        """The clip as far as it is."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Something the person should know."""

    @abstractmethod
    def summary(self, result: ClipResult) -> None:
        """The end: where the file is, and what became of each prompt."""

    @abstractmethod
    def close(self) -> None:
        """Leave the terminal as it was. Idempotent."""


class SilentView(View):
    """Shows nothing."""

    def waiting(self, what: str) -> None:
        """Show nothing."""

    def show(self, progress: Progressed) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""

    def summary(self, result: ClipResult) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Nothing is open."""


class LineView(View):
    """Prints what the clip shows whenever that changes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._scene: tuple[str, str | None] | None = None

    def waiting(self, what: str) -> None:
        """Say what is being waited for."""
        self._say(f"{what} ...")

    def show(self, progress: Progressed) -> None:
        """Say what the clip shows from here on, if that is something else."""
        scene = progress.prompt, progress.towards
        if scene != self._scene:
            self._scene = scene
            prompt = progress.prompt if progress.towards is None else f"on the way to: {progress.towards}"
            self._say(f"{shown_time(progress.since_s)}: {prompt}")

    def note(self, text: str) -> None:
        """Print the note."""
        self._say(text)

    def summary(self, result: ClipResult) -> None:
        """Print figures, prompts and the path."""
        print_summary(self._console, result)

    def close(self) -> None:
        """Nothing is open."""

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveView(View):
    """A bar that moves."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def waiting(self, what: str) -> None:
        """A spinner beside what is being waited for."""
        self._replace(SpinnerColumn(), TextColumn("{task.description}"), transient=True)
        assert self._progress is not None
        self._task = self._progress.add_task(f"{what} ...", total=None, waiting=True)

    def show(self, progress: Progressed) -> None:
        """Move the bar."""
        if self._progress is None or self._task is None or self._progress.tasks[0].fields["waiting"]:
            columns = (
                TextColumn("{task.fields[scene]}", style="cyan"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[figures]}"),
            )
            self._replace(*columns, transient=False)
            assert self._progress is not None
            self._task = self._progress.add_task("", waiting=False, scene="", figures="")
        total_s = max(progress.total_s, progress.seconds)
        played, size = f"{progress.seconds:4.1f} of {total_s:.1f} s", decimal(progress.size_bytes)
        self._progress.update(
            self._task,
            total=total_s,
            completed=progress.seconds,
            scene=escape(f"{progress.scene:<{_PROMPT_WIDTH}}"),
            figures=f"{played}  {progress.rate:3.0f} fps  {size}",
        )

    def note(self, text: str) -> None:
        """Print the note above the bar."""
        console = self._console if self._progress is None else self._progress.console
        console.print(text, style="yellow", markup=False, highlight=False)

    def summary(self, result: ClipResult) -> None:
        """Leave the bar where it is and print figures, prompts and the path below."""
        self.close()
        print_summary(self._console, result)

    def close(self) -> None:
        """Stop redrawing."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _replace(self, *columns: SpinnerColumn | TextColumn | BarColumn, transient: bool) -> None:
        self.close()
        self._progress = Progress(*columns, console=self._console, transient=transient)
        self._progress.start()


def choose_view(console: Console, *, silent: bool) -> View:
    """The view that suits where the output goes."""
    if silent:
        return SilentView()
    return LiveView(console) if console.is_terminal else LineView(console)


def print_summary(console: Console, result: ClipResult) -> None:
    """What came of each prompt, the figures, and the path."""
    if result.turns:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for heading, justify in (
            ("prompt", "left"),
            ("asked", "right"),
            ("from", "right"),
            ("wholly", "right"),
        ):
            table.add_column(heading, justify=justify)  # type: ignore[arg-type]
        table.add_column("")
        table.add_row(Text(_short(result.prompt, 48)), "", shown_time(0), shown_time(0), "")
        for turn in result.turns:
            table.add_row(*_row(turn))
        console.print(table)
    for turn in result.turns:
        if turn.error is not None:
            console.print(Text(f"{_short(turn.prompt, 48)}: {turn.error}", style="red"), soft_wrap=True)
    figures = (
        f"{shown_time(result.seconds)}, {result.frames} frames of {result.width}x{result.height}, "
        f"{decimal(result.size_bytes)}, made in {result.generated_s:.1f} s ({result.speed:.1f}x playback) "
        f"by {result.model}"
    )
    console.print(figures, markup=False, highlight=False, soft_wrap=True)
    console.print(Text(str(result.file), style="bold"), soft_wrap=True)


def _row(turn: TurnResult) -> list[Text]:
    style = "green" if turn.outcome in _GOOD else "red" if turn.outcome in _BAD else "yellow"
    times = [
        "" if value is None else shown_time(value) for value in (turn.at_s, turn.started_s, turn.completed_s)
    ]
    said = _WORDS.get(turn.outcome, turn.outcome)
    return [Text(_short(turn.prompt, 48)), *(Text(each) for each in times), Text(said, style=style)]


def _short(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"
