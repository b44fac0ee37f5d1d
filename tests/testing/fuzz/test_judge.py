"""The judge of fuzzing finds what it is there to find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from duplex_trio.testing.fuzz.judge import BadAnswer, Judge, check_session_streams, read
from duplex_trio.testing.fuzz.scene import Received
from duplex_trio.testing.stream_rules import StreamRuleBroken

TRUNCATE = {"type": "conversation.item.truncate", "event_id": "mine", "item_id": "a", "audio_end_ms": "5"}


def judge_of(message: Mapping[str, Any]) -> Judge:
    judge = Judge()
    judge.say(read(orjson.dumps(message).decode()), opening=False)
    return judge


def answer(**changes: Any) -> list[Received]:
    error = {
        "type": "invalid_request_error",
        "code": "bad_event",
        "message": "wrong",
        "param": "audio_end_ms",
        "event_id": "mine",
    }
    return [Received(0, {"type": "error", "event_id": "event_1", "error": error | changes})]


def test_the_right_answer_passes() -> None:
    judge = judge_of(TRUNCATE)
    judge.look_at(answer())
    judge.check_settled()


def test_no_answer_is_found() -> None:
    judge = judge_of(TRUNCATE)
    judge.look_at(answer(code="item_not_found", param="item_id"))
    with pytest.raises(BadAnswer, match="not refused"):
        judge.check_settled()


@pytest.mark.parametrize(
    "changes",
    [{"code": "no_such_code"}, {"type": "server_error"}, {"message": ""}, {"event_id": "another"}, {"param": "b.c"}],
)  # fmt: skip
def test_a_wrong_answer_is_found(changes: dict[str, Any]) -> None:
    with pytest.raises(BadAnswer):
        judge_of(TRUNCATE).look_at(answer(**changes))


@pytest.mark.parametrize(
    ("message", "param"),
    [
        (
            {"type": "session.update", "session": {"audio": {"output": {"speed": 9}}}},
            "session.audio.output.speed",
        ),
        ({"type": "session.update", "voice": 5}, "session.voice"),
        ({"type": "turn.signal", "payload": {"item": {"content": [{}]}}}, "item.content[0].text"),
        ({"type": "response.create", "response": {"response_format": ""}}, "response.audio.output.format"),
        ({"type": "barge_in"}, "item_id"),
    ],
)
def test_a_place_may_be_named_in_these_ways(message: dict[str, Any], param: str) -> None:
    judge_of(message | {"event_id": "mine"}).look_at(answer(param=param))


def test_a_stream_that_breaks_a_rule_is_found() -> None:
    created = {"type": "session.created", "event_id": "1", "session": {"id": "s"}}
    twice = [
        Received(0, created),
        Received(0, {"type": "input_audio_buffer.cleared", "event_id": "2", "server_event_seq": 1}),
        Received(0, {"type": "input_audio_buffer.cleared", "event_id": "2", "server_event_seq": 2}),
    ]
    check_session_streams(twice[:2])
    with pytest.raises(StreamRuleBroken):
        check_session_streams(twice)


def test_what_is_replayed_counts_once() -> None:
    cleared = {"type": "input_audio_buffer.cleared", "event_id": "2", "server_event_seq": 1}
    check_session_streams(
        [
            Received(0, {"type": "session.created", "event_id": "1", "session": {"id": "s"}}),
            Received(0, cleared),
            Received(1, {"type": "session.resumed", "event_id": "3", "session_id": "s", "session": {"id": "s"}}),
            Received(1, cleared),
        ]
    )  # fmt: skip
