"""What is expected of words, and how it is written."""

import re
from typing import Any

import pytest

from duplex_trio.testing.dialogue.words import Words, clipped, quoted


@pytest.mark.parametrize(
    ("words", "said", "met"),
    [
        (Words.of("It is  sunny.", None), " It is\nsunny. ", True),
        (Words.of("It is sunny.", None), "It is sunny", False),
        (Words.of("It is sunny.", None), "it is sunny.", False),
        (Words.of(None, "SUN"), "It is sunny.", True),
        (Words.of(None, "rain"), "It is sunny.", False),
        (Words.of(re.compile(r"^It .*y\.$"), None), "It is sunny.", True),
        (Words.of(re.compile(r"^is"), None), "It is sunny.", False),
        (Words.of(str.isupper, None), "IT IS SUNNY", True),
        (Words.of(str.isupper, None), "It is sunny", False),
        (Words.of(None, None), "anything", True),
        (Words.of(None, None), "", False),
    ],
)
def test_words_are_met(words: Words, said: str, met: bool) -> None:
    assert words.met_by(said) is met


@pytest.mark.parametrize(
    ("words", "argument", "wanted"),
    [
        (Words.of("hello", None), '"hello"', '"hello"'),
        (Words.of(None, "hell"), 'containing="hell"', 'something with "hell" in it'),
        (Words.of(re.compile("h.*o"), None), "re.compile('h.*o')", "something that matches 'h.*o'"),
        (Words.of(str.isupper, None), "isupper", "something for which isupper holds"),
        (Words.of(None, None), "", "something"),
    ],
)
def test_words_are_written(words: Words, argument: str, wanted: str) -> None:
    assert words.arguments == argument
    assert str(words) == wanted


@pytest.mark.parametrize(("wanted", "error"), [(3, TypeError), ("a", ValueError)])
def test_what_makes_no_sense_is_refused(wanted: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Words.of(wanted, "b" if wanted == "a" else None)


@pytest.mark.parametrize("containing", [len, re.compile("a"), 3])
def test_only_a_text_is_contained(containing: Any) -> None:
    with pytest.raises(TypeError, match="a pattern or a function goes in without a name"):
        Words.of(None, containing)


def test_long_texts_are_cut() -> None:
    assert clipped("x" * 10, 10) == "x" * 10
    assert clipped("x" * 11, 10) == "x" * 7 + "..."
    assert quoted('say\n "it"') == '"say "it""'
