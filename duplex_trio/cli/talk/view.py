"""What the person at the terminal sees: the conversation as it goes on, and the summary at its end.

`LiveView` redraws a terminal in place; `LineView` prints each line once it is final, for everything that is
no terminal; `SilentView` shows nothing. None of them changes anything that it shows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from duplex_trio.cli.talk.latency import PARTS, Exchange
from duplex_trio.cli.talk.transcript import YOU, Line
from duplex_trio.protocol.duplex.audio import Pcm

_BARS = " ▁▂▃▄▅▆▇█"
_STYLES = {YOU: "cyan", "assistant": "green"}
_HEADINGS = dict(
    zip(
        PARTS,
        ("end of\nturn", "recog-\nnition", "first\nclause", "synth-\nesis", "trans-\nport"),
        strict=True,
    )
)
LEVELS_SHOWN = 56
"""Columns of a level meter, a tenth of a second each."""


class View(ABC):
    """Shows a conversation."""

    @abstractmethod
    def waiting(self, what: str) -> None:
        """Something takes its time before the conversation can begin."""

    @abstractmethod
    def show(self, lines: Sequence[Line], levels: Sequence[tuple[str, Pcm]]) -> None:
        """The conversation as it stands; `levels` are the loudness of the last seconds of each side, 0 to
        1."""

    @abstractmethod
    def note(self, text: str) -> None:
        """Something the person should know."""

    @abstractmethod
    def summary(self, title: str, exchanges: Sequence[Exchange], files: Sequence[Path]) -> None:
        """The end: figures and where the files are."""

    @abstractmethod
    def close(self) -> None:
        """Leave the terminal as it was. Idempotent."""


class SilentView(View):
    """Shows nothing."""

    def waiting(self, what: str) -> None:
        """Show nothing."""

    def show(self, lines: Sequence[Line], levels: Sequence[tuple[str, Pcm]]) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""

    def summary(self, title: str, exchanges: Sequence[Exchange], files: Sequence[Path]) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Nothing is open."""


class LineView(View):
    """Prints lines as they become final, and what never did at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printed: set[str] = set()
        self._unfinished: Sequence[Line] = ()

    def waiting(self, what: str) -> None:
        """Say what is being waited for."""
        self._console.print(f"{escape(what)} ...", highlight=False)

    def show(self, lines: Sequence[Line], levels: Sequence[tuple[str, Pcm]]) -> None:
        """Print the lines that became final."""
        for line in lines:
            if line.final and line.key not in self._printed:
                self._printed.add(line.key)
                self._console.print(line_text(line))
        self._unfinished = [line for line in lines if not line.final]

    def note(self, text: str) -> None:
        """Print the note."""
        self._console.print(text, style="yellow", markup=False, highlight=False)

    def summary(self, title: str, exchanges: Sequence[Exchange], files: Sequence[Path]) -> None:
        """Print what was being said, the table and the paths."""
        for line in self._unfinished:
            self._console.print(line_text(line))
        print_summary(self._console, title, exchanges, files)

    def close(self) -> None:
        """Nothing is open."""


class LiveView(View):
    """Redraws the conversation in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._spinner = Spinner("dots")
        self._printed = 0
        self._changing = Group()

    def waiting(self, what: str) -> None:
        """A spinner beside what is being waited for."""
        self._spinner.update(text=Text(f"{what} ..."))
        self._draw(self._spinner, animated=True)

    def show(self, lines: Sequence[Line], levels: Sequence[tuple[str, Pcm]]) -> None:
        """Draw what may still change; what is final is printed once, above, and scrolls away in time."""
        meters = [_meter(name, loudness) for name, loudness in levels]
        first = self._printed
        while self._printed < len(lines) and lines[self._printed].final:
            self._printed += 1
        self._changing = Group(*(line_text(line) for line in lines[self._printed :]))
        self._draw(Group(self._changing, Text(), *meters))
        for line in lines[first : self._printed]:
            self._console.print(line_text(line))

    def note(self, text: str) -> None:
        """Print the note above the drawing."""
        self._console.print(text, style="yellow", markup=False, highlight=False)

    def summary(self, title: str, exchanges: Sequence[Exchange], files: Sequence[Path]) -> None:
        """Stop redrawing, without the meters, and print the table and the paths below."""
        if self._live is not None:
            self._draw(self._changing)
        self.close()
        print_summary(self._console, title, exchanges, files)

    def close(self) -> None:
        """Stop redrawing."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _draw(self, what: RenderableType, *, animated: bool = False) -> None:
        if self._live is not None and animated is not self._live.auto_refresh:
            self._live.transient = True
            self.close()
        if self._live is None:
            self._live = Live(what, console=self._console, auto_refresh=animated, transient=animated)
            self._live.start(refresh=True)
        else:
            self._live.update(what, refresh=not animated)


def choose_view(console: Console, *, silent: bool) -> View:
    """The view that suits where the output goes."""
    if silent:
        return SilentView()
    return LiveView(console) if console.is_terminal else LineView(console)


def line_text(line: Line) -> RenderableType:
    """One line of the conversation: uncertain or unheard words are dim, words that were cut are struck
    out."""
    style = _STYLES[line.speaker]
    text = Text(line.text, style=style if line.speaker == YOU else "")
    if line.cut:
        text.append(" ✂ " if line.text else "✂ ", style="bold red")
    if line.rest and line.cut:
        text.append(line.rest.strip(), style="dim strike")
    elif line.rest:
        text.append(_spaced(line.rest) if line.text else line.rest, style="dim")
    if not line.final and not line.rest and not line.text:
        text.append("…", style="dim")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=9, style=f"bold {style}", no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_row(line.speaker, text)
    return grid


def print_summary(console: Console, title: str, exchanges: Sequence[Exchange], files: Sequence[Path]) -> None:
    """The table of figures, and the paths."""
    table = Table(
        title=title,
        caption="in ms; the wait is from your last sound to the first one of the answer",
        caption_justify="left",
        padding=(0, 1, 0, 0),
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("you said")
    table.add_column("wait", justify="right", style="bold", no_wrap=True)
    for name in PARTS:
        table.add_column(_HEADINGS[name], justify="right", style="dim", no_wrap=True)
    table.add_column("interrupt\nto silence", justify="right", style="bold", no_wrap=True)
    for exchange in exchanges:
        table.add_row(*_figures(exchange))
    console.print()
    console.print(table)
    for path in files:
        console.print(Text(str(path)), soft_wrap=True)


def _figures(exchange: Exchange) -> list[Text]:
    said = Text(exchange.transcript or "(nothing recognised)", style=_STYLES[YOU])
    if not exchange.answered:
        waits = [Text("no answer", style="bold red"), *(Text() for _ in PARTS)]
    elif exchange.wait is None:
        waits = [Text("-"), *(Text() for _ in PARTS)]
    else:
        waits = [_ms(value) for value in (exchange.wait.total_ms, *(exchange.wait.parts[n] for n in PARTS))]
    return [said, *waits, _ms(exchange.interruption.total_ms) if exchange.interruption else Text("-")]


def _ms(value: float) -> Text:
    return Text(f"{value:.0f}")


def _spaced(text: str) -> str:
    return text if text[:1].isspace() else f" {text}"


def _meter(name: str, loudness: Pcm) -> Text:
    style = _STYLES[name]
    shown = np.sqrt(np.clip(loudness[-LEVELS_SHOWN:], 0, 1))
    bars = "".join(_BARS[min(len(_BARS) - 1, int(value * len(_BARS)))] for value in shown)
    return Text.assemble((f"{name:<9}", f"bold {style}"), "  ", (bars, style))
