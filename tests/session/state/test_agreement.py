"""Stable partial transcripts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.session.state.agreement import LocalAgreement


def shown(*hypotheses: str) -> list[str]:
    agreement = LocalAgreement()
    return [agreement.update(hypothesis) for hypothesis in hypotheses]


def test_a_word_is_shown_when_two_hypotheses_agree() -> None:
    """Nothing after the first hypothesis, then what the first two share, then only what is new."""
    assert shown("tell me", "tell me a", "tell me a story") == ["", "tell me", " a"]


def test_agreement_ends_at_the_first_difference() -> None:
    """Words behind a difference wait, even if they are equal."""
    assert shown("tell me a story", "tell him a story") == ["", "tell"]


def test_case_and_punctuation_do_not_disagree() -> None:
    """The newer spelling is shown."""
    assert shown("hello world", "Hello, world.") == ["", "Hello, world."]


def test_what_was_shown_is_not_taken_back() -> None:
    """A hypothesis that changes or loses shown words adds nothing until it agrees further on."""
    assert shown("a b", "a b", "x y", "x", "x y z", "x y z") == ["", "a b", "", "", "", " z"]


def test_other_speech_starts_over() -> None:
    """After a reset nothing of the old speech counts."""
    agreement = LocalAgreement()
    agreement.update("a b")
    agreement.update("a b")
    agreement.reset()
    assert agreement.update("a b") == ""
    assert agreement.update("a b") == "a b"


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=5).map(" ".join), max_size=8))
def test_pieces_join_to_the_shown_words(hypotheses: list[str]) -> None:
    """The pieces of any sequence of hypotheses join to the shown words, separated by single spaces."""
    agreement = LocalAgreement()
    text = "".join([agreement.update(hypothesis) for hypothesis in hypotheses])
    assert text == " ".join(agreement.shown)
