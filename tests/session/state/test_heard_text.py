"""How much of a text counts as heard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.session.state.heard_text import TextMark, heard_chars, heard_prefix


@pytest.mark.parametrize(
    ("heard_ms", "chars"),
    [(-5, 0), (0, 0), (250, 2), (499, 4), (500, 5), (999, 9), (1000, 10), (4000, 10)],
)
def test_without_marks_the_text_is_spread_evenly(heard_ms: float, chars: int) -> None:
    """Ten characters over one second: one for each full tenth, none before the first, all at the end."""
    assert heard_chars(10, [], heard_ms, 1000.0) == chars


@pytest.mark.parametrize(
    ("heard_ms", "chars"),
    [(0, 0), (50, 2), (100, 4), (150, 4), (300, 6), (500, 8), (750, 14), (1000, 20), (1001, 20)],
)
def test_between_marks_the_position_is_interpolated(heard_ms: float, chars: int) -> None:
    """4 characters by 100 ms, 8 by 500 ms, and from the last mark evenly to all 20 at 1000 ms."""
    marks = [TextMark(4, 100.0), TextMark(8, 500.0)]
    assert heard_chars(20, marks, heard_ms, 1000.0) == chars


def test_marks_are_taken_in_the_order_of_their_sound() -> None:
    """Marks given out of order mean the same as in order."""
    marks = [TextMark(4, 100.0), TextMark(8, 500.0), TextMark(20, 900.0)]
    for heard_ms in range(0, 1000, 50):
        assert heard_chars(20, marks, heard_ms, 1000.0) == heard_chars(20, marks[::-1], heard_ms, 1000.0)


def test_a_mark_with_fewer_characters_takes_nothing_back() -> None:
    """A mark that claims less text than one before it is raised to it."""
    marks = [TextMark(8, 100.0), TextMark(3, 200.0)]
    assert heard_chars(10, marks, 100.0, 1000.0) == 8
    assert heard_chars(10, marks, 200.0, 1000.0) == 8


def test_marks_beyond_the_text_are_capped() -> None:
    """No more characters are heard than the text has."""
    assert heard_chars(5, [TextMark(50, 100.0)], 100.0, 1000.0) == 5


def test_all_of_the_sound_is_all_of_the_text() -> None:
    """Whatever the marks say, who heard everything heard the whole text."""
    assert heard_chars(10, [TextMark(3, 5000.0)], 1000.0, 1000.0) == 10


@pytest.mark.parametrize("marks", [[], [TextMark(1, 10.0)]])
def test_no_text_and_no_sound_are_nothing(marks: list[TextMark]) -> None:
    """An empty text has no heard part, and sound without length leaves nothing to divide by."""
    assert heard_chars(0, marks, 100.0, 1000.0) == 0
    assert heard_chars(10, marks, 0.0, 0.0) == 0


def test_the_prefix_ends_without_white_space() -> None:
    """A prefix that ends at a word boundary has no trailing space."""
    assert heard_prefix("one two", [], 600.0, 1000.0) == "one"
    assert heard_prefix("one two", [], 1000.0, 1000.0) == "one two"


_marks = st.lists(
    st.builds(TextMark, st.integers(-5, 60), st.floats(-100, 3000, allow_nan=False)), max_size=6
)


@given(
    chars=st.integers(0, 40),
    marks=_marks,
    total_ms=st.floats(0, 2000, allow_nan=False),
    positions=st.tuples(st.floats(-100, 2500), st.floats(-100, 2500)),
)
def test_who_heard_longer_heard_no_less(
    chars: int, marks: list[TextMark], total_ms: float, positions: tuple[float, float]
) -> None:
    """For any marks the result lies in the text and never falls while the position grows."""
    earlier, later = sorted(positions)
    first = heard_chars(chars, marks, earlier, total_ms)
    second = heard_chars(chars, marks, later, total_ms)
    assert 0 <= first <= second <= chars
