"""Cutting a reply into clauses: where, how early, and that nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.models.cascade.clauses import CLAUSE_CHARS_MAX, ClauseSplitter


def split(text: str) -> list[str]:
    splitter = ClauseSplitter()
    return [clause.strip() for clause in splitter.feed(text) + splitter.flush()]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Yes. I can help you with that.", "Yes."),
        ("Hi! How are you?", "Hi!"),
        ("Why? Because it is late.", "Why?"),
        ("Well, I am not quite sure, but let us see.", "Well, I am not quite sure,"),
        ("Good question; the answer is long.", "Good question;"),
        ("Here is one: a dragon lived here.", "Here is one:"),
        ("I was thinking — maybe we should go.", "I was thinking —"),
        ("I was thinking—maybe we should go.", "I was thinking—"),
        ("I was thinking - maybe we should go.", "I was thinking -"),
        ("Let me think... Okay then.", "Let me think..."),
        ("Hmm... Okay then, let us go there.", "Hmm... Okay then,"),
        ("**Of course, my friend.** Let us go.", "**Of course,"),
        ("She said, “Stop!” and then she left at once.", "She said, “Stop!” and then she left at once."),
        ("He said “stop.” Then he left.", "He said “stop.”"),
        ("Is it 10:30 already? No.", "Is it 10:30 already?"),
        ("今日は。元気です。", "今日は。"),
        (
            "the reason why the sky looks blue to us is that the air scatters short waves more",
            "the reason why the sky looks blue to us is that the air scatters",
        ),
    ],
)
def test_the_first_clause_comes_early(text: str, first: str) -> None:
    assert split(text)[0] == first


def test_it_comes_as_soon_as_the_next_word_begins() -> None:
    splitter = ClauseSplitter()
    assert splitter.feed("Good morning.") == []
    assert splitter.feed(" ") == []
    assert splitter.feed("H") == ["Good morning. "]


@pytest.mark.parametrize(
    "whole",
    [
        "Dr. Smith lives in St. Louis with Mr. and Mrs. Jones of the U.S. Army and nobody else.",
        "It is made of fruit e.g. apples and pears i.e. healthy food for you and for your friends.",
        "The number pi is 3.14 and a thousand is written 1,000 or 1.000 in some other countries.",
        "The author is J. R. Tolkien and he wrote about rings for a long time in his own house.",
        "At 5 p.m. we will meet at No. 5 and drink approx. two cups of tea vs. one of coffee.",
        "It takes 5\u201310 minutes to walk there at night from the old bridge by the other station.",
    ],
)
def test_abbreviations_and_numbers_are_not_ends(whole: str) -> None:
    assert split(f"Sure. {whole} Next comes this.") == ["Sure.", whole, "Next comes this."]


def test_no_is_an_answer_unless_a_number_follows() -> None:
    assert split("No. That is not right.")[0] == "No."
    assert split("No. 5 is alive, and so is No. 6. Good.")[0] == "No. 5 is alive,"


def test_numbers_stay_whole_wherever_they_stand() -> None:
    clauses = split(
        "It costs $1,000.50, or 3.14 times as much, at 10:30 on the 5\u201310 scale, version 1.2.3, okay."
    )
    for number in ("$1,000.50", "3.14", "10:30", "5\u201310", "1.2.3"):
        assert sum(number in clause for clause in clauses) == 1


def test_a_minus_between_numbers_is_no_dash() -> None:
    assert split("So we know that 10 - 3 is seven.") == ["So we know that 10 - 3 is seven."]


def test_list_numbering_stays_with_its_item_and_lines_end_clauses() -> None:
    assert split("Here you go:\n1. Eggs\n2. Milk and bread\n\n- Tea\n10. Salt") == [
        "Here you go:",
        "1. Eggs",
        "2. Milk and bread",
        "- Tea",
        "10. Salt",
    ]


def test_a_year_at_the_end_of_a_sentence_is_no_numbering() -> None:
    assert split("It was in 1990. Then we moved to the sea.") == [
        "It was in 1990.",
        "Then we moved to the sea.",
    ]


def test_short_later_sentences_are_merged() -> None:
    assert split("Yes. I am. You are. We all are here today, you see. And so on.") == [
        "Yes.",
        "I am. You are. We all are here today,",
        "you see. And so on.",
    ]


def test_the_second_clause_may_end_at_a_comma_sooner_than_the_third() -> None:
    words = "this is a rather long sentence of mine, and it goes on for quite a while, and then some more"
    assert split(f"No. {words}") == [
        "No.",
        "this is a rather long sentence of mine,",
        "and it goes on for quite a while, and then some more",
    ]


def test_long_text_without_punctuation_is_cut_at_words() -> None:
    text = "word " * 200
    clauses = split(text)
    assert all(len(clause) <= CLAUSE_CHARS_MAX for clause in clauses)
    assert " ".join(clauses).split() == text.split()
    assert all(clause.endswith("word") for clause in clauses)


def test_a_long_clause_is_cut_at_its_last_phrase() -> None:
    phrase = "an unusually long beginning of a sentence that has sixty letters"
    clauses = split(f"Yes. It is good to be here with you, my friend. {phrase}, {'and so on ' * 30}")
    assert clauses[:3] == ["Yes.", "It is good to be here with you, my friend.", f"{phrase},"]


def test_a_word_without_end_is_cut_too() -> None:
    clauses = split("x" * 1000)
    assert "".join(clauses) == "x" * 1000
    assert max(map(len, clauses)) <= CLAUSE_CHARS_MAX


def test_pieces_without_a_word_join_the_next_clause() -> None:
    assert split("---\n\n**\nHello there.\n") == ["---\n\n**\nHello there."]
    assert split("🙂 Hello.") == ["🙂 Hello."]


def test_white_space_alone_is_no_clause() -> None:
    assert split(" \n ") == []
    assert split("") == []


def test_flush_starts_over() -> None:
    splitter = ClauseSplitter()
    splitter.feed("Yes. And this is more than enough text for one more clause. And")
    assert splitter.flush() == ["And"]
    assert splitter.flush() == []
    assert splitter.feed("No. W") == ["No. "]


PROSE = st.text(
    st.sampled_from("ab IX,.;:!?-—\u2013…\n 1209()\"'*_`#\u201d\u3002") | st.characters(codec="utf-8"),
    max_size=500,
)
WORDS = st.lists(
    st.sampled_from(
        [
            "hello",
            "Dr.",
            "e.g.",
            "3.14",
            "1,000",
            "Yes.",
            "no,",
            "well...",
            "—",
            "1.",
            "\n",
            "**bold**",
            "why?!",
            "a" * 70,
        ]
    ),
    max_size=80,
).map(" ".join)


@given(text=PROSE | WORDS, data=st.data())
def test_chunking_changes_nothing_and_nothing_is_lost(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    whole = ClauseSplitter()
    expected = whole.feed(text) + whole.flush()
    pieces = ClauseSplitter()
    clauses: list[str] = []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        clauses += pieces.feed(text[start:end])
    clauses += pieces.flush()
    assert clauses == expected
    assert "".join(clauses).rstrip() == text.rstrip()
    assert all(clause.strip() for clause in clauses)
    assert all(len(clause.strip()) <= CLAUSE_CHARS_MAX for clause in clauses)
