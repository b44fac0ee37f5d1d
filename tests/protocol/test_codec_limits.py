"""Turn signals that stand for commands, and the bounds of a message."""

import orjson
import pytest

from duplex_trio.protocol.duplex import (
    COMMAND_CLASSES,
    MAX_DEPTH,
    MAX_MESSAGE_BYTES,
    SIGNALLED_COMMANDS,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearOutputAudio,
    CloseSession,
    CreateItem,
    DeleteItem,
    InputTextPart,
    MessageItem,
    RealtimeError,
    RetrieveItem,
    SignalTurn,
    TruncateItem,
    UpdateSession,
    check_message_size,
    decode_command,
    resolve_signal,
)

APPEND = "input_audio_buffer.append"
CREATE = "conversation.item.create"
HELLO = {"type": "input_text", "text": "hello"}


def read(kind, **fields):
    return decode_command(orjson.dumps({"type": kind, **fields}))


def refused(kind, **fields):
    with pytest.raises(RealtimeError) as caught:
        read(kind, event_id="mine", **fields)
    assert caught.value.event_id == "mine"
    return caught.value.code, caught.value.param


class TestSignals:
    @pytest.mark.parametrize(
        ("event", "payload", "command"),
        [
            ("input.cancel", {}, CancelInput()),
            ("barge_in", {}, BargeIn()),
            ("response.cancel", {"response_id": "r"}, CancelResponse(response_id="r")),
            ("session.update", {"voice": "v"}, UpdateSession(patch={"voice": "v"})),
            (
                CREATE,
                {"item": {"content": [HELLO]}},
                CreateItem(item=MessageItem(role="user", content=(InputTextPart("hello"),))),
            ),
            ("conversation.item.delete", {"item_id": "i"}, DeleteItem(item_id="i")),
            ("conversation.item.retrieve", {"item_id": "i"}, RetrieveItem(item_id="i")),
            (
                "conversation.item.truncate",
                {"item_id": "i", "audio_end_ms": 5},
                TruncateItem(item_id="i", audio_end_ms=5),
            ),
            ("output_audio_buffer.clear", {}, ClearOutputAudio()),
            ("close", {}, CloseSession()),
            ("close", {"reason": "bye"}, CloseSession(reason="bye")),
            ("timeout", {"reason": "ignored"}, CloseSession(reason="timeout")),
            ("playback_ack", {"played_ms": 5}, SignalTurn(event="playback_ack", payload={"played_ms": 5})),
        ],
    )
    def test_stand_for_commands(self, event, payload, command):
        assert read("turn.signal", event=event, payload=payload) == command
        assert resolve_signal(SignalTurn(event=event, payload=payload)) == command

    def test_all_are_known(self):
        assert set(COMMAND_CLASSES) >= SIGNALLED_COMMANDS

    def test_keep_the_event_id(self):
        assert read("turn.signal", event="barge_in", event_id="mine").event_id == "mine"
        payload = {"type": "session.close", "event_id": "theirs"}
        assert read("turn.signal", event="barge_in", event_id="mine", payload=payload) == BargeIn(
            event_id="mine"
        )

    def test_name_the_field_in_the_payload(self):
        fault = refused("turn.signal", event="conversation.item.delete")
        assert fault == ("missing_item_id", "payload.item_id")
        assert refused("turn.signal", event=CREATE, payload={"item": {"content": [5]}}) == (
            "invalid_value",
            "payload.item.content[0]",
        )

    def test_resolved_in_process_echo_the_event_id(self):
        with pytest.raises(RealtimeError) as caught:
            resolve_signal(SignalTurn(event="conversation.item.delete", event_id="mine"))
        assert caught.value.event_id == "mine"


class TestLimits:
    def test_size(self):
        check_message_size("x" * MAX_MESSAGE_BYTES)
        check_message_size(b"x" * MAX_MESSAGE_BYTES)
        for large in (
            "x" * (MAX_MESSAGE_BYTES + 1),
            "é" * (MAX_MESSAGE_BYTES // 2 + 1),
            b"x" * (MAX_MESSAGE_BYTES + 1),
        ):
            with pytest.raises(RealtimeError, match="event_too_large"):
                decode_command(large)

    def nested(self, depth):
        value = []
        for _ in range(depth - 1):
            value = [value]
        return value

    @pytest.mark.parametrize("kind", ["session.update", "turn.signal"])
    def test_depth(self, kind):
        # The message is one level, the session or payload another.
        inside = {"x": self.nested(MAX_DEPTH - 2)}
        read(kind, session=inside, payload=inside, event="x")
        inside = {"x": self.nested(MAX_DEPTH - 1)}
        assert refused(kind, session=inside, payload=inside, event="x") == ("bad_event", None)

    def test_depth_of_an_append(self):
        assert refused(APPEND, audio="AAAA", vad={"x": self.nested(200)}) == ("bad_event", None)

    def test_many_brackets_are_not_depth(self):
        patch = {"instructions": "{[" * 1000, "list": [[], {}] * 1000}
        assert read("session.update", session=patch) == UpdateSession(patch=patch)
