"""What of an answer enters history, for every way its sound and its text may be related.

Each answer says `abcdefghij` in one second of sound. A session of the duplex dialect counts what is acknowledged,
one of OpenAI's counts completed answers as heard.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from duplex_trio.session.state.engine_session import DuplexEngineSession
from duplex_trio.session.state.response import Response

TEXT = "abcdefghij"


def say(session: DuplexEngineSession, made: Response, *, aligned: bool, samples: int = 24_000) -> None:
    """Make and send all of an answer."""
    for entry in made.speech(np.zeros(samples, np.float32), 24_000, TEXT, aligned=aligned):
        session.note_sent(made, entry.duration_ms, 0.0)
        made.note_sent(entry)


@pytest.mark.parametrize(
    ("aligned", "acknowledged_ms", "heard"),
    [
        (True, 0, ""),
        (True, 450, "abcd"),
        (True, 999, "abcdefghi"),
        (True, 1000, TEXT),
        (True, 5000, TEXT),
        (False, 0, ""),
        (False, 999, ""),
        (False, 1000, TEXT),
        (False, 5000, TEXT),
    ],
)
@pytest.mark.parametrize("when", ["before the end", "after the end"])
def test_acknowledged_answers(
    make_session: Any, begin: Any, told: Any, aligned: bool, acknowledged_ms: int, heard: str, when: str
) -> None:
    """Aligned text is credited up to the place, other text only whole; it does not matter when the word comes."""
    session = make_session(dialect="duplex")
    made = begin(session)
    say(session, made, aligned=aligned)
    list(made.sound_tail())
    if when == "before the end":
        made.cursor.acknowledge(acknowledged_ms)
    session.complete_response(made, 0.0)
    made.cursor.acknowledge(acknowledged_ms)
    session.credit_heard(made)
    assert told(session) == ([heard] if heard else [])


@pytest.mark.parametrize("aligned", [True, False])
def test_completed_answers_where_nobody_acknowledges(
    make_session: Any, begin: Any, told: Any, aligned: bool
) -> None:
    """All of it, at once."""
    session = make_session(dialect="ga")
    made = begin(session)
    say(session, made, aligned=aligned)
    list(made.sound_tail())
    session.complete_response(made, 0.0)
    assert told(session) == [TEXT]


@pytest.mark.parametrize(("aligned", "heard"), [(True, ["abcde"]), (False, [])])
def test_a_cancelled_answer(
    make_session: Any, begin: Any, told: Any, aligned: bool, heard: list[str]
) -> None:
    """Cut after half a second: half of the text, or none of it if nobody knows which half."""
    session = make_session(dialect="ga")
    made = begin(session)
    say(session, made, aligned=aligned)
    session.cancel("client_cancelled", 0.5)
    assert told(session) == heard


def test_text_that_needs_all_of_the_sound_waits_for_the_last_of_it(make_session: Any, begin: Any) -> None:
    """All that was sent has been heard, but the model is not done: more sound, and with it more text, may come."""
    session = make_session(dialect="duplex")
    made = begin(session)
    say(session, made, aligned=False)
    assert made.heard_text(1000.0) == ""
    list(made.sound_tail())
    assert made.heard_text(1000.0) == TEXT


def test_one_stretch_without_alignment_decides_for_the_whole_answer(make_session: Any, begin: Any) -> None:
    """Marks before and after it say nothing any more."""
    session = make_session(dialect="duplex")
    made = begin(session)
    say(session, made, aligned=True)
    say(session, made, aligned=False)
    say(session, made, aligned=True)
    list(made.sound_tail())
    assert made.heard_text(2999.0) == ""
    assert made.heard_text(3000.0) == TEXT * 3


@pytest.mark.parametrize("dialect", ["ga", "duplex"])
def test_an_answer_that_had_no_sound_was_read(make_session: Any, begin: Any, told: Any, dialect: str) -> None:
    """A speaking response whose voice gave nothing: there is nothing to acknowledge, and the text was sent."""
    session = make_session(dialect=dialect)
    made = begin(session)
    say(session, made, aligned=True, samples=0)
    session.complete_response(made, 0.0)
    assert told(session) == [TEXT]
    made.cursor.acknowledge(0)
    session.credit_heard(made)
    assert told(session) == [TEXT]


@pytest.mark.parametrize(("aligned", "heard"), [(True, ["abc"]), (False, [])])
def test_a_hard_truncate_and_a_larger_acknowledgement(
    make_session: Any, begin: Any, told: Any, aligned: bool, heard: list[str]
) -> None:
    """The cut stands, whatever is reported later."""
    session = make_session(dialect="duplex")
    made = begin(session)
    say(session, made, aligned=aligned)
    list(made.sound_tail())
    session.complete_response(made, 0.0)
    made.cursor.truncate(300.0)
    session.credit_heard(made)
    made.cursor.acknowledge(1000.0)
    session.credit_heard(made)
    assert told(session) == heard
