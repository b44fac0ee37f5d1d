"""Messages of a video that runs: the rows of video.md 3.3 that are about reading them, in its order."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest

from duplex_trio.protocol.video import (
    MESSAGE_BYTES_MAX,
    SessionInteraction,
    SessionPing,
    SessionPlayback,
    SessionStop,
    VideoErrorEvent,
    VideoRefused,
    decode_command,
    payload_digest,
)

Fault = tuple[str, str | None, str | None]
LONE = "\ud800"


def fault(text: str) -> Fault:
    """Code, param and event id of the answer."""
    with pytest.raises(VideoRefused) as caught:
        decode_command(text)
    assert caught.value.message
    return caught.value.code, caught.value.param, caught.value.event_id


def interaction(**fields: Any) -> str:
    return json.dumps({"type": "session.interaction", "interaction": fields})


def update(**fields: Any) -> str:
    return interaction(**{"event_id": "a", "event": {"prompt": "x"}, **fields})


def read(text: str) -> SessionInteraction:
    command = decode_command(text)
    assert isinstance(command, SessionInteraction)
    return command


def nested(depth: int) -> str:
    """A ping that is so deep, itself counted."""
    return '{"type":"session.ping","k":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


@pytest.mark.parametrize(
    ("text", "code", "param"),
    [
        ("", "invalid_json", None),
        ("{", "invalid_json", None),
        ("{'type':'session.ping'}", "invalid_json", None),
        ('{"type":"session.ping"} {}', "invalid_json", None),
        ('\ufeff{"type":"session.ping"}', "invalid_json", None),
        ('{"type":"session.ping","k":NaN}', "invalid_json", None),
        ('{"type":"session.ping","k":Infinity}', "invalid_json", None),
        ('{"type":"session.ping","k":-Infinity}', "invalid_json", None),
        ('{"type":"session.ping","k":1e999}', "invalid_json", None),
        ('{"type":"session.ping","k":"\x01"}', "invalid_json", None),
        # These are read by the second reader, which is as strict.
        ('{"type":"session.ping","k":NaN,"s":"\\ud800"}', "invalid_json", None),
        ('{"type":"session.ping","k":-Infinity,"s":"\\uDFFF"}', "invalid_json", None),
        ('{"type":"session.ping","k":1e999,"s":"\\ud800"}', "invalid_json", None),
        ('{"type":"session.ping","s":"\\ud800"', "invalid_json", None),
        ('{"s":"\\ud800","k":' + "[" * 100_000, "invalid_json", None),
        ('{"s":"\\ud800","k":' + "[" * 33 + "]" * 33 + "}", "invalid_json", None),
        ('{"s":"\\ud800","k":' + "9" * 5000 + "}", "invalid_json", None),
        ('{"s":"\\ud800","k":' + "9" * 400 + "}", "invalid_json", None),
        ("[" * 60_000 + "]" * 60_000, "invalid_json", None),
        (nested(33), "invalid_json", None),
        (nested(900), "invalid_json", None),
        ("[" * 33 + "]" * 33, "invalid_json", None),
        ("[]", "invalid_message", None),
        ("null", "invalid_message", None),
        ("1", "invalid_message", None),
        ('"session.ping"', "invalid_message", None),
        ("{}", "invalid_message", "type"),
        ('{"type":null}', "invalid_message", "type"),
        ('{"type":1}', "invalid_message", "type"),
        ('{"type":["session.ping"]}', "invalid_message", "type"),
        ('{"type":""}', "unknown_type", "type"),
        ('{"type":"session.Ping"}', "unknown_type", "type"),
        ('{"type":"video.start"}', "unknown_type", "type"),
        ('{"type":"\\ud800"}', "unknown_type", "type"),
        ('{"type":"session.start","prompt":"x"}', "session_already_started", None),
        ('{"type":"session.start"}', "session_already_started", None),
        ('{"type":"session.interaction"}', "invalid_interaction", "interaction"),
        ('{"type":"session.interaction","interaction":null}', "invalid_interaction", "interaction"),
        ('{"type":"session.interaction","interaction":"x"}', "invalid_interaction", "interaction"),
        ('{"type":"session.interaction","interaction":[{}]}', "invalid_interaction", "interaction"),
    ],
)
def test_a_message_at_fault(text: str, code: str, param: str | None) -> None:
    assert fault(text) == (code, param, None)


@pytest.mark.parametrize("event_id", ["", "x" * 129, 1, 1.5, True, [], {}, LONE, f"a{LONE}b"])
def test_an_id_is_a_string_of_1_to_128_characters(event_id: object) -> None:
    """Whatever else is wrong, and no id is told."""
    assert fault(interaction(event_id=event_id)) == ("invalid_interaction", "interaction.event_id", None)


@pytest.mark.parametrize("event_id", ["a", "x" * 128, "\U0001f600" * 128, " ", "\x00", "id \u00e9"])
def test_any_other_id_is_taken_as_it_is(event_id: str) -> None:
    assert read(update(event_id=event_id)).event_id == event_id


def test_an_id_that_is_null_is_none() -> None:
    """The server makes one for it."""
    assert read(update(event_id=None)).event_id is None
    assert read(interaction(event={"prompt": "x"})).event_id is None


@pytest.mark.parametrize("event", [None, "x", 1, [], [{"prompt": "x"}]])
def test_an_event_is_an_object(event: object) -> None:
    told = ("invalid_interaction", "interaction.event", "a")
    assert fault(interaction(event_id="a", event=event, transition_chunks=-1)) == told
    assert fault(interaction(event_id="a")) == told


@pytest.mark.parametrize(
    "event",
    [
        {},
        *(
            {"prompt": prompt}
            for prompt in (None, "", " \t\n", "\u3000", 1, True, ["x"], {}, "x" * 4097, LONE, f"x{LONE}")
        ),
    ],
)
def test_a_prompt_says_something_that_can_be_said(event: Mapping[str, object]) -> None:
    told = ("invalid_interaction", "interaction.event.prompt", "a")
    assert fault(interaction(event_id="a", event=event, transition_chunks=-1)) == told


@pytest.mark.parametrize("prompt", ["x", " x ", "x" * 4096, "\U0001f600" * 4096, "\u0000x", "\u202e"])
def test_any_other_prompt_is_taken_as_it_is(prompt: str) -> None:
    assert read(update(event={"prompt": prompt})).event == {"prompt": prompt}


@pytest.mark.parametrize(
    "chunks", [True, False, "3", "", 0.5, 2.999, -1, -0.5, 10_001, 10_001.0, 1e300, 2**70, [], {}, [3]]
)
def test_a_transition_is_a_number_of_chunks(chunks: object) -> None:
    told = ("invalid_interaction", "interaction.transition_chunks", "a")
    assert fault(update(transition_chunks=chunks)) == told


@pytest.mark.parametrize(
    ("chunks", "read_as"),
    [(None, None), (0, 0), (-0.0, 0), (3, 3), (3.0, 3), (1, 1), (10_000, 10_000), (1e4, 10_000)],
)
def test_any_other_transition_is_a_whole_number(chunks: object, read_as: int | None) -> None:
    found = read(update(transition_chunks=chunks)).transition_chunks
    assert (found, type(found)) == (read_as, type(read_as))
    assert read(update()).transition_chunks is None


def test_faults_are_told_in_the_order_of_the_chapter() -> None:
    """Shape, id, event, prompt, transition: each is told only once those before it are right."""
    wrong: dict[str, Any] = {"event_id": "", "event": 1, "transition_chunks": -1}
    told = [fault(interaction(**wrong))]
    for name, value in (("event_id", "a"), ("event", {"prompt": " "}), ("event", {"prompt": "x"})):
        wrong[name] = value
        told.append(fault(interaction(**wrong)))
    assert [(param, event_id) for _, param, event_id in told] == [
        ("interaction.event_id", None),
        ("interaction.event", "a"),
        ("interaction.event.prompt", "a"),
        ("interaction.transition_chunks", "a"),
    ]


def test_what_else_is_in_an_event_is_for_the_model() -> None:
    """As it was sent. What is beside the event is not for anybody."""
    event = {"prompt": "x", "negative_prompt": None, "multi_modal_data": {"k": [1, {}]}, "other": LONE}
    command = read(update(event=event, prompt="y", k={"event": 1}))
    assert command == SessionInteraction(event_id="a", event=event, transition_chunks=None)


def test_of_a_key_that_is_there_twice_the_last_one_counts() -> None:
    """With either reader."""
    text = '{"type":"session.interaction","interaction":{"event":{"prompt":"x","prompt":"y"KEY}}}'
    assert read(text.replace("KEY", "")).event["prompt"] == "y"
    assert read(text.replace("KEY", ',"k":"\\udc00"')).event["prompt"] == "y"


def test_a_message_is_nested_32_deep() -> None:
    assert decode_command(nested(32)) == SessionPing()


def test_brackets_in_a_string_are_no_nesting() -> None:
    assert read(update(event={"prompt": "[" * 4000})).event["prompt"] == "[" * 4000


@pytest.mark.parametrize("character", ["x", "\u00e9", "\u20ac", "\U0001f600", LONE])
def test_a_message_has_128_kib_of_utf_8(character: str) -> None:
    """Half a surrogate pair counts as what it would be if it could be."""
    frame = '{"type":"session.ping","k":""}'
    room = MESSAGE_BYTES_MAX - len(frame)
    width = len(character.encode("utf-8", "surrogatepass"))
    text = frame[:-2] + character * (room // width) + "x" * (room % width) + frame[-2:]
    assert len(text.encode("utf-8", "surrogatepass")) == MESSAGE_BYTES_MAX == 131_072
    assert decode_command(text) == SessionPing()
    assert fault(text + " ") == ("message_too_large", None, None)


def test_the_other_commands() -> None:
    assert decode_command('{"type":"session.ping","k":1}') == SessionPing()
    assert decode_command(' {"type":"session.stop"}\n') == SessionStop()
    assert decode_command('{"type":"session.playback","position_seconds":2}') == SessionPlayback(
        position_seconds=2.0
    )
    assert decode_command('{"type":"session.playback","position_seconds":1e300}')


@pytest.mark.parametrize("position", ["null", "-0.001", "-1", '"1"', "true", "[]", "{}"])
def test_a_position_is_a_time_from_the_start(position: str) -> None:
    told = ("invalid_message", "position_seconds", None)
    assert fault(f'{{"type":"session.playback","position_seconds":{position}}}') == told
    assert fault('{"type":"session.playback"}') == told


def test_a_number_that_no_float_holds_is_no_position() -> None:
    assert fault('{"type":"session.playback","position_seconds":' + "9" * 400 + "}")[0] in (
        "invalid_json",
        "invalid_message",
    )


def test_a_message_says_what_it_is_in_words_that_can_be_sent() -> None:
    """However long a type is, and whatever is in it."""
    with pytest.raises(VideoRefused) as caught:
        decode_command(json.dumps({"type": LONE * 10_000}))
    assert len(caught.value.message.encode()) < 600


def test_a_refusal_is_an_event() -> None:
    refused = VideoRefused("invalid_interaction", "Wrong.", param="interaction", event_id="a")
    assert refused.as_event("r") == VideoErrorEvent(
        code="invalid_interaction", message="Wrong.", param="interaction", request_id="r", event_id="a"
    )
    assert refused.as_event(None).request_id is None
    assert refused.with_event_id("b").event_id == "b"
    assert str(refused) == "invalid_interaction: Wrong."


def digest(event: Mapping[str, Any], chunks: int | None = None, event_id: str | None = "a") -> bytes:
    return payload_digest(SessionInteraction(event_id=event_id, event=event, transition_chunks=chunks))


def test_two_interactions_are_the_same_if_they_want_the_same() -> None:
    """Whoever names them, in whatever order their keys are, however a whole number is written."""
    event = {"prompt": "x", "k": {"a": 1, "b": [2, 3.5]}}
    other = {"k": {"b": [2.0, 3.5], "a": 1.0}, "prompt": "x"}
    assert digest(event, 3) == digest(other, 3, "b")
    assert len(digest(event)) == 32


@pytest.mark.parametrize("beside", ["", "v1.0", LONE])
@pytest.mark.parametrize(("number", "same"), [(0, -0.0), (3, 3.0), (1000, 1e3), (2**53, float(2**53))])
def test_a_whole_number_is_the_same_beside_anything(beside: str, number: int, same: float) -> None:
    event = {"prompt": "x", "beside": beside, "k": {"b": [number], "a": number}}
    assert digest(event) == digest({"k": {"a": same, "b": [same]}, "beside": beside, "prompt": "x"})


DIFFERENT: list[tuple[Mapping[str, Any], int | None]] = [
    ({"prompt": "x"}, None),
    ({"prompt": "x"}, 0),
    ({"prompt": "x"}, 3),
    ({"prompt": "x "}, None),
    ({"prompt": "X"}, None),
    ({"prompt": "\u00e9"}, None),
    ({"prompt": "e\u0301"}, None),
    ({"prompt": "x", "k": None}, None),
    ({"prompt": "x", "k": 1}, None),
    ({"prompt": "x", "k": True}, None),
    ({"prompt": "x", "k": "1"}, None),
    ({"prompt": "x", "k": [1, 2]}, None),
    ({"prompt": "x", "k": [2, 1]}, None),
    ({"prompt": "x", "k": 1.5}, None),
    ({"prompt": "x", "k": LONE}, None),
    ({"prompt": "x", "k": "\\ud800"}, None),
    ({"prompt": "x", "k": "v1.0"}, None),
    ({"prompt": "x", "k": "v1"}, None),
    ({"prompt": "x", "k": 1e300}, None),
    ({"prompt": "x", "k": math.nextafter(1e300, math.inf)}, None),
]


@pytest.mark.parametrize(("event", "chunks"), DIFFERENT)
def test_any_other_difference_counts(event: Mapping[str, Any], chunks: int | None) -> None:
    """An omitted transition is another one than the default spelt out, and text is compared as it is."""
    same = [number for number, case in enumerate(DIFFERENT) if digest(*case) == digest(event, chunks)]
    assert len(same) == 1
