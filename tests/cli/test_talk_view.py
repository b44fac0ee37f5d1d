from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from duplex_trio.cli.talk.latency import PARTS, Exchange, Interruption, Wait
from duplex_trio.cli.talk.scenario import Said
from duplex_trio.cli.talk.timeline import Answer
from duplex_trio.cli.talk.transcript import ASSISTANT, YOU, Line
from duplex_trio.cli.talk.view import LineView, LiveView, SilentView, choose_view
from duplex_trio.protocol.duplex.audio import Pcm

YOU_FINAL = Line("u", 0, YOU, "Hello there.", "", False, True)
YOU_PARTIAL = Line("u", 0, YOU, "", "Hello th", False, False)
SPEAKING = Line("r", 1, ASSISTANT, "I am", " speaking", False, False)
CUT = Line("r", 1, ASSISTANT, "I am", " speaking", True, True)
QUIET: Pcm = np.zeros(10, np.float32)
LOUD: Pcm = np.ones(10, np.float32)


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, height=30, color_system=None)


def output(of: Console) -> str:
    assert isinstance(of.file, io.StringIO)
    return of.file.getvalue()


def exchange(*, answered: bool = True) -> Exchange:
    answer = Answer("r", 0, status="cancelled", audio_ms=100) if answered else None
    parts = dict(zip(PARTS, (500.0, 100.0, 250.0, 30.0, 0.0), strict=True))
    return Exchange(
        said=Said("1.wav", 0, 0, 1, 1),
        transcript="Hello there.",
        answer=answer,
        answer_text="I am speaking" if answered else "",
        heard_text="I am" if answered else "",
        was_cut=answered,
        wait=Wait(880, parts) if answered else None,
        interruption=Interruption(210, 180) if answered else None,
    )


def test_where_there_is_no_terminal_lines_are_printed_once_when_final() -> None:
    target = console(terminal=False)
    view = choose_view(target, silent=False)
    assert isinstance(view, LineView)
    view.waiting("Loading [the] models")
    for lines in ([YOU_PARTIAL], [YOU_FINAL], [YOU_FINAL, SPEAKING], [YOU_FINAL, CUT], [YOU_FINAL, CUT]):
        view.show(lines, [(YOU, QUIET), (ASSISTANT, QUIET)])
    view.close()
    printed = [line.rstrip() for line in output(target).splitlines()]
    assert printed == [
        "Loading [the] models ...",
        "you        Hello there.",
        "assistant  I am ✂ speaking",
    ]


def test_what_was_being_said_at_the_end_is_printed_too() -> None:
    target = console(terminal=False)
    view = choose_view(target, silent=False)
    view.show([YOU_FINAL, SPEAKING], [])
    view.summary("The end", [], [])
    assert "assistant  I am" in output(target)


def test_a_terminal_is_redrawn_with_partial_words_and_meters() -> None:
    target = console(terminal=True)
    view = choose_view(target, silent=False)
    assert isinstance(view, LiveView)
    view.waiting("Loading the models")
    view.show([YOU_PARTIAL], [(YOU, LOUD), (ASSISTANT, QUIET)])
    view.show([YOU_FINAL, SPEAKING], [(YOU, QUIET), (ASSISTANT, LOUD)])
    view.show([YOU_FINAL, SPEAKING], [(YOU, QUIET), (ASSISTANT, LOUD)])
    view.show([YOU_FINAL, CUT], [(YOU, QUIET), (ASSISTANT, LOUD)])
    view.close()
    view.close()
    shown = output(target)
    assert "Loading the models" in shown
    assert "Hello th" in shown
    assert "I am speaking" in shown
    # What is final is printed above, once.
    assert shown.count("Hello there.") == 1
    assert shown.rindex("I am ✂ speaking") > shown.rindex("Hello there.")
    assert "██████████" in shown
    # The cursor that redrawing hides is there again.
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


@pytest.mark.parametrize("terminal", [True, False])
def test_the_summary_has_the_words_the_figures_and_the_files(terminal: bool) -> None:
    target = console(terminal=terminal)
    view = choose_view(target, silent=False)
    view.show([YOU_FINAL], [])
    view.summary("A title", [exchange(), exchange(answered=False)], [Path("out/talk.wav")])
    shown = output(target)
    for text in ("A title", "Hello there.", "880", "500", "100", "250", "210", "no answer"):
        assert text in shown
    assert "out/talk.wav" in shown


def test_a_silent_view_shows_nothing() -> None:
    target = console(terminal=True)
    view = choose_view(target, silent=True)
    assert isinstance(view, SilentView)
    view.waiting("x")
    view.show([YOU_FINAL], [])
    view.note("x")
    view.summary("x", [exchange()], [])
    view.close()
    assert output(target) == ""
