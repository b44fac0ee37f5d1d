"""The transitions of a session that couple its ledgers: responses begin, are heard and end.

Each test says what is heard under both policies where they differ: a session of the OpenAI dialects estimates
a player in real time, one of the duplex dialect believes the client's acknowledgements.
"""

from __future__ import annotations

from typing import Any

import pytest

from duplex_trio.deploy import SessionLimits
from duplex_trio.protocol.duplex import InputTextPart, MessageItem, RealtimeError, ResponseDone, Usage
from duplex_trio.session.state.conversation import ConversationEntry

TEXT = "abcdefghij"
"""What every response of these tests says, in one second of sound: one letter is heard every 100 ms."""
BOTH = pytest.mark.parametrize("dialect", ["ga", "duplex"])


def done(events: Any) -> ResponseDone:
    (event,) = (event for event in events if isinstance(event, ResponseDone))
    return event


def test_a_response_takes_what_the_session_has(make_session: Any, begin: Any) -> None:
    """Modalities, voice, format and token limit come from the session where the response says nothing."""
    session = make_session(dialect="ga", patch={"max_output_tokens": 50, "audio": {"output": {"voice": "v"}}})
    made = begin(session)
    assert made.modalities == ("audio",)
    assert made.max_output_tokens == 50
    assert made.audio is not None
    assert (made.audio.output.voice, made.audio.output.format) == ("v", {"type": "audio/pcm", "rate": 24000})
    assert made.response_id.startswith("resp-duplex-1-0-")
    assert made.item_id == f"item_{made.response_id}"
    assert session.turn_state == "assistant_generating"


def test_a_responses_own_options_come_first(make_session: Any, begin: Any) -> None:
    """What the response names overrides the session, for this response alone."""
    session = make_session(patch={"max_output_tokens": 50})
    made = begin(
        session, output_modalities=("text",), max_output_tokens="inf", metadata={"a": "b"}, voice="w"
    )
    assert (made.modalities, made.max_output_tokens, made.metadata) == (("text",), "inf", {"a": "b"})
    assert made.audio is None
    session.complete_response(made, 1.0)
    assert begin(session).modalities == ("text", "audio")


def test_one_response_at_a_time(make_session: Any, begin: Any) -> None:
    """A second one is refused while the first is active, and nothing changes."""
    session = make_session()
    made = begin(session)
    with pytest.raises(RealtimeError) as caught:
        begin(session)
    assert caught.value.code == "conversation_already_has_active_response"
    assert session.active is made
    assert len(session.conversation) == 1


def test_a_response_takes_its_place_and_answers_what_waits(make_session: Any, begin: Any, told: Any) -> None:
    """Its item enters the conversation behind the user's, empty and hidden from the model until it is heard."""
    session = make_session()
    item = MessageItem(id="u", role="user", content=(InputTextPart("hi"),))
    session.conversation.insert(ConversationEntry(item, "hi"))
    made = begin(session)
    assert made.previous_item_id == "u"
    assert session.conversation.last_item_id == made.item_id
    assert session.conversation.unanswered() == []
    assert told(session) == ["hi"]


def test_a_response_outside_the_conversation_leaves_it_alone(
    make_session: Any, speak: Any, begin: Any, told: Any
) -> None:
    """`conversation: none` adds no item, tells the model nothing later, and answers nothing."""
    session = make_session(dialect="ga")
    item = MessageItem(id="u", role="user", content=(InputTextPart("hi"),))
    session.conversation.insert(ConversationEntry(item, "hi"))
    made = begin(session, conversation="none")
    speak(session, made)
    events = session.complete_response(made, 5.0)
    assert done(events).response.conversation_id is None
    assert len(session.conversation.unanswered()) == 1
    assert told(session) == ["hi"]


# ------------------------------------------------------------------ heard


@pytest.mark.parametrize(("now_s", "heard_ms"), [(0.0, 0.0), (0.25, 250.0), (1.0, 1000.0), (9.0, 1000.0)])
def test_without_acknowledgements_a_player_in_real_time_is_assumed(
    make_session: Any, now_s: float, heard_ms: float, speak: Any, begin: Any
) -> None:
    """All sound was sent at 0 s; by each moment as much was heard as fits into the time since."""
    session = make_session(dialect="ga")
    made = begin(session)
    speak(session, made)
    assert session.heard_ms(made, now_s) == pytest.approx(heard_ms)


def test_with_acknowledgements_only_they_count(make_session: Any, speak: Any, begin: Any) -> None:
    """However much time passes, what was not acknowledged was not heard."""
    session = make_session(dialect="duplex")
    made = begin(session)
    speak(session, made)
    assert session.heard_ms(made, 99.0) == 0.0
    made.cursor.acknowledge(300.0)
    assert session.heard_ms(made, 99.0) == 300.0


@BOTH
def test_a_truncate_caps_what_was_heard(make_session: Any, dialect: str, speak: Any, begin: Any) -> None:
    """Under both policies a truncate bounds the position from then on."""
    session = make_session(dialect=dialect)
    made = begin(session)
    speak(session, made)
    made.cursor.truncate(200.0)
    assert session.heard_ms(made, 99.0) == 200.0


# ------------------------------------------------------------------ completing


def test_a_completed_answer_counts_as_heard_without_acknowledgements(
    make_session: Any, speak: Any, begin: Any, told: Any
) -> None:
    """History has the whole text as soon as the response is done, though it may still be playing."""
    session = make_session(dialect="ga")
    made = begin(session)
    speak(session, made)
    made.usage = Usage(total_tokens=3, input_tokens=1, output_tokens=2)
    events = session.complete_response(made, 0.1)
    assert told(session) == [TEXT]
    response = done(events).response
    assert (response.status, response.usage) == ("completed", made.usage)
    assert session.active is None
    assert session.last_response is made
    assert session.find_response(made.response_id) is made


def test_a_completed_answer_enters_history_as_it_is_acknowledged(
    make_session: Any, speak: Any, begin: Any, told: Any
) -> None:
    """Nothing at first, then a growing prefix, then all; each acknowledgement tells whether history changed."""
    session = make_session(dialect="duplex")
    made = begin(session)
    speak(session, made)
    session.complete_response(made, 0.1)
    assert told(session) == []
    made.cursor.acknowledge(400.0)
    assert session.credit_heard(made)
    assert told(session) == ["abcd"]
    assert not session.credit_heard(made)
    made.cursor.acknowledge(1000.0)
    assert session.credit_heard(made)
    assert told(session) == [TEXT]


def test_what_was_acknowledged_before_the_end_counts_at_the_end(
    make_session: Any, speak: Any, begin: Any, told: Any
) -> None:
    """An acknowledgement of a response in progress changes history when the response is done."""
    session = make_session(dialect="duplex")
    made = begin(session)
    speak(session, made)
    made.cursor.acknowledge(300.0)
    assert not session.credit_heard(made)
    assert told(session) == []
    session.complete_response(made, 0.1)
    assert told(session) == ["abc"]


def test_an_acknowledgement_shortens_no_history_that_needs_none(
    make_session: Any, speak: Any, begin: Any, told: Any
) -> None:
    """In a session that counts completed answers as heard, a client may report playback without harm."""
    session = make_session(dialect="ga")
    made = begin(session)
    speak(session, made)
    session.complete_response(made, 0.1)
    made.cursor.acknowledge(200.0)
    assert not session.credit_heard(made)
    assert told(session) == [TEXT]


@BOTH
def test_a_truncate_of_a_response_in_progress_holds_at_its_end(
    make_session: Any, dialect: str, speak: Any, begin: Any, told: Any
) -> None:
    """The item and the history are cut even if the model finishes the answer."""
    session = make_session(dialect=dialect)
    made = begin(session)
    speak(session, made)
    made.cursor.truncate(300.0)
    events = session.complete_response(made, 50.0)
    assert told(session) == ["abc"]
    (item,) = done(events).response.output
    assert item.content[0].transcript == "abc"  # type: ignore[union-attr]


def test_an_answer_cut_by_its_token_limit_is_incomplete(
    make_session: Any, speak: Any, begin: Any, told: Any
) -> None:
    """OpenAI's status and reason; what was said counts as said."""
    session = make_session(dialect="ga")
    made = begin(session)
    speak(session, made)
    made.finish_reason = "length"
    response = done(session.complete_response(made, 0.1)).response
    assert response.status == "incomplete"
    assert response.status_details is not None
    assert response.status_details.reason == "max_output_tokens"
    assert told(session) == [TEXT]


def test_a_response_that_ended_by_listening_has_no_details(make_session: Any, begin: Any) -> None:
    """Completed, with nothing said."""
    session = make_session()
    made = begin(session)
    made.listened = True
    response = done(session.complete_response(made, 0.1)).response
    assert (response.status, response.status_details) == ("completed", None)


@pytest.mark.parametrize(("dialect", "heard"), [("ga", "ab"), ("duplex", "a")])
def test_a_failed_answer_keeps_what_was_heard(
    make_session: Any, dialect: str, heard: str, speak: Any, begin: Any, told: Any
) -> None:
    """The error's class and code are in the details; only the heard part is told to the model."""
    session = make_session(dialect=dialect)
    made = begin(session)
    speak(session, made)
    made.cursor.acknowledge(100.0)
    error = RealtimeError("engine_error", "broken")
    response = done(session.fail_response(made, error, 0.2)).response
    assert response.status == "failed"
    assert response.status_details is not None
    failure = response.status_details.error
    assert failure is not None
    assert (failure.type, failure.code, failure.message) == ("server_error", "engine_error", "broken")
    assert told(session) == [heard]


def test_old_responses_are_forgotten(make_session: Any, begin: Any) -> None:
    """Only the most recent ended responses can still be acknowledged; the number is bounded."""
    session = make_session(limits=SessionLimits(ended_responses_max=3))
    made = []
    for _ in range(4):
        made.append(begin(session))
        session.complete_response(made[-1], 0.0)
    assert session.find_response(made[0].response_id) is None
    assert session.find_response(made[1].response_id) is made[1]
    assert len(session.responses_newest_first()) == 3


def test_what_was_sent_behind_a_stopped_answer_is_played_earlier(
    make_session: Any, speak: Any, begin: Any
) -> None:
    """Two answers of a second each were sent; the first is stopped after 400 ms, so the second begins there."""
    session = make_session(dialect="ga")
    first = begin(session)
    speak(session, first)
    session.complete_response(first, 0.1)
    second = begin(session)
    speak(session, second)
    session.stop_playing(first, 0.4)
    assert session.heard_ms(second, 0.4) == pytest.approx(0.0)
    assert session.heard_ms(second, 0.9) == pytest.approx(500.0)
    assert session.playout.ahead_ms(0.9) == pytest.approx(500.0)
