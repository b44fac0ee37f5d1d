"""Messages written and read back, and whatever text there is."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duplex_trio.protocol.video import (
    VIDEO_COMMAND_CLASSES,
    VIDEO_EVENT_CLASSES,
    InteractionOutcome,
    InteractionQueued,
    PayloadKind,
    SessionDone,
    SessionInteraction,
    SessionPing,
    SessionPlayback,
    SessionPong,
    SessionStart,
    SessionStop,
    VideoChunkMetadata,
    VideoCommand,
    VideoErrorEvent,
    VideoEvent,
    VideoFormat,
    VideoRefused,
    VideoStarted,
    decode_command,
    decode_event,
    decode_start,
    encode_command,
    encode_event,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = texts.filter(bool)
counts = st.integers(0, 2**53)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=4)
prompts = texts.filter(str.strip)
ids = st.tuples() | st.lists(names, max_size=3).map(tuple)


def words(kind: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(get_args(kind))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


starts = st.builds(
    SessionStart,
    prompt=prompts,
    model=maybe(texts),
    width=maybe(st.integers(1, 4096)),
    height=maybe(st.integers(1, 4096)),
    num_frames=maybe(st.integers(1, 2**53)),
    seconds=maybe(st.floats(0.001, 1e6)),
    fps=maybe(st.floats(1, 60)),
    seed=maybe(st.integers(-(2**63), 2**63 - 1)),
    num_inference_steps=maybe(st.integers(1, 200)),
    guidance_scale=maybe(st.floats(0, 20)),
    negative_prompt=maybe(texts),
    extra_params=objects,
    lora=maybe(objects),
    image_reference=values,
    format=words(VideoFormat),
    streaming_buffer_seconds=maybe(st.floats(0, 3600)),
)
commands = st.one_of(
    st.builds(
        SessionInteraction,
        event_id=maybe(names),
        event=st.builds(lambda event, prompt: {**event, "prompt": prompt}, objects, prompts),
        transition_chunks=maybe(st.integers(0, 10_000)),
    ),
    st.builds(SessionPing),
    st.builds(SessionStop),
    st.builds(SessionPlayback, position_seconds=st.floats(0, 1e9)),
)
events: st.SearchStrategy[VideoEvent] = st.one_of(
    st.builds(
        VideoStarted,
        request_id=texts,
        format=words(VideoFormat),
        mime_type=texts,
        config=objects,
        chunk_frames=counts,
        default_transition_chunks=counts,
        supports_interaction=st.booleans(),
    ),
    st.builds(
        VideoChunkMetadata,
        request_id=texts,
        kind=words(PayloadKind),
        transport_chunk_index=counts,
        generation_chunk_index=maybe(counts),
        num_frames=counts,
        byte_length=counts,
        started_event_ids=ids,
        active_event_ids=ids,
        completed_event_ids=ids,
    ),
    st.builds(InteractionQueued, request_id=texts, event_id=texts),
    st.builds(SessionPong),
    st.builds(
        SessionDone,
        request_id=texts,
        chunks=counts,
        stopped=st.booleans(),
        frames=counts,
        interactions=st.dictionaries(texts, words(InteractionOutcome), max_size=3),
    ),
    st.builds(
        VideoErrorEvent,
        code=texts,
        message=texts,
        param=maybe(texts),
        request_id=maybe(texts),
        event_id=maybe(texts),
    ),
)


@pytest.mark.slow
@given(starts)
@example(SessionStart(prompt="x", image_reference=False, streaming_buffer_seconds=None))
def test_a_start_comes_back(start: SessionStart) -> None:
    assert decode_start(encode_command(start).decode()) == start


@given(commands)
def test_a_command_comes_back(command: VideoCommand) -> None:
    assert decode_command(encode_command(command).decode()) == command


@given(events)
def test_an_event_comes_back(event: VideoEvent) -> None:
    """As bytes and as text."""
    encoded = encode_event(event)
    assert decode_event(encoded) == decode_event(encoded.decode()) == event


def test_every_message_has_its_class() -> None:
    assert set(VIDEO_COMMAND_CLASSES) == {
        "session.start", "session.interaction", "session.ping", "session.stop", "session.playback",
    }  # fmt: skip
    assert set(VIDEO_EVENT_CLASSES) == {
        "video.start", "video.chunk_metadata", "session.interaction.queued", "session.pong", "session.done",
        "error",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("message", "written"),
    [
        (SessionPing(), {"type": "session.ping"}),
        (SessionStart(prompt="x"), {"type": "session.start", "prompt": "x"}),
        (
            SessionStart(prompt="x", width=64, streaming_buffer_seconds=None),
            {"type": "session.start", "prompt": "x", "width": 64, "streaming_buffer_seconds": None},
        ),
        (
            SessionInteraction(event_id=None, event={"prompt": "x"}, transition_chunks=None),
            {"type": "session.interaction", "interaction": {"event": {"prompt": "x"}}},
        ),
        (
            SessionInteraction(event_id="a", event={"prompt": "x", "k": None}, transition_chunks=0),
            {
                "type": "session.interaction",
                "interaction": {"event_id": "a", "event": {"prompt": "x", "k": None}, "transition_chunks": 0},
            },
        ),
        (
            VideoChunkMetadata(
                request_id="r",
                kind="trailer",
                transport_chunk_index=3,
                generation_chunk_index=None,
                num_frames=0,
                byte_length=7,
            ),
            {
                "type": "video.chunk_metadata",
                "request_id": "r",
                "kind": "trailer",
                "transport_chunk_index": 3,
                "generation_chunk_index": None,
                "num_frames": 0,
                "byte_length": 7,
                "started_event_ids": [],
                "active_event_ids": [],
                "completed_event_ids": [],
            },
        ),
        (
            VideoErrorEvent(code="interaction_failed", message="No.", request_id="r", event_id="a"),
            {
                "type": "error",
                "code": "interaction_failed",
                "message": "No.",
                "request_id": "r",
                "event_id": "a",
            },
        ),
        (VideoErrorEvent(code="c", message="m"), {"type": "error", "code": "c", "message": "m"}),
        (
            SessionDone(request_id="r", chunks=4, stopped=False, frames=20, interactions={"a": "completed"}),
            {
                "type": "session.done",
                "request_id": "r",
                "chunks": 4,
                "stopped": False,
                "frames": 20,
                "interactions": {"a": "completed"},
            },
        ),
    ],
    ids=lambda value: value.type if hasattr(value, "type") else "",
)
def test_what_goes_over_the_wire(message: Any, written: Mapping[str, Any]) -> None:
    """Nothing of a command that says nothing, every field of an event, and of an error what there is to say."""
    encode = encode_command if message.type in VIDEO_COMMAND_CLASSES else encode_event
    assert json.loads(encode(message)) == written


def test_mappings_of_any_kind_are_written() -> None:
    """At any depth of a configuration."""
    inner = MappingProxyType({"k": MappingProxyType({"l": 1})})
    started = VideoStarted(
        request_id="r",
        format="m4s",
        mime_type="video/mp4",
        config=MappingProxyType({"extra_params": inner}),
        chunk_frames=9,
        default_transition_chunks=3,
        supports_interaction=True,
    )
    assert json.loads(encode_event(started))["config"] == {"extra_params": {"k": {"l": 1}}}


def test_what_json_cannot_say_is_not_sent() -> None:
    with pytest.raises(TypeError):
        encode_command(SessionInteraction(event_id="a", event={"prompt": object()}, transition_chunks=None))


@pytest.mark.parametrize(
    "command",
    [
        SessionStart(prompt="x", fps=math.nan),
        SessionStart(prompt="x", streaming_buffer_seconds=math.inf),
        SessionPlayback(position_seconds=-math.inf),
    ],
)
def test_a_number_that_json_does_not_know_is_not_sent_as_none(command: VideoCommand) -> None:
    with pytest.raises(ValueError, match="no number of JSON"):
        encode_command(command)


DONE: Mapping[str, Any] = {
    "type": "session.done",
    "request_id": "r",
    "chunks": 1,
    "stopped": False,
    "frames": 9,
    "interactions": {},
}


PAIR: Mapping[str, Any] = {
    "type": "video.chunk_metadata",
    "request_id": "r",
    "kind": "media",
    "transport_chunk_index": 0,
    "generation_chunk_index": 0,
    "num_frames": 9,
    "byte_length": 1,
}


@pytest.mark.parametrize(
    ("text", "code", "param"),
    [
        ("", "invalid_json", None),
        ("[]", "invalid_message", None),
        ("{}", "invalid_message", "type"),
        ('{"type":"session.ping"}', "unknown_type", "type"),
        ('{"type":"session.interaction.queued","request_id":"r"}', "invalid_message", "event_id"),
        (json.dumps({**DONE, "chunks": True}), "invalid_message", None),
        (json.dumps({**DONE, "chunks": "1"}), "invalid_message", None),
        (json.dumps({**DONE, "stopped": 0}), "invalid_message", None),
        (json.dumps({**DONE, "request_id": 1}), "invalid_message", None),
        (json.dumps({**DONE, "interactions": []}), "invalid_message", None),
        (json.dumps({**DONE, "interactions": {"a": "lost"}}), "invalid_message", None),
        (json.dumps({**DONE, "interactions": {"a": ["completed"]}}), "invalid_message", None),
        (json.dumps({**PAIR, "active_event_ids": "ab"}), "invalid_message", None),
        (json.dumps({**PAIR, "active_event_ids": [1]}), "invalid_message", None),
        (json.dumps({**PAIR, "generation_chunk_index": 0.5}), "invalid_message", None),
        (json.dumps({**PAIR, "kind": "sound"}), "invalid_message", None),
    ],
)
def test_an_event_at_fault(text: str, code: str, param: str | None) -> None:
    """A client is told of it by the same exception."""
    with pytest.raises(VideoRefused) as caught:
        decode_event(text)
    assert (caught.value.code, caught.value.param) == (code, param)


def test_a_client_ignores_what_it_does_not_know() -> None:
    assert isinstance(decode_event(json.dumps(PAIR)), VideoChunkMetadata)
    event = decode_event(json.dumps({**DONE, "something": 1}))
    assert event == SessionDone(request_id="r", chunks=1, stopped=False, frames=9, interactions={})


odd_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["\ud800", "x", "", "4", "512x512", "m4s", "r"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                sorted(
                    {
                        "type",
                        "interaction",
                        "event_id",
                        "event",
                        "prompt",
                        "transition_chunks",
                        "position_seconds",
                    }
                    | {"size", "video_params", "width", "seed", "fps", "seconds", "sampling_params", "format"}
                    | {
                        "extra_params",
                        "lora",
                        "request_id",
                        "chunks",
                        "interactions",
                        "num_frames",
                        "kind",
                        "k",
                    }
                )
            )
            | st.text(string.printable, max_size=4),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
typed = st.builds(
    lambda kind, fields: {**fields, "type": kind} if isinstance(fields, dict) else fields,
    st.sampled_from([*VIDEO_COMMAND_CLASSES, *VIDEO_EVENT_CLASSES, "other"]),
    odd_json,
)
any_text = (
    st.text(max_size=200)
    | st.builds(json.dumps, typed)
    | st.builds(lambda value, cut: json.dumps(value, ensure_ascii=False)[:cut], typed, st.integers(0, 80))
)


@pytest.mark.slow
@given(any_text)
@example('{"type":"session.interaction","interaction":{"event":{"prompt":"\ud800"}}}')
@example('{"type":"session.start","prompt":"\\ud800"}')
@example('{"\\ud800":' + "9" * 4301 + "}")
def test_any_text_is_a_message_or_a_refusal(text: str) -> None:
    """Each decoder knows no other way; and what it refuses, it refuses in words that can be sent."""
    for decode in (decode_start, decode_command, decode_event):
        try:
            message = decode(text)
        except VideoRefused as refused:
            encode_event(refused.as_event(None))
        else:
            assert message.type in {**VIDEO_COMMAND_CLASSES, **VIDEO_EVENT_CLASSES}


def test_an_error_in_the_envelope_of_websockets_that_lead_nowhere() -> None:
    """As a server answers that serves no video."""
    told = '{"type":"error","event_id":"event_1","error":{"type":"invalid_request_error","code":"c","message":"m"}}'
    assert decode_event(told) == VideoErrorEvent(code="c", message="m")
    for empty in (
        '{"type":"error","error":{}}',
        '{"type":"error","error":"x"}',
        '{"type":"error","error":null}',
    ):
        with pytest.raises(VideoRefused, match="code is missing"):
            decode_event(empty)
