"""The conversation as one picture: both voices over time, what they said, how long the answers took, where
one was cut.

Three lanes over one time axis: the user, the waits between, the assistant as heard. Everything is laid out in
inches, so that the picture grows with the text and the text keeps its size. matplotlib is imported when a
picture is drawn, with its Agg backend, which needs no display.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from duplex_trio.cli.talk.latency import PARTS, Exchange
from duplex_trio.cli.talk.recording import RECORDING_HZ, Sound
from duplex_trio.protocol.duplex.audio import Pcm

USER_COLOUR, ASSISTANT_COLOUR, CUT_COLOUR = "#3465c8", "#15876b", "#d1373f"
_INK, _FAINT, _LINE = "#23272f", "#8d95a3", "#dfe3e9"
_PART_COLOURS = ("#f2b54a", "#e5804a", "#a77bd1", "#5ba3d9", "#b9c0cb")
_DPI = 150
_WIDTH_IN, _LEFT_IN, _RIGHT_IN = 13.0, 1.15, 0.25
_TOP_IN, _BOTTOM_IN, _MIDDLE_IN, _WAVE_IN = 0.95, 0.95, 0.95, 0.62
"""Heights of the heading, of the axis with its legend, of the lane of waits, and of half a wave."""
_FONT_PT = 9.5
_LINE_IN, _BOX_IN, _GAP_IN = _FONT_PT * 1.35 / 72, 0.16, 0.12
_CHARS_PER_IN = 12.0
"""Characters of that font that fit into an inch, with a little to spare."""
_CHARS_MIN, _CHARS_WANTED, _CHARS_MAX, _LINES_MAX = 14, 44, 88, 7


@frozen
class _Words:
    """A box of text that begins at `start_s`."""

    start_s: float
    text: str

    @property
    def height_in(self) -> float:
        return (self.text.count("\n") + 1) * _LINE_IN + 2 * _BOX_IN


def draw_picture(
    path: Path, sound: Sound, exchanges: Sequence[Exchange], begin_s: float, *, title: str, subtitle: str = ""
) -> None:
    """Write a PNG.

    Args:
        path: of the file.
        sound: both sides from `begin_s` on.
        exchanges: what was said and answered, on the clock of `begin_s`.
        begin_s: where the picture's time begins.
        title: its heading.
        subtitle: a smaller line below it.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    length_s = max(len(sound.user) / RECORDING_HZ, 1.0)
    said = _laid_out(((e.said.speech_start_s - begin_s, _quoted(e.transcript)) for e in exchanges), length_s)
    answers = _laid_out(_answers(exchanges, begin_s), length_s)
    heights = (_lane_in(said), _MIDDLE_IN, _lane_in(answers))
    height_in = sum(heights) + _TOP_IN + _BOTTOM_IN
    figure = Figure(figsize=(_WIDTH_IN, height_in), dpi=_DPI, facecolor="white")
    FigureCanvasAgg(figure)
    user, middle, assistant = _lanes(figure, heights, length_s)
    user.set_ylim(-_WAVE_IN, heights[0] - _WAVE_IN)
    middle.set_ylim(0, _MIDDLE_IN)
    assistant.set_ylim(_WAVE_IN - heights[2], _WAVE_IN)
    _wave(user, sound.user, USER_COLOUR)
    _wave(assistant, sound.unheard, CUT_COLOUR, alpha=0.3)
    _wave(assistant, sound.assistant, ASSISTANT_COLOUR)
    for words in said:
        _box(user, words, _WAVE_IN + _GAP_IN + _BOX_IN, USER_COLOUR, va="bottom")
    for words in answers:
        _box(assistant, words, -_WAVE_IN - _GAP_IN - _BOX_IN, ASSISTANT_COLOUR, va="top")
    for exchange in exchanges:
        _waited(middle, exchange, begin_s)
        _interrupted((user, middle, assistant), exchange, begin_s)
    for axes, name, colour, at in (
        (user, "you", USER_COLOUR, 0.0),
        (middle, "wait for the\nanswer", _FAINT, _MIDDLE_IN * 0.62),
        (assistant, "assistant", ASSISTANT_COLOUR, 0.0),
    ):
        _lane_name(axes, name, colour, at)
    _time_axis(assistant, length_s)
    left = _LEFT_IN / _WIDTH_IN
    figure.text(left, 1 - 0.36 / height_in, title, fontsize=15, weight="bold", color=_INK, va="center")
    figure.text(left, 1 - 0.66 / height_in, subtitle, fontsize=_FONT_PT, color=_FAINT, va="center")
    _legend(figure, any(exchange.interruption for exchange in exchanges))
    figure.savefig(path, format="png", facecolor="white")


# ---------------------------------------------------------------------- layout


def _lane_in(words: Sequence[_Words]) -> float:
    return 2 * _WAVE_IN + _GAP_IN + max((one.height_in for one in words), default=0.0) + 0.1


def _laid_out(texts: Iterable[tuple[float, str]], length_s: float) -> list[_Words]:
    """Wrap each text into the room before the next one."""
    per_char_s = length_s / (_WIDTH_IN - _LEFT_IN - _RIGHT_IN) / _CHARS_PER_IN
    margin_s = 2.2 * _BOX_IN * _CHARS_PER_IN * per_char_s
    ordered = sorted(texts)
    found: list[_Words] = []
    free_s = 0.0
    for index, (start_s, text) in enumerate(ordered):
        end_s = (ordered[index + 1][0] if index + 1 < len(ordered) else length_s) - margin_s
        # A text that would become a narrow column begins earlier, where there is room.
        wanted = min(len(text), _CHARS_WANTED)
        start_s = max(0.0, min(start_s, max(free_s, end_s - wanted * per_char_s)))
        chars = max(_CHARS_MIN, min(_CHARS_MAX, int((end_s - start_s) / per_char_s)))
        shown = textwrap.fill(textwrap.shorten(text, chars * _LINES_MAX, placeholder=" …”"), chars)
        found.append(_Words(start_s, shown))
        free_s = start_s + max(map(len, shown.split("\n"))) * per_char_s + margin_s
    return found


def _answers(exchanges: Sequence[Exchange], begin_s: float) -> Iterable[tuple[float, str]]:
    for exchange in exchanges:
        if exchange.wait is not None:
            start_s = exchange.said.speech_end_s - begin_s + exchange.wait.total_ms / 1000
            heard = exchange.heard_text.strip()
            yield (
                start_s,
                _quoted(f"{heard}…" if exchange.was_cut else heard or exchange.answer_text.strip()),
            )


def _quoted(text: str) -> str:
    return f"“{text}”" if text else "(nothing recognised)"


# ---------------------------------------------------------------------- drawing


def _lanes(figure: Any, heights: Sequence[float], length_s: float) -> list[Any]:
    height_in = float(figure.get_figheight())
    lanes = []
    top_in = height_in - _TOP_IN
    for lane_in in heights:
        top_in -= lane_in
        width = (_WIDTH_IN - _LEFT_IN - _RIGHT_IN) / _WIDTH_IN
        axes = figure.add_axes((_LEFT_IN / _WIDTH_IN, top_in / height_in, width, lane_in / height_in))
        axes.set_xlim(0, length_s)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.patch.set_visible(False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        lanes.append(axes)
    return lanes


def _lane_name(axes: Any, name: str, colour: str, at: float) -> None:
    small = colour == _FAINT
    axes.text(
        -0.012,
        at,
        name,
        transform=axes.get_yaxis_transform(),
        ha="right",
        va="center",
        color=colour,
        fontsize=_FONT_PT if small else 11.5,
        weight="normal" if small else "bold",
    )


def _time_axis(axes: Any, length_s: float) -> None:
    step = next((step for step in (1, 2, 5, 10, 30, 60) if length_s / step <= 16), 120)
    ticks = np.arange(0, length_s, step)
    axes.set_xticks(ticks, [f"{tick:g} s" for tick in ticks])
    axes.tick_params(axis="x", colors=_FAINT, labelsize=9, length=3)
    axes.spines["bottom"].set_visible(True)
    axes.spines["bottom"].set_color(_LINE)


def _wave(axes: Any, pcm: Pcm, colour: str, *, alpha: float = 1.0) -> None:
    time_s, low, high = _envelope(pcm)
    axes.axhline(0, color=_LINE, linewidth=0.8, zorder=0)
    axes.fill_between(
        time_s, low, high, where=high - low > 1e-3, color=colour, alpha=alpha, linewidth=0.5, zorder=2
    )


def _envelope(pcm: Pcm) -> tuple[npt.NDArray[np.float64], Pcm, Pcm]:
    """Time and bounds of each column; the loudest reaches the lane's height unless everything is quiet."""
    columns_max = int((_WIDTH_IN - _LEFT_IN - _RIGHT_IN) * _DPI)
    step = max(1, -(-len(pcm) // columns_max))
    columns = np.pad(pcm, (0, -len(pcm) % step)).reshape(-1, step)
    scale = 0.95 * _WAVE_IN / max(float(np.abs(pcm).max(initial=0)), 0.1)
    time_s = (np.arange(len(columns)) + 0.5) * step / RECORDING_HZ
    return time_s, columns.min(axis=1) * scale, columns.max(axis=1) * scale


def _box(axes: Any, words: _Words, at: float, colour: str, *, va: str) -> None:
    axes.text(
        words.start_s,
        at,
        words.text,
        ha="left",
        va=va,
        fontsize=_FONT_PT,
        color=_INK,
        linespacing=1.3,
        bbox={
            "boxstyle": "round,pad=0.5",
            "facecolor": _tint(colour, 0.92),
            "edgecolor": _tint(colour, 0.6),
            "linewidth": 0.8,
        },
        zorder=6,
    )


def _waited(axes: Any, exchange: Exchange, begin_s: float) -> None:
    if exchange.wait is None:
        return
    start_s = at_s = exchange.said.speech_end_s - begin_s
    for name, colour in zip(PARTS, _PART_COLOURS, strict=True):
        width_s = exchange.wait.parts[name] / 1000
        axes.barh(_MIDDLE_IN * 0.52, width_s, left=at_s, height=0.2, color=colour, linewidth=0, zorder=3)
        at_s += width_s
    label = f"{exchange.wait.total_ms / 1000:.2f} s"
    middle_s = (start_s + at_s) / 2
    axes.text(
        middle_s, _MIDDLE_IN * 0.68, label, ha="center", va="bottom", fontsize=11, weight="bold", color=_INK
    )


def _interrupted(lanes: Sequence[Any], exchange: Exchange, begin_s: float) -> None:
    if exchange.interruption is None:
        return
    user, middle, assistant = lanes
    onset_s = exchange.said.speech_start_s - begin_s
    silence_s = onset_s + exchange.interruption.total_ms / 1000
    for axes, low, high in (
        (user, -_WAVE_IN, _WAVE_IN),
        (middle, 0, _MIDDLE_IN),
        (assistant, -_WAVE_IN, _WAVE_IN),
    ):
        axes.fill_between(
            [onset_s, silence_s], low, high, color=CUT_COLOUR, alpha=0.13, linewidth=0, zorder=1
        )
        axes.plot([silence_s, silence_s], [low, high], color=CUT_COLOUR, linewidth=1.3, zorder=4)
    label = f"interrupted: silent after {exchange.interruption.total_ms / 1000:.2f} s"
    late = silence_s > middle.get_xlim()[1] * 0.75
    middle.annotate(
        label,
        (silence_s, 0.1),
        xytext=(-6 if late else 6, 0),
        textcoords="offset points",
        ha="right" if late else "left",
        va="center",
        fontsize=_FONT_PT,
        weight="bold",
        color=CUT_COLOUR,
    )


def _legend(figure: Any, interrupted: bool) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=name) for name, colour in zip(PARTS, _PART_COLOURS, strict=True)]
    if interrupted:
        handles.append(
            Patch(color=CUT_COLOUR, alpha=0.3, label="interruption, and what it kept from being heard")
        )
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(_LEFT_IN / _WIDTH_IN - 0.008, 0.02),
        ncols=len(handles),
        frameon=False,
        fontsize=9,
        labelcolor=_INK,
        handlelength=1.2,
        handleheight=0.9,
        columnspacing=1.6,
    )


def _tint(colour: str, white: float) -> tuple[float, float, float]:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return (red + (1 - red) * white, green + (1 - green) * white, blue + (1 - blue) * white)
