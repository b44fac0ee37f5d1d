from __future__ import annotations

from typing import Any

import pytest

from duplex_trio.clients import DuplexProtocolError
from duplex_trio.clients.events import (
    AudioDelta,
    ErrorEvent,
    InputTranscript,
    ResponseDone,
    ServerEvent,
    SessionCreated,
    SessionExpired,
    TextDelta,
    parse_event,
)


@pytest.mark.parametrize(
    ("raw", "cls", "accessors"),
    [
        (
            {"type": "session.created", "session": {"id": "s"}, "resume_token": "t"},
            SessionCreated,
            {"session_id": "s", "resume_token": "t", "session": {"id": "s"}},
        ),
        (
            {"type": "session.expired", "session_id": "s"},
            SessionExpired,
            {"session_id": "s", "reason": "closed"},
        ),
        (
            {"type": "response.output_audio.delta", "response_id": "r", "item_id": "i", "delta": "AAAA"},
            AudioDelta,
            {
                "audio": b"\0\0\0",
                "encoding": "pcm16",
                "sample_rate_hz": None,
                "duration_ms": 0,
                "item_id": "i",
            },
        ),
        (
            {"type": "response.output_audio.delta", "delta": "AAAAAA==", "sample_rate_hz": 1000},
            AudioDelta,
            {"duration_ms": 2, "response_id": None},
        ),
        (
            {
                "type": "response.output_audio.delta",
                "delta": "AAAAAA==",
                "duplex": {"format": "g711_ulaw", "sample_rate_hz": 8000},
            },
            AudioDelta,
            {"encoding": "g711_ulaw", "sample_rate_hz": 8000, "duration_ms": 0.5},
        ),
        ({"type": "response.text.delta", "delta": "x"}, TextDelta, {"text": "x"}),
        ({"type": "response.output_text.delta", "delta": "x"}, TextDelta, {"text": "x"}),
        (
            {
                "type": "conversation.item.input_audio_transcription.completed",
                "transcript": "hi",
                "item_id": "i",
            },
            InputTranscript,
            {"text": "hi", "item_id": "i"},
        ),
        (
            {
                "type": "response.done",
                "response": {"id": "r", "status": "cancelled", "status_details": {"reason": "x"}},
            },
            ResponseDone,
            {"response_id": "r", "status": "cancelled", "reason": "x"},
        ),
        (
            {"type": "response.done", "response": {"status_details": None}},
            ResponseDone,
            {"status": None, "reason": None},
        ),
        (
            {"type": "error", "error": {"code": "c", "message": "m", "param": "p", "event_id": "e"}},
            ErrorEvent,
            {"code": "c", "message": "m", "param": "p", "related_event_id": "e"},
        ),
        (
            {"type": "error", "error": {"type": "server_error", "message": "m"}},
            ErrorEvent,
            {"code": "server_error"},
        ),
        (
            {"type": "error", "code": "unsupported", "error": "flat"},
            ErrorEvent,
            {"code": "unsupported", "message": "flat"},
        ),
        (
            {"type": "novel", "server_event_seq": True, "duplex": [], "item": {"id": "i"}, "event_id": 7},
            ServerEvent,
            {
                "server_event_seq": None,
                "duplex": {},
                "item_id": "i",
                "audio": b"",
                "text": "",
                "event_id": None,
            },
        ),
    ],
)
def test_a_view_reads_what_is_there(raw: dict[str, Any], cls: type, accessors: dict[str, Any]) -> None:
    event = parse_event(raw, received_at_s=3)
    assert type(event) is cls
    assert event.raw is raw
    assert event.received_at_s == 3
    assert {name: getattr(event, name) for name in accessors} == accessors


@pytest.mark.parametrize("raw", [[], "text", None, {}, {"type": 1}])
def test_what_is_no_event_is_refused(raw: object) -> None:
    with pytest.raises(DuplexProtocolError) as caught:
        parse_event(raw)
    assert caught.value.code == "bad_event"


@pytest.mark.parametrize("delta", ["@@@@", "AAA", "AA AA"])
def test_a_delta_that_is_not_base64_is_refused_on_access(delta: str) -> None:
    event = parse_event({"type": "response.output_audio.delta", "delta": delta})
    with pytest.raises(DuplexProtocolError, match="bad_audio"):
        _ = event.audio
