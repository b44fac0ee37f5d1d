"""What each message is read as, under each of its names, and that writing is the reverse."""

import base64
from typing import get_args

import orjson
import pytest

from duplex_trio.protocol.duplex import (
    COMMAND_CLASSES,
    TYPE_ALIASES,
    AckPlayback,
    AppendAudio,
    AppendHints,
    AppendText,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    ClientMessage,
    CloseSession,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    DuplexCommand,
    Heartbeat,
    InputTextPart,
    MessageItem,
    RetrieveItem,
    SessionEventAck,
    SessionResume,
    SignalTurn,
    TruncateItem,
    UpdateSession,
    decode_command,
    encode_command,
)
from duplex_trio.testing.pictures import JPEG, PNG

APPEND = "input_audio_buffer.append"
CREATE = "conversation.item.create"
HELLO = {"type": "input_text", "text": "hello"}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def read(kind, **fields):
    return decode_command(orjson.dumps({"type": kind, **fields}))


READ = [
    ("session.update", {"session": {"voice": "v"}}, UpdateSession(patch={"voice": "v"})),
    ("session.update", {"voice": "v"}, UpdateSession(patch={"voice": "v"})),
    ("session.update", {"session": None, "voice": "v"}, UpdateSession(patch={"voice": "v"})),
    (APPEND, {"audio": "AAEC"}, AppendAudio(audio=b"\x00\x01\x02")),
    (APPEND, {"audio": " AAEC\n"}, AppendAudio(audio=b"\x00\x01\x02")),
    (
        APPEND,
        {"audio": "AAEC", "sample_rate_hz": 16000.0},
        AppendAudio(audio=b"\0\1\2", sample_rate_hz=16000),
    ),
    (APPEND, {"audio": "AAEC", "sample_rate_hz": 0}, AppendAudio(audio=b"\0\1\2")),
    (APPEND, {"audio": "", "video_frames": [b64(PNG)]}, AppendAudio(video_frames=(PNG,))),
    (
        APPEND,
        {"audio": None, "video_frames": [b64(JPEG), None, b64(PNG)]},
        AppendAudio(video_frames=(JPEG, PNG)),
    ),
    (
        APPEND,
        {"video_frames": [b64(JPEG)], "max_slice_nums": 1},
        AppendAudio(video_frames=(JPEG,), hints=AppendHints(max_slice_nums=1.0)),
    ),
    (
        APPEND,
        {"audio": "AA==", "max_slice_nums": 4},
        AppendAudio(audio=b"\0", hints=AppendHints(max_slice_nums=4.0)),
    ),
    (
        APPEND,
        {
            "audio": "AAEC",
            "format": {"type": "audio/pcm", "rate": 16000},
            "is_speech": True,
            "speech_probability": 0.5,
            "vad": {"is_speech": True},
            "duration_ms": 20,
            "audio_start_ms": 40,
            "audio_end_ms": 60.5,
            "force_listen": True,
            "force_barge_in": False,
            "overlap_action": "ack",
            "transcript": "yes",
        },
        AppendAudio(
            audio=b"\0\1\2",
            format={"type": "audio/pcm", "rate": 16000},
            hints=AppendHints(
                is_speech=True,
                speech_probability=0.5,
                vad={"is_speech": True},
                duration_ms=20.0,
                audio_start_ms=40.0,
                audio_end_ms=60.5,
                force_listen=True,
                overlap_action="ack",
                transcript="yes",
            ),
        ),
    ),
    ("input_audio_buffer.commit", {}, Commit()),
    ("input_audio_buffer.commit", {"final": False, "is_speech": False}, Commit(final=False, is_speech=False)),
    ("input_audio_buffer.commit", {"response_create": True}, Commit(response_create=True)),
    ("input.commit", {}, Commit(response_create=True)),
    ("input.commit", {"create_response": False}, Commit(response_create=False)),
    ("input_audio_buffer.clear", {}, ClearInput()),
    ("output_audio_buffer.clear", {}, ClearOutputAudio()),
    ("output_audio_buffer.clear", {"response_id": "r"}, ClearOutputAudio(response_id="r")),
    ("response.create", {}, CreateResponse()),
    ("response.create", {"response": None}, CreateResponse()),
    ("response.create", {"response": "not an object"}, CreateResponse()),
    ("response.create", {"response": {"instructions": None}}, CreateResponse()),
    ("response.cancel", {}, CancelResponse()),
    ("response.cancel", {"response_id": "r"}, CancelResponse(response_id="r")),
    (
        CREATE,
        {"item": {"role": "user", "content": [HELLO]}, "previous_item_id": "root"},
        CreateItem(item=MessageItem(role="user", content=(InputTextPart("hello"),)), previous_item_id="root"),
    ),
    ("conversation.item.delete", {"item_id": "i"}, DeleteItem(item_id="i")),
    ("conversation.item.retrieve", {"item_id": "i"}, RetrieveItem(item_id="i")),
    (
        "conversation.item.truncate",
        {"item_id": "i", "audio_end_ms": 10.9},
        TruncateItem(item_id="i", audio_end_ms=10),
    ),
    (
        "conversation.item.truncate",
        {"item_id": "i", "audio_end_ms": 0, "content_index": 1},
        TruncateItem(item_id="i", audio_end_ms=0, content_index=1),
    ),
    ("input.text.append", {"text": ""}, AppendText(text="")),
    ("input.cancel", {}, CancelInput()),
    ("barge_in", {}, BargeIn()),
    ("turn.signal", {"event": "user_started"}, SignalTurn(event="user_started")),
    ("turn.signal", {"event": "x", "payload": {"a": 1}}, SignalTurn(event="x", payload={"a": 1})),
    ("playback.ack", {"played_ms": 99.9}, AckPlayback(played_ms=99, committed_ms=99)),
    ("playback.ack", {"played_ms": -5}, AckPlayback(played_ms=-5)),
    (
        "playback.ack",
        {"played_ms": 9, "committed_ms": 8, "response_id": "r", "item_id": "i"},
        AckPlayback(played_ms=9, committed_ms=8, response_id="r", item_id="i"),
    ),
    ("session.heartbeat", {}, Heartbeat()),
    ("session.close", {}, CloseSession(reason="client_close")),
    ("session.close", {"reason": ""}, CloseSession(reason="client_close")),
    ("session.close", {"reason": "bye"}, CloseSession(reason="bye")),
    (
        "session.resume",
        {"session_id": "s", "resume_token": "t"},
        SessionResume(session_id="s", resume_token="t", last_received_server_event_seq=0),
    ),
    (
        "session.resume",
        {"session_id": "s", "resume_token": "t", "last_received_server_event_seq": 7},
        SessionResume(session_id="s", resume_token="t", last_received_server_event_seq=7),
    ),
    ("session.event_ack", {"server_event_seq": 0}, SessionEventAck(server_event_seq=0)),
]


@pytest.mark.parametrize(("kind", "fields", "command"), READ, ids=lambda value: str(value)[:40])
def test_read(kind, fields, command):
    assert read(kind, **fields) == command


def test_every_class_is_read_somewhere_above():
    assert {type(command) for _, _, command in READ} == set(get_args(ClientMessage))
    assert len(get_args(DuplexCommand)) == 18
    assert {cls.type: cls for cls in get_args(ClientMessage)} == COMMAND_CLASSES


def test_event_id_is_kept():
    assert read("barge_in", event_id="mine").event_id == "mine"
    assert read(APPEND, audio="AAAA", event_id="mine").event_id == "mine"
    assert read("barge_in", event_id=None).event_id is None


def test_text_and_bytes_are_read_alike():
    text = '{"type": "response.create", "response": {"instructions": "Bon appétit"}}'
    assert decode_command(text) == decode_command(text.encode())


@pytest.mark.parametrize(
    ("alias", "kind", "fields"),
    [
        ("input_text.append", "input.text.append", {"text": "a"}),
        ("push_text", "input.text.append", {"text": "a"}),
        ("signal_turn", "turn.signal", {"event": "a"}),
        ("audio.playback_ack", "playback.ack", {"played_ms": 1}),
        ("close", "session.close", {}),
        ("close_session", "session.close", {}),
        ("input.commit", "input_audio_buffer.commit", {"response_create": True}),
    ],
)
def test_aliases_of_types(alias, kind, fields):
    assert read(alias, **fields) == read(kind, **fields)
    assert TYPE_ALIASES[alias] == kind


FIELD_ALIASES = [
    (APPEND, "audio", "delta", "AAAA"),
    (APPEND, "format", "input_audio_format", "g711_ulaw"),
    (APPEND, "sample_rate_hz", "sample_rate", 8000),
    (APPEND, "is_speech", "speech", True),
    (APPEND, "duration_ms", "audio_duration_ms", 20),
    (APPEND, "overlap_action", "overlap", "ack"),
    (APPEND, "transcript", "text", "yes"),
    ("input_audio_buffer.commit", "response_create", "create_response", True),
]


@pytest.mark.parametrize(("kind", "name", "alias", "value"), FIELD_ALIASES)
def test_aliases_of_fields(kind, name, alias, value):
    other = {} if name == "audio" or kind != APPEND else {"audio": "AAEC"}
    command = read(kind, **{name: value, **other})
    assert read(kind, **{alias: value, **other}) == command
    assert read(kind, **{name: None, alias: value, **other}) == command
    assert read(kind, **{alias: 12345, name: value, **other}) == command, "the first name wins"
    without = other or {"video_frames": [b64(JPEG)]}
    assert command != read(kind, **without)


@pytest.mark.parametrize("command", [command for _, _, command in READ], ids=lambda command: command.type)
def test_written_commands_read_back(command):
    assert decode_command(encode_command(command)) == command


def test_written_append_is_flat_and_short():
    command = AppendAudio(audio=b"\0\1\2", sample_rate_hz=16000, hints=AppendHints(is_speech=True))
    assert orjson.loads(encode_command(command)) == {
        "type": APPEND,
        "audio": "AAEC",
        "sample_rate_hz": 16000,
        "is_speech": True,
    }


def test_secrets_are_not_in_the_repr():
    assert "hush" not in repr(read("session.resume", session_id="s", resume_token="hush"))
