"""The transitions of a session that couple its ledgers: responses, playback, history, cancellation.

Each test says what is heard under both policies where they differ: a session of the OpenAI dialects estimates
a player in real time, one of the duplex dialect believes the client's acknowledgements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from duplex_trio.protocol.duplex import (
    DuplexEvent,
    InputTextPart,
    MessageItem,
    OutputAudioBufferCleared,
    RealtimeError,
    ResponseCreateOptions,
    ResponseDone,
    Usage,
)
from duplex_trio.session.state.conversation import ConversationEntry
from duplex_trio.session.state.engine_session import (
    ACK_SLACK_S,
    ENDED_RESPONSES_MAX,
    DuplexEngineSession,
)
from duplex_trio.session.state.response import Response

TEXT = "abcdefghij"
"""Ten letters; a second of sound for each test response, so one letter is heard every 100 ms."""
BOTH = pytest.mark.parametrize("dialect", ["ga", "duplex"])


def speak(session: DuplexEngineSession, made: Response, *, sent: int = 10, now_s: float = 0.0) -> None:
    """Make one second of sound for `TEXT` and let its first `sent` deltas of 100 ms leave at `now_s`."""
    for entry in made.speech(np.zeros(24_000, np.float32), 24_000, TEXT):
        if entry.duration_ms > 0 and sent <= 0:
            continue
        if entry.duration_ms > 0:
            session.note_sent(made, entry.duration_ms, now_s)
            sent -= 1
        made.note_sent(entry)


def begin(session: DuplexEngineSession, **options: Any) -> Response:
    return session.begin_response(session.next_turn(), ResponseCreateOptions(**options), 0.0)


def told(session: DuplexEngineSession) -> list[str]:
    """What the model is told of the conversation."""
    return [message.content for message in session.conversation.messages()]


def types(events: list[DuplexEvent]) -> list[str]:
    return [event.type for event in events]


def done(events: Any) -> ResponseDone:
    (event,) = (event for event in events if isinstance(event, ResponseDone))
    return event


def cleared(events: Any) -> list[str | None]:
    return [event.response_id for event in events if isinstance(event, OutputAudioBufferCleared)]


# ------------------------------------------------------------------ beginning


def test_a_response_takes_what_the_session_has(make_session: Any) -> None:
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


def test_a_responses_own_options_come_first(make_session: Any) -> None:
    """What the response names overrides the session, for this response alone."""
    session = make_session(patch={"max_output_tokens": 50})
    made = begin(
        session, output_modalities=("text",), max_output_tokens="inf", metadata={"a": "b"}, voice="w"
    )
    assert (made.modalities, made.max_output_tokens, made.metadata) == (("text",), "inf", {"a": "b"})
    assert made.audio is None
    session.complete_response(made, 1.0)
    assert begin(session).modalities == ("text", "audio")


def test_one_response_at_a_time(make_session: Any) -> None:
    """A second one is refused while the first is active, and nothing changes."""
    session = make_session()
    made = begin(session)
    with pytest.raises(RealtimeError) as caught:
        begin(session)
    assert caught.value.code == "conversation_already_has_active_response"
    assert session.active is made
    assert len(session.conversation) == 1


def test_a_response_takes_its_place_and_answers_what_waits(make_session: Any) -> None:
    """Its item enters the conversation behind the user's, empty and hidden from the model until it is heard."""
    session = make_session()
    item = MessageItem(id="u", role="user", content=(InputTextPart("hi"),))
    session.conversation.insert(ConversationEntry(item, "hi"))
    made = begin(session)
    assert made.previous_item_id == "u"
    assert session.conversation.last_item_id == made.item_id
    assert session.conversation.unanswered() == []
    assert told(session) == ["hi"]


def test_a_response_outside_the_conversation_leaves_it_alone(make_session: Any) -> None:
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
    make_session: Any, now_s: float, heard_ms: float
) -> None:
    """All sound was sent at 0 s; by each moment as much was heard as fits into the time since."""
    session = make_session(dialect="ga")
    made = begin(session)
    speak(session, made)
    assert session.heard_ms(made, now_s) == pytest.approx(heard_ms)


def test_with_acknowledgements_only_they_count(make_session: Any) -> None:
    """However much time passes, what was not acknowledged was not heard."""
    session = make_session(dialect="duplex")
    made = begin(session)
    speak(session, made)
    assert session.heard_ms(made, 99.0) == 0.0
    made.cursor.acknowledge(300.0)
    assert session.heard_ms(made, 99.0) == 300.0


@BOTH
def test_a_truncate_caps_what_was_heard(make_session: Any, dialect: str) -> None:
    """Under both policies a truncate bounds the position from then on."""
    session = make_session(dialect=dialect)
    made = begin(session)
    speak(session, made)
    made.cursor.truncate(200.0)
    assert session.heard_ms(made, 99.0) == 200.0


# ------------------------------------------------------------------ completing


def test_a_completed_answer_counts_as_heard_without_acknowledgements(make_session: Any) -> None:
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


def test_a_completed_answer_enters_history_as_it_is_acknowledged(make_session: Any) -> None:
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


def test_what_was_acknowledged_before_the_end_counts_at_the_end(make_session: Any) -> None:
    """An acknowledgement of a response in progress changes history when the response is done."""
    session = make_session(dialect="duplex")
    made = begin(session)
    speak(session, made)
    made.cursor.acknowledge(300.0)
    assert not session.credit_heard(made)
    assert told(session) == []
    session.complete_response(made, 0.1)
    assert told(session) == ["abc"]


def test_an_acknowledgement_shortens_no_history_that_needs_none(make_session: Any) -> None:
    """In a session that counts completed answers as heard, a client may report playback without harm."""
    session = make_session(dialect="ga")
    made = begin(session)
    speak(session, made)
    session.complete_response(made, 0.1)
    made.cursor.acknowledge(200.0)
    assert not session.credit_heard(made)
    assert told(session) == [TEXT]


@BOTH
def test_a_truncate_of_a_response_in_progress_holds_at_its_end(make_session: Any, dialect: str) -> None:
    """The item and the history are cut even if the model finishes the answer."""
    session = make_session(dialect=dialect)
    made = begin(session)
    speak(session, made)
    made.cursor.truncate(300.0)
    events = session.complete_response(made, 50.0)
    assert told(session) == ["abc"]
    (item,) = done(events).response.output
    assert item.content[0].transcript == "abc"  # type: ignore[union-attr]


def test_an_answer_cut_by_its_token_limit_is_incomplete(make_session: Any) -> None:
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


def test_a_response_that_ended_by_listening_has_no_details(make_session: Any) -> None:
    """Completed, with nothing said."""
    session = make_session()
    made = begin(session)
    made.listened = True
    response = done(session.complete_response(made, 0.1)).response
    assert (response.status, response.status_details) == ("completed", None)


@pytest.mark.parametrize(("dialect", "heard"), [("ga", "ab"), ("duplex", "a")])
def test_a_failed_answer_keeps_what_was_heard(make_session: Any, dialect: str, heard: str) -> None:
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


def test_old_responses_are_forgotten(make_session: Any) -> None:
    """Only the most recent ended responses can still be acknowledged; the number is bounded."""
    session = make_session()
    made = []
    for _ in range(ENDED_RESPONSES_MAX + 1):
        made.append(begin(session))
        session.complete_response(made[-1], 0.0)
    assert session.find_response(made[0].response_id) is None
    assert session.find_response(made[1].response_id) is made[1]
    assert len(session.responses_newest_first()) == ENDED_RESPONSES_MAX


# ------------------------------------------------------------------ cancelling


@pytest.mark.parametrize(("dialect", "heard"), [("ga", "abcd"), ("duplex", "abc")])
def test_a_cancelled_answer_keeps_what_was_heard(make_session: Any, dialect: str, heard: str) -> None:
    """Half of the sound was sent, 300 ms acknowledged, 400 ms passed: each policy keeps its own."""
    session = make_session(dialect=dialect)
    made = begin(session)
    speak(session, made, sent=5)
    made.cursor.acknowledge(300.0)
    cancellation = session.cancel("turn_detected", 0.4)
    assert told(session) == [heard]
    response = done(cancellation.events).response
    (item,) = response.output
    assert item.content[0].transcript == heard  # type: ignore[union-attr]
    assert item.status == "incomplete"


@pytest.mark.parametrize(
    ("reason", "wire_reason"),
    [
        ("turn_detected", "turn_detected"),
        ("client_cancelled", "client_cancelled"),
        ("barge_in", "client_cancelled"),
        ("output_audio_buffer_clear", "client_cancelled"),
    ],
)
def test_cancelling_raises_the_epoch_once(make_session: Any, reason: Any, wire_reason: str) -> None:
    """The new epoch, the flush, then the closing block with OpenAI's reason and the precise one beside it."""
    session = make_session()
    made = begin(session)
    speak(session, made)
    cancellation = session.cancel(reason, 0.1)
    assert cancellation.epoch == session.epoch == 1
    assert types(list(cancellation.events)) == [
        "output_audio_buffer.cleared",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
        "rate_limits.updated",
    ]
    event = done(cancellation.events)
    assert event.response.status == "cancelled"
    assert event.response.status_details is not None
    assert event.response.status_details.reason == wire_reason
    assert event.duplex is not None
    assert (event.duplex.cancel_reason, event.duplex.cancelled_epoch) == (reason, 0)
    assert session.active is None
    assert session.turn_state == "barge_in"


def test_cancelling_before_any_sound_flushes_nothing(make_session: Any) -> None:
    """No sound was sent, so there is nothing for the client to stop."""
    session = make_session()
    begin(session)
    cancellation = session.cancel("client_cancelled", 0.0)
    assert cleared(cancellation.events) == []
    assert types(list(cancellation.events))[0] == "response.content_part.done"
    assert told(session) == []


def test_cancelling_an_idle_session_only_raises_the_epoch(make_session: Any) -> None:
    """No events, and later work belongs to the new epoch."""
    session = make_session()
    cancellation = session.cancel("barge_in", 0.0)
    assert (cancellation.epoch, list(cancellation.events)) == (1, [])
    assert begin(session).epoch == 1


@BOTH
def test_cancelling_names_every_response_that_still_plays(make_session: Any, dialect: str) -> None:
    """An answer that is done but still heard is flushed too, oldest first, and keeps only what was heard."""
    session = make_session(dialect=dialect)
    first = begin(session)
    speak(session, first)
    session.complete_response(first, 0.0)
    second = begin(session)
    speak(session, second)
    first.cursor.acknowledge(200.0)
    cancellation = session.cancel("turn_detected", 0.2)
    assert cleared(cancellation.events) == [first.response_id, second.response_id]
    assert done(cancellation.events).response.id == second.response_id
    assert told(session) == ["ab"]
    assert session.playout.ahead_ms(0.2) == 0.0


@BOTH
def test_sound_is_flushed_once(make_session: Any, dialect: str) -> None:
    """A response that was told to stop is not named again, and its heard part does not grow by time."""
    session = make_session(dialect=dialect)
    made = begin(session)
    speak(session, made)
    made.cursor.acknowledge(200.0)
    session.complete_response(made, 0.0)
    assert cleared(session.clear_playback(0.2)) == [made.response_id]
    assert cleared(session.clear_playback(0.3)) == []
    assert cleared(session.cancel("barge_in", 0.4).events) == []
    assert told(session) == ["ab"]


@pytest.mark.parametrize(
    ("dialect", "now_s", "plays"),
    [
        ("ga", 0.99, True),
        ("ga", 1.01, False),
        ("duplex", 0.99, True),
        ("duplex", 1.0 + ACK_SLACK_S - 0.01, True),
        ("duplex", 1.0 + ACK_SLACK_S + 0.01, False),
    ],
)
def test_a_response_plays_until_its_estimated_end(
    make_session: Any, dialect: str, now_s: float, plays: bool
) -> None:
    """Without acknowledgements to its end; with them a little longer, in case the client lags and goes silent."""
    session = make_session(dialect=dialect)
    made = begin(session)
    speak(session, made)
    session.complete_response(made, 0.0)
    assert session.interruptible(now_s) is plays
    assert session.unplayed(now_s) == ([made] if plays else [])


def test_an_acknowledged_response_does_not_play(make_session: Any) -> None:
    """Once everything that was sent is acknowledged there is nothing to interrupt."""
    session = make_session(dialect="duplex")
    made = begin(session)
    speak(session, made)
    session.complete_response(made, 0.0)
    made.cursor.acknowledge(1000.0)
    assert not session.interruptible(0.5)


def test_answers_queue_up_in_the_player(make_session: Any) -> None:
    """The second answer is heard after the first: at 1.3 s, 300 ms of it."""
    session = make_session(dialect="ga")
    first = begin(session)
    speak(session, first)
    session.complete_response(first, 0.0)
    second = begin(session)
    speak(session, second, now_s=0.0)
    assert session.heard_ms(first, 1.3) == pytest.approx(1000.0)
    assert session.heard_ms(second, 1.3) == pytest.approx(300.0)


def test_the_voice_is_fixed_by_its_first_sound(make_session: Any) -> None:
    """Writing does not fix it, speaking does."""
    session = make_session()
    made = begin(session, output_modalities=("text",))
    for entry in made.written("hello"):
        made.note_sent(entry)
    session.complete_response(made, 0.0)
    assert not session.voice_spoken
    speak(session, begin(session), sent=1)
    assert session.voice_spoken
