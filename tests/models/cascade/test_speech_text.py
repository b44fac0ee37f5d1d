"""What is said for what a chat model writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.models.cascade.clauses import ClauseSplitter
from duplex_trio.models.cascade.speech_text import speakable


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Hello there, how are you?", "Hello there, how are you?"),
        ("**Hello**, *dear* __world__ and _you_!", "Hello, dear world and you!"),
        ("***Both*** of them", "Both of them"),
        ("# Title\n\nText here", "Title. Text here"),
        ("### What now?\n", "What now?"),
        ("- eggs\n* milk\n+ tea\n\u2022 salt\n", "eggs. milk. tea. salt."),
        ("1. First\n2) Second\n", "First. Second."),
        ("- [ ] a task\n- [x] another\n", "a task. another."),
        ("> she said\n> so", "she said. so"),
        ("Use `ls` here.", "Use ls here."),
        ("```python\nrun it\n```", "run it"),
        ("above\n---\nbelow", "above below"),
        ("See [the docs](https://example.com/a?b=1) now.", "See the docs now."),
        ("![a cat](cat.png) sleeps", "a cat sleeps"),
        ("| Name | Age |\n|:-----|----:|\n| Bob | 25 |\n", "Name, Age. Bob, twenty-five."),
        ("~~never~~ always", "never always"),
        ("<b>bold</b> &amp; <br/>more &lt;3", "bold and more"),
        (r"it is \*not\* bold", "it is not bold"),
        (r"\( x^2 \) and \frac{a}{b}", "x squared and a over b"),
        ("snake_case_name", "snake case name"),
    ],
)
def test_markup_is_dropped(text: str, said: str) -> None:
    assert speakable(text) == said


@pytest.mark.parametrize(
    ("clause", "said"),
    [
        ("**Of course,", "Of course,"),
        ("my friend.**", "my friend."),
        ("see [the", "see the"),
        ("docs](https://example.com/x) now", "docs now"),
        ("```python", ""),
        ("- half of an item", "half of an item"),
    ],
)
def test_half_of_a_markup_is_dropped_too(clause: str, said: str) -> None:
    assert speakable(clause) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Great job! \U0001f389\U0001f44d\U0001f3fd", "Great job!"),
        ("\U0001f469\u200d\U0001f4bb codes", "codes"),
        ("\U0001f1ec\U0001f1e7", ""),
        ("Hi :) there ;-)", "Hi there"),
        ("...", ""),
        ("**", ""),
        ("", ""),
        ("Brand\u2122 \u00a9 here", "Brand here"),
    ],
)
def test_emoji_and_symbols_are_dropped(text: str, said: str) -> None:
    assert speakable(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Visit https://www.example.com/path?q=1.", "Visit example dot com."),
        ("Go to example.org/help, please.", "Go to example dot org, please."),
        ("Mail john.doe@example.com!", "Mail john dot doe at example dot com!"),
        ("<https://example.com> is it", "example dot com is it"),
        ("node.js and main.py", "node dot js and main dot py"),
    ],
)
def test_addresses_are_said_as_people_say_them(text: str, said: str) -> None:
    assert speakable(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0", "zero"),
        ("I have 42.", "I have forty-two."),
        ("1,234,567", "one million two hundred and thirty-four thousand five hundred and sixty-seven"),
        ("3.14 or 2.50", "three point one four or two point five zero"),
        (".5", "point five"),
        ("007", "zero zero seven"),
        (
            "12345678901234567",
            "one two three four five six seven eight nine zero one two three four five six seven",
        ),
        ("1st, 2nd, 23rd", "first, second, twenty-third"),
        (
            "in 1905, 1990, 2005 and 2024",
            "in nineteen oh five, nineteen ninety, two thousand and five and twenty twenty-four",
        ),
        ("the 1990s and the 80s", "the nineteen nineties and the eighties"),
        ("50% or 3.5 %", "fifty percent or three point five percent"),
        ("1/2, 3/4, 2 1/3, \u00be", "one half, three quarters, two and one third, three quarters"),
        ("5-10 or 1990\u20132000", "five to ten or nineteen ninety to two thousand"),
        ("-5 and 10 - 3", "minus five and ten minus three"),
        (
            "2 + 2 = 4, 5 * 3 = 15, 8 \u00f7 2",
            "two plus two equals four, five times three equals fifteen, eight divided by two",
        ),
        ("x\u00b2 and 10^6", "x squared and ten to the power of six"),
        ("version 1.2.3", "version one point two point three"),
        ("won 3:2", "won three to two"),
        ("H2O, 3D, GPT-4", "H two O, three D, GPT-four"),
        ("3 < 5, ~5, #1, No. 7", "three is less than five, about five, number one, number seven"),
        ("1.5M users, 10k", "one point five million users, ten thousand"),
        ("24/7", "twenty-four seven"),
        ("\u0663 and \u2460", "three and one"),
    ],
)
def test_numbers_are_read(text: str, said: str) -> None:
    assert speakable(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$5", "five dollars"),
        ("$1", "one dollar"),
        ("$5.50", "five dollars and fifty cents"),
        ("$0.99", "ninety-nine cents"),
        ("$1,000.00", "one thousand dollars"),
        ("\u00a31.01", "one pound and one penny"),
        ("\u20ac3.5 million", "three point five million euros"),
        ("$5M", "five million dollars"),
        ("\u00a5500", "five hundred yen"),
        ("$100 - $50", "one hundred dollars minus fifty dollars"),
        ("US $", "US"),
    ],
)
def test_money_is_read(text: str, said: str) -> None:
    assert speakable(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("at 10:30 AM", "at ten thirty AM"),
        ("at 5pm, then 5 p.m.", "at five PM, then five PM."),
        ("10:05", "ten oh five"),
        ("12:00", "twelve o'clock"),
        ("1:02:03", "one oh two and three seconds"),
        ("March 5, 2024", "March fifth, twenty twenty-four"),
        ("Dec. 25th", "December twenty-fifth"),
        ("5 May", "the fifth of May"),
        ("2024-03-05", "March fifth, twenty twenty-four"),
        ("3/5/2024", "March fifth, twenty twenty-four"),
        ("May 2024", "May twenty twenty-four"),
        ("555-123-4567", "five five five, one two three, four five six seven"),
    ],
)
def test_times_dates_and_telephone_numbers_are_read(text: str, said: str) -> None:
    assert speakable(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5 km, 1 km, 30 km/h", "five kilometers, one kilometer, thirty kilometers per hour"),
        ("20\u00b0C or 1 \u00b0F", "twenty degrees Celsius or one degree Fahrenheit"),
        ("6 ft and 20 lbs", "six feet and twenty pounds"),
        ("5'10\" tall", "five foot ten tall"),
        ("2 h 30 min", "two hours thirty minutes"),
        ("50 m\u00b2", "fifty meters squared"),
        ("2.4GHz", "two point four gigahertz"),
    ],
)
def test_measures_are_read(text: str, said: str) -> None:
    assert speakable(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fruit, e.g. apples", "fruit, for example apples"),
        ("that is, i.e., this", "that is, that is, this"),
        ("tea, etc.", "tea, et cetera."),
        ("tea etc. and so", "tea et cetera and so"),
        ("cats vs. dogs", "cats versus dogs"),
        ("approx. ten", "approximately ten"),
        ("w/ milk and w/o sugar", "with milk and without sugar"),
        ("he/she and/or they", "he or she and or they"),
        ("salt & pepper", "salt and pepper"),
        ("C++ and C#", "C plus plus and C sharp"),
        ("Dr. Smith met Mrs. Jones.", "Dr. Smith met Mrs. Jones."),
    ],
)
def test_abbreviations_and_signs_become_words(text: str, said: str) -> None:
    assert speakable(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Wait... what?!", "Wait... what?!"),
        ("No!!! Why???", "No! Why?"),
        ("yes \u2014 and \u201cno\u201d; maybe: (so)", "yes \u2014 and \u201cno\u201d; maybe: (so)"),
        ("one - two", "one \u2014 two"),
        ("a  lot\n of \t space", "a lot of space"),
        ("oh \U0001f642 , well", "oh, well"),
        (", and then", "and then"),
        ("(\U0001f642) done", "done"),
    ],
)
def test_punctuation_that_carries_melody_stays(text: str, said: str) -> None:
    assert speakable(text) == said


def test_a_chatty_reply_clause_by_clause() -> None:
    reply = (
        "**Sure!** Here are 3 ideas for under $20 \U0001f60a:\n\n1. **Eggs** \u2014 e.g. 2 of them\n"
        "2. *Oats* w/ milk (250 ml)\n\nEnjoy! See [more](https://example.com)."
    )
    splitter = ClauseSplitter()
    clauses = splitter.feed(reply) + splitter.flush()
    assert [speakable(clause) for clause in clauses] == [
        "Sure!",
        "Here are three ideas for under twenty dollars:",
        "Eggs \u2014 for example two of them.",
        "Oats with milk (two hundred and fifty milliliters).",
        "Enjoy! See more.",
    ]


@pytest.mark.parametrize(
    "text", ["9" * 5000, "$" + "9" * 5000 + ".50", "1/" + "2" * 5000, "7" * 5000 + "th", ("1." * 300) + "1"]
)
def test_numbers_without_end_are_read_too(text: str) -> None:
    assert not any(character.isdecimal() for character in speakable(text))


UNSPEAKABLE = set("#[]{}<>\\|^~_*`@%$=+&\n\t\u20ac\u00b2\u00bd\U0001f642")
WRITTEN = st.text(
    st.sampled_from("abcXYZ0123.,:;/-+*_#|<>()[]{}$\u20ac%&@=~^`'\"\\! \n\u00b2\u00bd\u2014\U0001f642\u00e9")
    | st.characters(codec="utf-8"),
    max_size=120,
)


@given(WRITTEN)
def test_whatever_is_written_the_result_can_be_said(text: str) -> None:
    said = speakable(text)
    assert said == said.strip()
    assert not UNSPEAKABLE & set(said)
    assert not any(character.isdecimal() for character in said)
    assert not said or any(character.isalnum() for character in said)
