"""The ledger of uncommitted sound: what it counts, and what starts it over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.session.state.engine_session import DuplexEngineSession
from duplex_trio.session.state.heard_input import TRANSCRIPT_CHARS_MAX, DeferredCommits, InputLedger
from duplex_trio.session.state.input import clear_input


def test_nothing_was_heard_at_first() -> None:
    heard = InputLedger().snapshot(playing=False)
    assert (heard.speech_ms, heard.overlap_speech_ms, heard.transcript) == (0.0, 0.0, None)
    assert not heard.may_hold_speech


def test_a_snapshot_stays_as_it_was() -> None:
    """What comes behind a commit changes nothing about what the commit is about."""
    ledger = InputLedger(speech_ms=300.0, overlap_speech_ms=200.0)
    ledger.note_transcript(" one ")
    heard = ledger.snapshot(playing=True)
    ledger.restart()
    ledger.note_transcript("two")
    assert (heard.speech_ms, heard.overlap_speech_ms, heard.transcript) == (300.0, 200.0, "one")
    assert heard.may_hold_speech
    assert heard.playing
    assert ledger.snapshot(playing=False).transcript == "two"
    assert ledger.snapshot(playing=False).speech_ms == 0.0


def test_sound_without_a_verdict_may_hold_speech() -> None:
    """And how much of it came over a response is not known, so none of it is an acknowledgement."""
    heard = InputLedger(speech_ms=100.0, overlap_speech_ms=100.0, unjudged=True).snapshot(playing=True)
    assert heard.may_hold_speech
    assert heard.overlap_speech_ms == 0.0


def test_words_are_joined_and_bounded() -> None:
    """Empty ones do not count; more than the bound is not kept."""
    ledger = InputLedger()
    for text in ("what", None, "  ", "is it", "x" * TRANSCRIPT_CHARS_MAX, "more"):
        ledger.note_transcript(text)
    words = ledger.snapshot(playing=False).transcript
    assert words is not None
    assert words.startswith("what is it x")
    assert len(words) == TRANSCRIPT_CHARS_MAX + 2


def test_the_same_is_told_once_in_a_row() -> None:
    ledger = InputLedger()
    assert [ledger.tells(what) for what in ("a", "a", "b", "a", "a")] == [True, False, True, True, False]
    ledger.forget_told()
    assert ledger.tells("a")


def test_deferred_commits_get_one_answer() -> None:
    """It is wanted as soon as one of them asked; cleared, none waits."""
    deferred = DeferredCommits()
    deferred.add("a", wanted=False)
    assert not deferred.wanted
    deferred.add("b", wanted=True)
    deferred.add("c", wanted=False)
    assert (deferred.item_ids, deferred.wanted) == (["a", "b", "c"], True)
    deferred.clear()
    assert (deferred.item_ids, deferred.wanted) == ([], False)


def test_of_many_deferred_commits_the_latest_are_kept() -> None:
    """However many are made during one response."""
    deferred = DeferredCommits(2)
    for name in "abc":
        deferred.add(name, wanted=name == "a")
    assert (deferred.item_ids, deferred.wanted) == (["b", "c"], True)


def spoken_over(session: DuplexEngineSession) -> None:
    session.heard.speech_ms = session.heard.overlap_speech_ms = 800.0
    session.heard.over_response = True
    session.deferred.add("item", wanted=True)


def test_a_cancel_ends_the_overlap(make_session: Callable[..., DuplexEngineSession]) -> None:
    """In the new epoch nobody is spoken over, and nothing waits; what was said stays said."""
    session = make_session()
    spoken_over(session)
    session.cancel("barge_in", 0.0)
    assert (session.heard.overlap_speech_ms, session.heard.over_response) == (0.0, False)
    assert session.heard.speech_ms == 800.0
    assert not session.deferred.wanted


def test_a_failure_ends_the_waiting(
    make_session: Callable[..., DuplexEngineSession], begin: Callable[..., Any]
) -> None:
    """What waits for a response that fails is not answered by itself."""
    session = make_session()
    response = begin(session)
    spoken_over(session)
    session.fail_response(response, RealtimeError("engine_error", "broken"), 0.0)
    assert not session.deferred.wanted
    assert session.heard.overlap_speech_ms == 800.0


def test_a_clear_forgets_the_sound(make_session: Callable[..., DuplexEngineSession]) -> None:
    """All of it; what was committed before still waits."""
    session = make_session()
    spoken_over(session)
    session.heard.note_transcript("words")
    clear_input(session)
    heard = session.heard.snapshot(playing=True)
    assert (heard.speech_ms, heard.overlap_speech_ms, heard.transcript) == (0.0, 0.0, None)
    assert session.deferred.wanted
