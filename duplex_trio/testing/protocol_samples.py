"""At least one valid event of every class, for tests that must hold for all of them.

Owns examples only. The session object in them is a small one that OpenAI's schema accepts.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from duplex_trio.protocol.duplex import (
    AudioContentPart,
    AudioTextMark,
    CommitRecord,
    Conversation,
    ConversationCreated,
    ConversationItemAdded,
    ConversationItemCreated,
    ConversationItemDeleted,
    ConversationItemDone,
    ConversationItemInputAudioTranscriptionCompleted,
    ConversationItemInputAudioTranscriptionDelta,
    ConversationItemInputAudioTranscriptionFailed,
    ConversationItemRetrieved,
    ConversationItemTruncated,
    DuplexEvent,
    DuplexExtension,
    DurationUsage,
    ErrorEvent,
    FunctionCallItem,
    FunctionCallOutputItem,
    InputAudioBufferCleared,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    InputAudioBufferSpeechStopped,
    InputAudioBufferTimeoutTriggered,
    InputAudioPart,
    InputImagePart,
    InputTextPart,
    Item,
    MessageItem,
    ModelEvent,
    OutputAudioBufferCleared,
    OutputAudioBufferStarted,
    OutputAudioBufferStopped,
    OutputAudioPart,
    OutputTextPart,
    OverlapDecision,
    Playback,
    PlaybackAcknowledged,
    PlaybackRecord,
    RateLimit,
    RateLimitsUpdated,
    RealtimeError,
    RealtimeResponse,
    RequestMetrics,
    ResponseAudio,
    ResponseAudioOutput,
    ResponseContentPartAdded,
    ResponseContentPartDone,
    ResponseCreated,
    ResponseDone,
    ResponseFunctionCallArgumentsDelta,
    ResponseFunctionCallArgumentsDone,
    ResponseListen,
    ResponseOutputAudioDelta,
    ResponseOutputAudioDone,
    ResponseOutputAudioTranscriptDelta,
    ResponseOutputAudioTranscriptDone,
    ResponseOutputItemAdded,
    ResponseOutputItemDone,
    ResponseOutputTextDelta,
    ResponseOutputTextDone,
    ResponseSpeak,
    SessionClosed,
    SessionCreated,
    SessionExpired,
    SessionHeartbeatAck,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
    SessionUpdated,
    SpeakRecord,
    StatusDetails,
    StatusError,
    TextContentPart,
    TokenUsage,
    TranscriptionError,
    TurnEvent,
    Usage,
)
from duplex_trio.testing.pictures import PNG_URL

SESSION: dict[str, Any] = {
    "type": "realtime",
    "object": "realtime.session",
    "id": "duplex-1",
    "model": "any",
    "output_modalities": ["audio"],
    "audio": {
        "input": {"format": {"type": "audio/pcm", "rate": 24000}, "turn_detection": {"type": "server_vad"}},
        "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "one"},
    },
    "max_output_tokens": "inf",
}
"""A session object of the GA and duplex dialects."""

ITEMS: tuple[Item, ...] = (
    MessageItem(id="item_1", role="user", content=(InputAudioPart(),)),
    MessageItem(id="item_2", role="user", content=(InputAudioPart(audio="AAAA", transcript="hello"),)),
    MessageItem(
        id="item_3",
        role="user",
        content=(InputTextPart("look"), InputImagePart(PNG_URL)),
    ),
    MessageItem(id="item_4", role="system", content=(InputTextPart("be brief"),)),
    MessageItem(id="item_5", role="assistant", status="in_progress"),
    MessageItem(id="item_6", role="assistant", status="incomplete", content=(OutputAudioPart("he"),)),
    MessageItem(id="item_7", role="assistant", content=(OutputTextPart("hello"),)),
    FunctionCallItem(id="item_8", call_id="call_1", name="look_up", arguments="{}"),
    FunctionCallOutputItem(id="item_9", call_id="call_1", output="42"),
)
"""One item of every shape."""

_PLAYBACK = Playback(generated_ms=400, sent_ms=400, played_ms=200, committed_ms=200)
EXTENSION = DuplexExtension(
    session_id="duplex-1",
    epoch=1,
    turn_id=2,
    playback=_PLAYBACK,
    format="pcm16",
    sample_rate_hz=24000,
    audio_duration_ms=400,
    audio_text_marks=(AudioTextMark(5, 400),),
    stage_metrics={"llm": {"num_tokens_out": 3}},
    request_metrics=RequestMetrics(ttft_ms=1.5),
)
"""An extension as an audio delta carries it."""

RESPONSES: tuple[RealtimeResponse, ...] = (
    RealtimeResponse(id="resp_1", status="in_progress", metadata={"topic": "a"}, conversation_id="conv_1"),
    RealtimeResponse(
        id="resp_1",
        status="completed",
        status_details=StatusDetails(type="completed"),
        output=(ITEMS[6], ITEMS[7]),
        modalities=("text", "audio"),
        max_output_tokens=100,
        usage=Usage(total_tokens=3, input_tokens=1, output_tokens=2),
        audio=ResponseAudio(
            output=ResponseAudioOutput(format={"type": "audio/pcm", "rate": 24000}, voice="one")
        ),
    ),
    RealtimeResponse(
        id="resp_1",
        status="cancelled",
        status_details=StatusDetails(type="cancelled", reason="turn_detected"),
        output=(ITEMS[5],),
        max_output_tokens="inf",
    ),
    RealtimeResponse(
        id="resp_1",
        status="failed",
        status_details=StatusDetails(
            type="failed", error=StatusError(type="server_error", code="engine_error", message="stopped")
        ),
        output=(ITEMS[5],),
    ),
    RealtimeResponse(
        id="resp_1",
        status="incomplete",
        status_details=StatusDetails(type="incomplete", reason="max_output_tokens"),
    ),
)
"""A new response, and one for each way to end."""


def sample_events() -> tuple[DuplexEvent, ...]:
    """Valid events, at least one of each class; ids are unique."""
    made = (*_session_events(), *_input_events(), *_item_events(), *_response_events(), *_own_events())
    return tuple(evolve(event, event_id=f"event_{number}") for number, event in enumerate(made))


def _session_events() -> tuple[DuplexEvent, ...]:
    error = RealtimeError("bad_audio", "not base64", param="audio", event_id="mine", retryable=False)
    return (
        SessionCreated(session=SESSION),
        SessionCreated(session=SESSION, attachment_generation=1, resume_token="secret"),  # noqa: S106
        SessionUpdated(session=SESSION),
        RateLimitsUpdated(),
        RateLimitsUpdated(rate_limits=(RateLimit(name="tokens", limit=9, remaining=8, reset_seconds=0.5),)),
        ErrorEvent.from_error(error),
        ErrorEvent.from_error(RealtimeError("engine_dead", "the engine died")),
    )


def _input_events() -> tuple[DuplexEvent, ...]:
    item_id = "item_1"
    failure = TranscriptionError(type="server_error", code="engine_error", message="no transcript")
    tokens = TokenUsage(input_tokens=1, output_tokens=2, total_tokens=3)
    completed = ConversationItemInputAudioTranscriptionCompleted
    return (
        InputAudioBufferCommitted(item_id=item_id),
        InputAudioBufferCommitted(
            item_id=item_id,
            previous_item_id="item_0",
            duplex=DuplexExtension(commit=CommitRecord(empty=True, is_speech=False)),
        ),
        InputAudioBufferCleared(),
        InputAudioBufferSpeechStarted(audio_start_ms=40, item_id=item_id),
        InputAudioBufferSpeechStopped(audio_end_ms=840, item_id=item_id),
        InputAudioBufferTimeoutTriggered(audio_start_ms=0, audio_end_ms=6000, item_id=item_id),
        ConversationItemInputAudioTranscriptionDelta(item_id=item_id, delta="he"),
        completed(item_id=item_id, transcript="hello", usage=DurationUsage(seconds=0.8)),
        completed(item_id=item_id, transcript="hello", usage=tokens),
        ConversationItemInputAudioTranscriptionFailed(item_id=item_id, error=failure),
        OutputAudioBufferStarted(response_id="resp_1"),
        OutputAudioBufferStopped(response_id="resp_1"),
        OutputAudioBufferCleared(response_id="resp_1", duplex=DuplexExtension(epoch=1)),
    )


def _item_events() -> tuple[DuplexEvent, ...]:
    return (
        ConversationCreated(conversation=Conversation(id="conv_1")),
        *(ConversationItemAdded(item=item) for item in ITEMS),
        *(ConversationItemCreated(previous_item_id="item_0", item=item) for item in ITEMS),
        *(ConversationItemDone(previous_item_id="item_0", item=item) for item in ITEMS),
        *(ConversationItemRetrieved(item=item) for item in ITEMS),
        ConversationItemDeleted(item_id="item_1", duplex=DuplexExtension(deleted=True)),
        ConversationItemTruncated(item_id="item_1", audio_end_ms=10, duplex=DuplexExtension(truncated=True)),
    )


def _response_events() -> tuple[DuplexEvent, ...]:
    at: dict[str, Any] = {"response_id": "resp_1", "item_id": "item_5"}
    call: dict[str, Any] = {"response_id": "resp_1", "item_id": "item_8", "call_id": "call_1"}
    return (
        ResponseCreated(response=RESPONSES[0], duplex=DuplexExtension(epoch=1, turn_id=2)),
        ResponseOutputItemAdded(response_id="resp_1", item=ITEMS[4]),
        ResponseContentPartAdded(**at, part=AudioContentPart()),
        ResponseContentPartAdded(**at, content_index=1, part=TextContentPart()),
        ResponseOutputAudioDelta(**at, delta=b"\x00\x01\xfe", duplex=EXTENSION),
        ResponseOutputAudioTranscriptDelta(**at, delta="he"),
        ResponseOutputTextDelta(**at, delta="he"),
        ResponseOutputAudioDone(**at),
        ResponseOutputAudioTranscriptDone(**at, transcript="hello"),
        ResponseOutputTextDone(**at, text="hello"),
        ResponseContentPartDone(**at, part=AudioContentPart("hello")),
        ResponseContentPartDone(**at, part=TextContentPart("hello")),
        ResponseFunctionCallArgumentsDelta(**call, delta="{"),
        ResponseFunctionCallArgumentsDone(**call, name="look_up", arguments="{}"),
        ResponseOutputItemDone(response_id="resp_1", item=ITEMS[7]),
        *(
            ResponseDone(response=response, duplex=DuplexExtension(epoch=2, cancel_reason="barge_in"))
            for response in RESPONSES[1:]
        ),
    )


def _own_events() -> tuple[DuplexEvent, ...]:
    session_id = "duplex-1"
    record = PlaybackRecord(
        session_id=session_id, epoch=1, item_id="item_5", played_ms=200, committed_ms=200, playback=_PLAYBACK
    )
    speak = SpeakRecord(session_id=session_id, epoch=1)
    return (
        SessionResumed(
            session_id=session_id,
            session=SESSION,
            attachment_generation=2,
            resume_token="secret",  # noqa: S106
            client_event_count=3,
            last_client_event_id="evt_3",
        ),
        SessionReplaced(session_id=session_id, attachment_generation=1),
        SessionResyncRequired(session_id=session_id, reason="journal_gap"),
        SessionClosed(session_id=session_id),
        SessionExpired(session_id=session_id, reason="idle_ttl_expired"),
        SessionHeartbeatAck(session_id=session_id, client_event_count=3),
        TurnEvent(session_id=session_id, event="user_started", turn_state="user_speaking", epoch=1),
        PlaybackAcknowledged(event=record),
        ModelEvent(session_id=session_id, epoch=1, response_id="resp_1", event={"mood": "calm"}),
        OverlapDecision(
            session_id=session_id,
            epoch=1,
            policy="listen_only",
            action="listen",
            reason="policy_listen_only",
            metadata={"duration_ms": 20},
        ),
        ResponseSpeak(response_id="resp_1", item_id="item_5", metadata=speak),
        ResponseListen.because("silence_or_noise", session_id=session_id, epoch=1),
        ResponseListen.because("model_listen", session_id=session_id, epoch=1, response_id="resp_1"),
    )
