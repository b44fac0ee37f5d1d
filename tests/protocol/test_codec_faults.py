"""What is said about each fault of a message: the code, the field, and the id of the message."""

import base64

import orjson
import pytest

from duplex_trio.protocol.duplex import (
    RealtimeError,
    decode_command,
)
from duplex_trio.testing.pictures import JPEG, PNG

APPEND = "input_audio_buffer.append"
CREATE = "conversation.item.create"
HELLO = {"type": "input_text", "text": "hello"}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def read(kind, **fields):
    return decode_command(orjson.dumps({"type": kind, **fields}))


def refused(kind, **fields):
    with pytest.raises(RealtimeError) as caught:
        read(kind, event_id="mine", **fields)
    assert caught.value.event_id == "mine"
    return caught.value.code, caught.value.param


AUDIO_ITEM = {"role": "user", "content": [HELLO, {"type": "input_audio", "audio": "AAA"}]}
REFUSED = [
    ("no.such.type", {}, "unknown_event", "type"),
    ("session.update", {"session": 5}, "bad_event", "session"),
    (APPEND, {}, "bad_event", "audio"),
    (APPEND, {"audio": ""}, "bad_event", "audio"),
    (APPEND, {"audio": "  "}, "bad_event", "audio"),
    (APPEND, {"audio": 5}, "bad_event", "audio"),
    (APPEND, {"audio": 5, "video_frames": [b64(JPEG)]}, "bad_event", "audio"),
    (APPEND, {"video_frames": []}, "bad_event", "audio"),
    (APPEND, {"audio": "@@@@"}, "bad_audio", "audio"),
    (APPEND, {"audio": "AAA"}, "bad_audio", "audio"),
    (APPEND, {"audio": "AA\nAA"}, "bad_audio", "audio"),
    (APPEND, {"audio": "-_-_"}, "bad_audio", "audio"),
    (APPEND, {"audio": "éééé"}, "bad_audio", "audio"),
    (APPEND, {"audio": "AAAA===="}, "bad_audio", "audio"),
    (APPEND, {"delta": "AAA"}, "bad_audio", "delta"),
    (APPEND, {"audio": "AAAA", "format": 5}, "unsupported_audio_format", "format"),
    (APPEND, {"audio": "AAAA", "input_audio_format": []}, "unsupported_audio_format", "input_audio_format"),
    *(
        (APPEND, {"audio": "AAAA", "sample_rate_hz": rate}, "bad_event", "sample_rate_hz")
        for rate in (4000, 200_000, 16000.5, True, "16000", -1)
    ),
    (APPEND, {"audio": "AAAA", "sample_rate": "16000"}, "bad_event", "sample_rate"),
    (APPEND, {"audio": "AAAA", "is_speech": "yes"}, "bad_event", "is_speech"),
    (APPEND, {"audio": "AAAA", "speech": 1}, "bad_event", "speech"),
    (APPEND, {"audio": "AAAA", "speech_probability": True}, "bad_event", "speech_probability"),
    (APPEND, {"audio": "AAAA", "vad": []}, "bad_event", "vad"),
    (APPEND, {"audio": "AAAA", "duration_ms": 1e308}, "bad_event", "duration_ms"),
    (APPEND, {"audio": "AAAA", "audio_duration_ms": 1e17}, "bad_event", "audio_duration_ms"),
    (APPEND, {"audio": "AAAA", "audio_start_ms": -1e17}, "bad_event", "audio_start_ms"),
    (APPEND, {"audio": "AAAA", "audio_end_ms": 1e308}, "bad_event", "audio_end_ms"),
    (APPEND, {"audio": "AAAA", "force_listen": 0}, "bad_event", "force_listen"),
    (APPEND, {"audio": "AAAA", "overlap": 1}, "bad_event", "overlap"),
    (APPEND, {"audio": "AAAA", "text": 1}, "bad_event", "text"),
    (APPEND, {"video_frames": "x"}, "invalid_video_frames", "video_frames"),
    (APPEND, {"video_frames": [b64(JPEG)] * 3}, "invalid_video_frames", "video_frames"),
    (APPEND, {"video_frames": [b64(JPEG), 5]}, "invalid_video_frames", "video_frames[1]"),
    (APPEND, {"video_frames": ["AAAA"]}, "invalid_video_frames", "video_frames[0]"),
    (APPEND, {"video_frames": [b64(JPEG) + "!"]}, "invalid_video_frames", "video_frames[0]"),
    (
        APPEND,
        {"video_frames": ["data:image/png;base64," + b64(PNG)]},
        "invalid_video_frames",
        "video_frames[0]",
    ),
    (APPEND, {"video_frames": ["/9j/" * 1_000_001]}, "invalid_video_frames", "video_frames[0]"),
    (APPEND, {"video_frames": [b64(PNG)], "max_slice_nums": 2}, "invalid_video_frames", "max_slice_nums"),
    (APPEND, {"audio": "AAAA", "max_slice_nums": "2"}, "invalid_video_frames", "max_slice_nums"),
    ("input_audio_buffer.commit", {"final": 1}, "bad_event", "final"),
    ("input_audio_buffer.commit", {"response_create": "no"}, "bad_event", "response_create"),
    ("input.commit", {"create_response": "no"}, "bad_event", "create_response"),
    ("input_audio_buffer.commit", {"is_speech": 0}, "bad_event", "is_speech"),
    ("output_audio_buffer.clear", {"response_id": 5}, "bad_event", "response_id"),
    ("response.cancel", {"response_id": 5}, "bad_event", "response_id"),
    ("response.create", {"response": {"instructions": 5}}, "invalid_value", "response.instructions"),
    ("response.create", {"response": {"modalities": ["smell"]}}, "invalid_value", "response.modalities"),
    (
        "response.create",
        {"response": {"output_modalities": []}},
        "invalid_value",
        "response.output_modalities",
    ),
    ("response.create", {"response": {"conversation": "other"}}, "invalid_value", "response.conversation"),
    ("response.create", {"response": {"metadata": {"a": 5}}}, "invalid_value", "response.metadata.a"),
    ("response.create", {"response": {"metadata": []}}, "invalid_value", "response.metadata"),
    (
        "response.create",
        {"response": {"metadata": dict.fromkeys(map(str, range(17)), "")}},
        "invalid_value",
        "response.metadata",
    ),
    ("response.create", {"response": {"metadata": {"k" * 65: ""}}}, "invalid_value", "response.metadata"),
    ("response.create", {"response": {"metadata": {"k": "v" * 513}}}, "invalid_value", "response.metadata.k"),
    ("response.create", {"response": {"max_tokens": 0}}, "invalid_value", "response.max_tokens"),
    (
        "response.create",
        {"response": {"max_output_tokens": "lots"}},
        "invalid_value",
        "response.max_output_tokens",
    ),
    ("response.create", {"response": {"tools": [{"name": ""}]}}, "invalid_value", "response.tools[0].name"),
    ("response.create", {"response": {"tool_choice": "some"}}, "invalid_value", "response.tool_choice"),
    ("response.create", {"response": {"temperature": "hot"}}, "invalid_value", "response.temperature"),
    ("response.create", {"response": {"voice": 5}}, "invalid_value", "response.voice"),
    (
        "response.create",
        {"response": {"audio": {"output": {"voice": {"id": ""}}}}},
        "invalid_value",
        "response.audio.output.voice.id",
    ),
    (
        "response.create",
        {"response": {"audio": {"output": {"format": 5}}}},
        "unsupported_audio_format",
        "response.audio.output.format",
    ),
    ("response.create", {"response": {"colour": "red"}}, "unknown_parameter", "response.colour"),
    ("response.create", {"response": {"input": 5}}, "invalid_value", "response.input"),
    ("response.create", {"response": {"input": [5]}}, "invalid_value", "response.input[0]"),
    (
        "response.create",
        {"response": {"input": [{"type": "item_reference"}]}},
        "invalid_value",
        "response.input[0].id",
    ),
    (
        "response.create",
        {"response": {"input": [AUDIO_ITEM]}},
        "bad_audio",
        "response.input[0].content[1].audio",
    ),
    (CREATE, {}, "bad_event", "item"),
    (CREATE, {"item": "x"}, "bad_event", "item"),
    (CREATE, {"item": {"content": [HELLO]}, "previous_item_id": 5}, "bad_event", "previous_item_id"),
    (CREATE, {"item": {"type": "mcp_call"}}, "invalid_value", "item.type"),
    (CREATE, {"item": {"id": 5, "content": [HELLO]}}, "invalid_value", "item.id"),
    (CREATE, {"item": {"status": "odd", "content": [HELLO]}}, "invalid_value", "item.status"),
    (CREATE, {"item": {"role": "tool", "content": [HELLO]}}, "invalid_value", "item.role"),
    (CREATE, {"item": {"role": "user"}}, "invalid_value", "item.content"),
    (CREATE, {"item": {"role": "user", "content": []}}, "invalid_value", "item.content"),
    (CREATE, {"item": {"role": "user", "content": ["x"]}}, "invalid_value", "item.content[0]"),
    (CREATE, {"item": {"content": [{"type": "input_text"}]}}, "invalid_value", "item.content[0].text"),
    (
        CREATE,
        {"item": {"content": [{"type": "output_text", "text": ""}]}},
        "invalid_value",
        "item.content[0].type",
    ),
    (CREATE, {"item": {"content": [{"type": ["x"]}]}}, "invalid_value", "item.content[0].type"),
    (
        CREATE,
        {"item": {"role": "system", "content": [{"type": "input_audio", "audio": "AAAA"}]}},
        "invalid_value",
        "item.content[0].type",
    ),
    (CREATE, {"item": AUDIO_ITEM}, "bad_audio", "item.content[1].audio"),
    (
        CREATE,
        {"item": {"content": [{"type": "input_audio", "audio": "AAAA", "format": 5}]}},
        "unsupported_audio_format",
        "item.content[0].format",
    ),
    (
        CREATE,
        {"item": {"content": [{"type": "input_audio", "audio": "AAAA", "sample_rate_hz": 1}]}},
        "bad_event",
        "item.content[0].sample_rate_hz",
    ),
    (CREATE, {"item": {"content": [{"type": "input_image"}]}}, "invalid_image", "item.content[0].image_url"),
    (
        CREATE,
        {"item": {"content": [{"type": "input_image", "image_url": "data:,", "detail": "x"}]}},
        "invalid_value",
        "item.content[0].detail",
    ),
    (CREATE, {"item": {"type": "function_call", "name": "f"}}, "invalid_value", "item.arguments"),
    (
        CREATE,
        {"item": {"type": "function_call_output", "output": "x"}},
        "invalid_function_call_output",
        "item.call_id",
    ),
    (
        CREATE,
        {"item": {"type": "function_call_output", "call_id": "c", "output": {}}},
        "invalid_function_call_output",
        "item.output",
    ),
    *(
        (f"conversation.item.{step}", {"item_id": item_id, "audio_end_ms": 0}, "missing_item_id", "item_id")
        for step in ("delete", "retrieve", "truncate")
        for item_id in (None, "", 5)
    ),
    *(
        ("conversation.item.truncate", {"item_id": "i", "audio_end_ms": end}, "bad_event", "audio_end_ms")
        for end in (None, "5", True, -1, 1e300)
    ),
    (
        "conversation.item.truncate",
        {"item_id": "i", "audio_end_ms": 5, "content_index": 0.5},
        "bad_event",
        "content_index",
    ),
    ("input.text.append", {}, "bad_event", "text"),
    ("push_text", {"text": 5}, "bad_event", "text"),
    ("turn.signal", {}, "bad_event", "event"),
    ("turn.signal", {"event": ""}, "bad_event", "event"),
    ("turn.signal", {"event": "x", "payload": []}, "bad_event", "payload"),
    ("playback.ack", {}, "bad_event", "played_ms"),
    ("playback.ack", {"played_ms": "5"}, "bad_event", "played_ms"),
    ("playback.ack", {"played_ms": 2**60}, "bad_event", "played_ms"),
    ("playback.ack", {"played_ms": 5, "committed_ms": "5"}, "bad_event", "committed_ms"),
    ("playback.ack", {"played_ms": 5, "item_id": 5}, "bad_event", "item_id"),
    ("session.close", {"reason": 5}, "bad_event", "reason"),
    ("session.resume", {"resume_token": "t"}, "invalid_session_resume", "session_id"),
    ("session.resume", {"session_id": "s"}, "invalid_session_resume", "resume_token"),
    *(
        (
            "session.resume",
            {"session_id": "s", "resume_token": "t", "last_received_server_event_seq": seq},
            "invalid_session_resume",
            "last_received_server_event_seq",
        )
        for seq in (-1, "3", 1.5, True)
    ),
    *(
        ("session.event_ack", {"server_event_seq": seq}, "invalid_event_ack", "server_event_seq")
        for seq in (None, -1, "3", 1.5, True)
    ),
]


@pytest.mark.parametrize(("kind", "fields", "code", "param"), REFUSED, ids=lambda value: str(value)[:50])
def test_refused(kind, fields, code, param):
    assert refused(kind, **fields) == (code, param)


@pytest.mark.parametrize(
    ("raw", "code", "param"),
    [
        ("", "invalid_json", None),
        ("{", "invalid_json", None),
        (b"\xff", "invalid_json", None),
        ("\ud800", "invalid_json", None),
        ('{"type": "barge_in", "event_id": "\\ud800"}', "invalid_json", None),
        ("[" * 2000 + "]" * 2000, "invalid_json", None),
        ("5", "bad_event", None),
        ("[]", "bad_event", None),
        ("null", "bad_event", None),
        ("{}", "bad_event", "type"),
        ('{"type": 5}', "bad_event", "type"),
        ('{"type": ["barge_in"]}', "bad_event", "type"),
        ('{"type": null}', "bad_event", "type"),
        ('{"type": "barge_in", "event_id": 5}', "bad_event", "event_id"),
    ],
)
def test_frames_that_are_no_message(raw, code, param):
    with pytest.raises(RealtimeError) as caught:
        decode_command(raw)
    assert (caught.value.code, caught.value.param, caught.value.event_id) == (code, param, None)


def test_message_names_the_field():
    with pytest.raises(RealtimeError, match=r"item\.content\[0\]\.text: expected a string, got a number"):
        read(CREATE, item={"content": [{"type": "input_text", "text": 5}]})
