"""The user's side: speech begins and ends, sound becomes an item, its transcript arrives."""

from __future__ import annotations

from typing import Any

import numpy as np

from duplex_trio.protocol.duplex import (
    ConversationItemInputAudioTranscriptionFailed,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    InputAudioBufferSpeechStopped,
    InputAudioPart,
    MessageItem,
    RealtimeError,
)
from duplex_trio.session.state.engine_session import DuplexEngineSession
from duplex_trio.session.state.input import (
    clear_input,
    commit_audio,
    speech_started,
    speech_stopped,
    transcript_completed,
    transcript_delta,
    transcript_failed,
)

COMMITTED = [
    "conversation.item.added",
    "conversation.item.created",
    "input_audio_buffer.committed",
    "conversation.item.done",
]


def fill(session: DuplexEngineSession, samples: int = 16_000) -> None:
    begin = session.timeline.end
    session.timeline.append(np.arange(begin, begin + samples, dtype=np.float32), 0.0)


def types(events: Any) -> list[str]:
    return [event.type for event in events]


def test_an_utterance_keeps_one_id(make_session: Any) -> None:
    """Started, stopped and committed name the same item; the next utterance gets another."""
    session = make_session()
    fill(session)
    (started,) = speech_started(session, 1600)
    (stopped,) = speech_stopped(session, 16_000)
    committed = commit_audio(session, 1600, 16_000)
    assert isinstance(started, InputAudioBufferSpeechStarted)
    assert isinstance(stopped, InputAudioBufferSpeechStopped)
    assert (started.audio_start_ms, stopped.audio_end_ms) == (100, 1000)
    assert started.item_id == stopped.item_id == committed.item_id
    fill(session)
    (again,) = speech_started(session, 17_000)
    assert isinstance(again, InputAudioBufferSpeechStarted)
    assert again.item_id != committed.item_id


def test_a_commit_makes_an_item_of_its_range(make_session: Any) -> None:
    """The item waits for its transcript, has the sound in the range, and the rest stays buffered."""
    session = make_session()
    fill(session)
    committed = commit_audio(session, 4_000, 10_000)
    assert types(committed.events) == COMMITTED
    assert committed.pcm.tolist() == list(range(4_000, 10_000))
    assert session.timeline.read(0, 16_000).tolist() == list(range(10_000, 16_000))
    assert session.conversation.pending_transcripts == {committed.item_id}
    assert [entry.item.id for entry in session.conversation.unanswered()] == [committed.item_id]
    entry = session.conversation.get(committed.item_id)
    assert entry.item == MessageItem(id=committed.item_id, role="user", content=(InputAudioPart(),))
    assert (session.commit_seq, session.turn_state) == (1, "user_committed")


def test_a_commit_by_hand_ends_open_speech(make_session: Any) -> None:
    """`speech_stopped` at the audio clock comes first."""
    session = make_session()
    fill(session)
    speech_started(session, 0)
    assert types(commit_audio(session, 0, 16_000).events) == [
        "input_audio_buffer.speech_stopped",
        *COMMITTED,
    ]
    assert speech_stopped(session, 16_000) == []


def test_a_silent_commit_waits_for_nothing(make_session: Any) -> None:
    """An item without words: no transcript pending, nothing to answer, and the record says so."""
    session = make_session()
    fill(session)
    committed = commit_audio(session, 0, 16_000, empty=True)
    assert session.conversation.pending_transcripts == frozenset()
    assert session.conversation.unanswered() == []
    (event,) = (event for event in committed.events if isinstance(event, InputAudioBufferCommitted))
    assert event.duplex is not None
    assert event.duplex.commit is not None
    assert (event.duplex.commit.empty, event.duplex.commit.is_speech) == (True, False)


def test_a_client_may_commit_that_there_was_no_speech(make_session: Any) -> None:
    """Said by the client, a commit of nothing is no error."""
    session = make_session()
    assert types(commit_audio(session, 0, 0, empty=True).events) == COMMITTED


def test_a_clear_drops_sound_and_ends_speech(make_session: Any) -> None:
    """`speech_stopped` if speech was open, then `cleared`; the next utterance is another item."""
    session = make_session()
    fill(session)
    (started,) = speech_started(session, 0)
    assert types(clear_input(session)) == ["input_audio_buffer.speech_stopped", "input_audio_buffer.cleared"]
    assert types(clear_input(session)) == ["input_audio_buffer.cleared"]
    assert session.timeline.held_bytes == 0
    (again,) = speech_started(session, 16_000)
    assert again.item_id != started.item_id  # type: ignore[attr-defined]


def test_a_transcript_is_told_to_client_and_model(make_session: Any) -> None:
    """Completed, with the length of the sound as its usage."""
    session = make_session()
    fill(session)
    item_id = commit_audio(session, 0, 16_000).item_id
    (event,) = transcript_completed(session, item_id, "hello", 1.00049)
    assert event.type == "conversation.item.input_audio_transcription.completed"
    assert (event.transcript, event.usage.seconds) == ("hello", 1.0)  # type: ignore[attr-defined]
    assert [message.content for message in session.conversation.messages()] == ["hello"]
    assert session.conversation.pending_transcripts == frozenset()


def test_a_failed_transcript_is_told_and_not_waited_for(make_session: Any) -> None:
    """Failed once, with the error; the item contributes no text."""
    session = make_session()
    fill(session)
    item_id = commit_audio(session, 0, 16_000).item_id
    error = RealtimeError("engine_error", "no luck")
    (event,) = transcript_failed(session, item_id, error)
    assert isinstance(event, ConversationItemInputAudioTranscriptionFailed)
    assert (event.error.type, event.error.code) == ("server_error", "engine_error")
    assert session.conversation.pending_transcripts == frozenset()
    assert transcript_failed(session, item_id, error) == []
    assert session.conversation.messages() == []


def test_a_transcript_of_a_deleted_item_is_not_told(make_session: Any) -> None:
    """Neither a transcript nor its failure is reported for an item that is gone."""
    session = make_session()
    fill(session)
    item_id = commit_audio(session, 0, 16_000).item_id
    session.conversation.delete(item_id)
    assert transcript_completed(session, item_id, "hello", 1.0) == []
    assert transcript_failed(session, item_id, RealtimeError("engine_error", "x")) == []


def test_a_partial_transcript_names_the_item_to_be(make_session: Any) -> None:
    """Deltas carry the id under which the utterance will be committed."""
    session = make_session()
    fill(session)
    (started,) = speech_started(session, 0)
    (delta,) = transcript_delta(session, started.item_id, "hel")  # type: ignore[attr-defined]
    assert delta.item_id == commit_audio(session, 0, 16_000).item_id  # type: ignore[attr-defined]
