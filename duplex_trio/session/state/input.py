"""Transitions of the user's side: speech begins and ends, sound is committed, its transcript arrives."""

from __future__ import annotations

from attrs import frozen

from duplex_trio.protocol.duplex import (
    CommitRecord,
    ConversationItemAdded,
    ConversationItemCreated,
    ConversationItemDone,
    ConversationItemInputAudioTranscriptionCompleted,
    ConversationItemInputAudioTranscriptionDelta,
    ConversationItemInputAudioTranscriptionFailed,
    DuplexEvent,
    DuplexExtension,
    DurationUsage,
    InputAudioBufferCleared,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    InputAudioBufferSpeechStopped,
    InputAudioPart,
    MessageItem,
    RealtimeError,
    ResponseListen,
    TranscriptionError,
)
from duplex_trio.session.state.conversation import ConversationEntry, item_text
from duplex_trio.session.state.engine_session import DuplexEngineSession
from duplex_trio.stages.units import Pcm


@frozen(eq=False)
class CommittedAudio:
    """Sound that became a user item.

    `end` is its last position; `events` announce it. `told` says that the client gave its words, so that no
    transcript is to be made.
    """

    item_id: str
    pcm: Pcm
    end: int
    events: list[DuplexEvent]
    told: bool = False


def speech_started(session: DuplexEngineSession, start: int) -> list[DuplexEvent]:
    """The user began to speak at sample `start`; the item it will become gets its id now."""
    session.speech_open = True
    session.turn_state = "user_speaking"
    return [
        InputAudioBufferSpeechStarted(
            event_id=session.new_id("event_"),
            audio_start_ms=session.timeline.position_ms(start),
            item_id=input_item_id(session),
        )
    ]


def speech_stopped(session: DuplexEngineSession, end: int) -> list[DuplexEvent]:
    """The user stopped at sample `end`; nothing if no speech is open."""
    if not session.speech_open:
        return []
    session.speech_open = False
    return [
        InputAudioBufferSpeechStopped(
            event_id=session.new_id("event_"),
            audio_end_ms=session.timeline.position_ms(end),
            item_id=input_item_id(session),
        )
    ]


def input_item_id(session: DuplexEngineSession) -> str:
    """The id of the user item that the buffered input will become."""
    if session.input_item_id is None:
        session.input_item_id = session.new_id("item_")
    return session.input_item_id


def commit_audio(
    session: DuplexEngineSession,
    begin: int,
    end: int,
    *,
    empty: bool = False,
    answered: bool = False,
    untold: bool = False,
    transcript: str | None = None,
    deferred: bool = False,
    asks: bool = False,
) -> CommittedAudio:
    """Make the sound in [begin, end) a user item whose transcript is pending.

    Args:
        session: the session.
        begin: first sample of the item; earlier ones are dropped.
        end: the sample after its last; later ones stay in the buffer.
        empty: the sound is known to hold no speech, so no transcript will come.
        answered: a response follows although it is empty.
        untold: the model hears the sound itself and gives no transcript.
        transcript: what the client says was said; then nobody transcribes it.
        deferred: it was said over a response, and its own, if it `asks` for one, waits for the end of that.
        asks: the commit asks for a response.
    """
    events = speech_stopped(session, end)
    item_id = input_item_id(session)
    pcm = session.timeline.read(begin, end)
    words = "" if empty else transcript
    item = MessageItem(id=item_id, role="user", content=(InputAudioPart(transcript=words),))
    previous = session.conversation.insert(
        ConversationEntry(
            item,
            words or "",
            transcript_pending=words is None and not untold,
            answered=empty or untold,
        ),
        make_room=True,
    )
    _take(session, end)
    record = CommitRecord(
        is_speech=not empty,
        empty=True if empty else None,
        no_response=True if empty and not answered else None,
        overlap_deferred=True if deferred else None,
        response_create_deferred=asks if deferred else None,
    )
    committed = _committed(session, item_id, previous, record)
    events += _announced(session, item, previous, committed, words, len(pcm))
    return CommittedAudio(item_id, pcm, end, events, told=bool(words))


def commit_item(
    session: DuplexEngineSession,
    item: MessageItem,
    previous_item_id: str | None,
    *,
    words: str | None,
    samples: int,
) -> list[DuplexEvent]:
    """Make the sound that a client put into an item of its own that item.

    Only the duplex dialect hears of a commit: in OpenAI's protocol such an item is just another item.

    Args:
        session: the session.
        item: the item as it is shown, with its id; text beside the sound is part of what was said.
        previous_item_id: where the client wants it.
        words: what was said: empty for nothing, None if a transcript is to come.
        samples: length of the sound at the model's rate.

    Raises:
        RealtimeError: `item_create_duplicate_item_id`, `item_not_found` or `input_backpressure`; nothing has
            changed then.
    """
    text = item_text(item)
    entry = ConversationEntry(
        item, text, transcript_pending=words is None, answered=words is not None and not text
    )
    previous = session.conversation.insert(entry, previous_item_id)
    committed = None
    if session.dialect == "duplex":
        empty = True if words == "" else None
        record = CommitRecord(is_speech=not empty, empty=empty, no_response=True)
        committed = _committed(session, item.id, previous, record)
        session.commit_seq += 1
    return _announced(session, item, previous, committed, words, samples)


def _announced(
    session: DuplexEngineSession,
    item: MessageItem,
    previous: str | None,
    committed: InputAudioBufferCommitted | None,
    words: str | None,
    samples: int,
) -> list[DuplexEvent]:
    new_id = session.new_id
    events: list[DuplexEvent] = [
        ConversationItemAdded(event_id=new_id("event_"), previous_item_id=previous, item=item),
        ConversationItemCreated(event_id=new_id("event_"), previous_item_id=previous, item=item),
    ]
    if committed is not None:
        events.append(committed)
        if words:
            events.append(_completed(session, item.id, words, samples / session.timeline.sample_rate_hz))
    return [*events, ConversationItemDone(event_id=new_id("event_"), previous_item_id=previous, item=item)]


def commit_acknowledgement(session: DuplexEngineSession, end: int) -> list[DuplexEvent]:
    """Take the sound up to `end` as a sign that the user listens: it becomes no item, and nothing answers it."""
    events = speech_stopped(session, end)
    item_id = input_item_id(session)
    _take(session, end)
    record = CommitRecord(is_speech=True, empty=True, no_response=True, overlap_ack=True)
    events.append(_committed(session, item_id, session.conversation.last_item_id, record))
    return events


def _take(session: DuplexEngineSession, end: int) -> None:
    session.timeline.commit(end)
    session.input_item_id = None
    session.commit_seq += 1
    session.turn_state = "user_committed"


def _committed(
    session: DuplexEngineSession, item_id: str, previous: str | None, record: CommitRecord
) -> InputAudioBufferCommitted:
    return InputAudioBufferCommitted(
        event_id=session.new_id("event_"),
        previous_item_id=previous,
        item_id=item_id,
        duplex=DuplexExtension(epoch=session.epoch, turn_id=session.turn_id, commit=record),
    )


def clear_input(session: DuplexEngineSession) -> list[DuplexEvent]:
    """Drop buffered sound."""
    events = speech_stopped(session, session.timeline.end)
    session.timeline.clear()
    session.heard.restart()
    session.input_item_id = None
    events.append(InputAudioBufferCleared(event_id=session.new_id("event_")))
    return events


def listening(session: DuplexEngineSession, reason: str, *, model_listen: bool = False) -> list[DuplexEvent]:
    """The session listens on, perhaps by the model's own wish: a sign of life that belongs to no response."""
    return [
        ResponseListen.because(
            reason,
            session_id=session.session_id,
            epoch=session.epoch,
            model_listen=model_listen,
            event_id=session.new_id("event_"),
        )
    ]


def transcript_delta(session: DuplexEngineSession, item_id: str, text: str) -> list[DuplexEvent]:
    """A stable piece of the transcript of speech that goes on."""
    return [
        ConversationItemInputAudioTranscriptionDelta(
            event_id=session.new_id("event_"), item_id=item_id, delta=text
        )
    ]


def transcript_completed(
    session: DuplexEngineSession, item_id: str, text: str, audio_duration_s: float
) -> list[DuplexEvent]:
    """The transcript of a committed item is known.

    It becomes what the model is told. Nothing if the item is gone.
    """
    if session.conversation.set_transcript(item_id, text) is None:
        return []
    return [_completed(session, item_id, text, audio_duration_s)]


def _completed(
    session: DuplexEngineSession, item_id: str, text: str, audio_duration_s: float
) -> ConversationItemInputAudioTranscriptionCompleted:
    return ConversationItemInputAudioTranscriptionCompleted(
        event_id=session.new_id("event_"),
        item_id=item_id,
        content_index=_sound_index(session, item_id),
        transcript=text,
        usage=DurationUsage(seconds=round(audio_duration_s, 3)),
    )


def transcript_failed(session: DuplexEngineSession, item_id: str, error: RealtimeError) -> list[DuplexEvent]:
    """No transcript will come for a committed item; it contributes no text."""
    entry = session.conversation.find(item_id)
    if entry is None or not entry.transcript_pending:
        return []
    session.conversation.set_transcript(item_id, "")
    detail = TranscriptionError(type=error.error_class, code=error.code, message=error.message)
    return [
        ConversationItemInputAudioTranscriptionFailed(
            event_id=session.new_id("event_"),
            item_id=item_id,
            content_index=_sound_index(session, item_id),
            error=detail,
        )
    ]


def _sound_index(session: DuplexEngineSession, item_id: str) -> int:
    """Where the sound of an item is among its parts; a client may have put text in front of it."""
    item = session.conversation.get(item_id).item
    parts = item.content if isinstance(item, MessageItem) else ()
    return next((index for index, part in enumerate(parts) if isinstance(part, InputAudioPart)), 0)
