"""Cancelling: the epoch, the flush, the closing block, and what counts as heard under either policy.

A session of the OpenAI dialects estimates a player in real time, one of the duplex dialect believes the
client's acknowledgements.
"""

from __future__ import annotations

from typing import Any

import pytest

from duplex_trio.protocol.duplex import OutputAudioBufferCleared, ResponseDone
from duplex_trio.session.state.engine_session import ACK_SLACK_S

BOTH = pytest.mark.parametrize("dialect", ["ga", "duplex"])


def types(events: Any) -> list[str]:
    return [event.type for event in events]


def done(events: Any) -> ResponseDone:
    (event,) = (event for event in events if isinstance(event, ResponseDone))
    return event


def cleared(events: Any) -> list[str | None]:
    return [event.response_id for event in events if isinstance(event, OutputAudioBufferCleared)]


@pytest.mark.parametrize(("dialect", "heard"), [("ga", "abcd"), ("duplex", "abc")])
def test_a_cancelled_answer_keeps_what_was_heard(
    make_session: Any, dialect: str, heard: str, speak: Any, begin: Any, told: Any
) -> None:
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
def test_cancelling_raises_the_epoch_once(
    make_session: Any, reason: Any, wire_reason: str, speak: Any, begin: Any
) -> None:
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


def test_cancelling_before_any_sound_flushes_nothing(make_session: Any, begin: Any, told: Any) -> None:
    """No sound was sent, so there is nothing for the client to stop."""
    session = make_session()
    begin(session)
    cancellation = session.cancel("client_cancelled", 0.0)
    assert cleared(cancellation.events) == []
    assert types(list(cancellation.events))[0] == "response.content_part.done"
    assert told(session) == []


def test_cancelling_an_idle_session_only_raises_the_epoch(make_session: Any, begin: Any) -> None:
    """No events, and later work belongs to the new epoch."""
    session = make_session()
    cancellation = session.cancel("barge_in", 0.0)
    assert (cancellation.epoch, list(cancellation.events)) == (1, [])
    assert begin(session).epoch == 1


@BOTH
def test_cancelling_names_every_response_that_still_plays(
    make_session: Any, dialect: str, speak: Any, begin: Any, told: Any
) -> None:
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
def test_sound_is_flushed_once(make_session: Any, dialect: str, speak: Any, begin: Any, told: Any) -> None:
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
    make_session: Any, dialect: str, now_s: float, plays: bool, speak: Any, begin: Any
) -> None:
    """Without acknowledgements to its end; with them a little longer, in case the client lags and goes silent."""
    session = make_session(dialect=dialect)
    made = begin(session)
    speak(session, made)
    session.complete_response(made, 0.0)
    assert session.interruptible(now_s) is plays
    assert session.unplayed(now_s) == ([made] if plays else [])


def test_an_acknowledged_response_does_not_play(make_session: Any, speak: Any, begin: Any) -> None:
    """Once everything that was sent is acknowledged there is nothing to interrupt."""
    session = make_session(dialect="duplex")
    made = begin(session)
    speak(session, made)
    session.complete_response(made, 0.0)
    made.cursor.acknowledge(1000.0)
    assert not session.interruptible(0.5)


def test_answers_queue_up_in_the_player(make_session: Any, speak: Any, begin: Any) -> None:
    """The second answer is heard after the first: at 1.3 s, 300 ms of it."""
    session = make_session(dialect="ga")
    first = begin(session)
    speak(session, first)
    session.complete_response(first, 0.0)
    second = begin(session)
    speak(session, second, now_s=0.0)
    assert session.heard_ms(first, 1.3) == pytest.approx(1000.0)
    assert session.heard_ms(second, 1.3) == pytest.approx(300.0)


def test_the_voice_is_fixed_by_its_first_sound(make_session: Any, speak: Any, begin: Any) -> None:
    """Writing does not fix it, speaking does."""
    session = make_session()
    made = begin(session, output_modalities=("text",))
    for entry in made.written("hello"):
        made.note_sent(entry)
    session.complete_response(made, 0.0)
    assert not session.voice_spoken
    speak(session, begin(session), sent=1)
    assert session.voice_spoken
