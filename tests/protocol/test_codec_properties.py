"""What must hold for any input: one kind of exception, and two readers of an append that never differ."""

import base64
import contextlib

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import (
    COMMAND_CLASSES,
    TYPE_ALIASES,
    AppendAudio,
    AppendHints,
    ConversationItemAdded,
    CreateItem,
    ErrorEvent,
    RealtimeError,
    decode_command,
    encode_command,
)
from duplex_trio.protocol.duplex.append import check_append, read_append
from duplex_trio.protocol.duplex.structure import fields_of, make_wire_converter
from duplex_trio.protocol.realtime.response_options import ResponseCreateOptions
from duplex_trio.testing.pictures import JPEG

GENERIC = make_wire_converter(detailed=True)

TYPES = sorted({*COMMAND_CLASSES, *TYPE_ALIASES})
KEYS = sorted(
    {
        key
        for cls in (*COMMAND_CLASSES.values(), AppendHints, ResponseCreateOptions)
        for name, how in fields_of(cls).items()
        for key in (how.name or name, *how.aliases)
    }
    | {
        "role",
        "content",
        "type",
        "id",
        "text",
        "data",
        "transcript",
        "image_url",
        "call_id",
        "name",
        "arguments",
    }
)
WORDS = [
    "user",
    "assistant",
    "input_text",
    "input_audio",
    "message",
    "function_call_output",
    "inf",
    "AAAA",
    "AAA",
]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS + TYPES)
    | st.text(max_size=6)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)

PLAUSIBLE = {
    **dict.fromkeys(
        ("audio", "delta"), st.binary(max_size=8).map(lambda data: base64.b64encode(data).decode())
    ),
    **dict.fromkeys(("format", "input_audio_format"), st.sampled_from(["pcm16", {"type": "audio/pcm"}])),
    **dict.fromkeys(("sample_rate_hz", "sample_rate"), st.sampled_from([0, 8000, 24000, 48000.0])),
    **dict.fromkeys(
        (
            "is_speech",
            "speech",
            "force_listen",
            "force_barge_in",
            "final",
            "response_create",
            "create_response",
        ),
        st.booleans(),
    ),
    **dict.fromkeys(
        (
            "speech_probability",
            "duration_ms",
            "audio_duration_ms",
            "audio_start_ms",
            "audio_end_ms",
            "played_ms",
        ),
        st.integers(-1, 9) | st.floats(0, 9),
    ),
    **dict.fromkeys(
        (
            "overlap_action",
            "overlap",
            "text",
            "transcript",
            "item_id",
            "event",
            "session_id",
            "resume_token",
            "event_id",
            "previous_item_id",
            "response_id",
            "reason",
        ),
        st.text(min_size=1, max_size=4),
    ),
    "video_frames": st.just([base64.b64encode(JPEG).decode()]),
    "max_slice_nums": st.sampled_from([1, 1.0, 2]),
    "vad": st.just({"is_speech": True}),
    "server_event_seq": st.integers(0, 9),
    "response": st.fixed_dictionaries(
        {},
        optional={
            "instructions": st.text(max_size=4),
            "modalities": st.just(["text"]),
            "max_tokens": st.sampled_from(["inf", 5, 0]),
            "metadata": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
            "audio": st.just({"output": {"voice": "v", "format": "pcm16"}}),
        },
    ),
    "item": st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "system", "assistant"]),
            "content": st.lists(
                st.sampled_from(
                    [
                        {"type": "input_text", "text": "a"},
                        {"type": "input_audio", "audio": "AAAA", "transcript": "b", "sample_rate_hz": 8000},
                        {"type": "text", "text": "c"},
                        {"type": "audio", "transcript": None},
                    ]
                ),
                min_size=1,
                max_size=2,
            ),
        },
    )
    | st.just({"type": "function_call_output", "call_id": "c", "output": "o"}),
}
"""Values that the key of that name often has in a message that is right."""


def keys_of(*classes):
    return sorted(
        key
        for cls in classes
        for name, how in fields_of(cls).items()
        if not how.flat
        for key in (how.name or name, *how.aliases)
    )


def with_keys(kind, keys):
    """Messages of a type with some of `keys`, most values plausible and at most one of them not."""
    chosen = (
        st.lists(st.sampled_from(keys), min_size=min(len(keys), 3), max_size=5, unique=True)
        if keys
        else st.just([])
    )
    plausible = chosen.flatmap(
        lambda some: st.fixed_dictionaries({key: PLAUSIBLE.get(key, values) for key in some})
    )
    odd = st.dictionaries(st.sampled_from(KEYS), values, max_size=1)
    return st.tuples(plausible, odd, st.booleans()).map(
        lambda parts: {"type": kind, **parts[0], **(parts[1] if parts[2] else {})}
    )


def message_of(kind):
    return with_keys(kind, keys_of(COMMAND_CLASSES[TYPE_ALIASES.get(kind, kind)]))


messages = st.sampled_from(TYPES).flatmap(message_of)
appends = with_keys("input_audio_buffer.append", keys_of(AppendAudio, AppendHints))


@given(st.text() | st.binary())
@example(b"\xed\xa0\x80")
@example("1" * 5000)
@example('{"type": "session.update", "x": 1e400}')
@example('{"type": "barge_in", "type": 5}')
def test_any_text_is_read_or_refused(raw):
    with contextlib.suppress(RealtimeError):
        decode_command(raw)


@pytest.mark.slow
@given(messages)
@settings(max_examples=150, deadline=None)
def test_any_message_is_read_or_refused_and_either_can_be_written(message):
    answer = decoded(message)
    if isinstance(answer, RealtimeError):
        event_id = message.get("event_id")
        assert answer.event_id == (event_id if isinstance(event_id, str) else None)
        assert render(ErrorEvent.from_error(answer), Dialect.GA)
    else:
        assert decode_command(encode_command(answer)) == answer
        if isinstance(answer, CreateItem):
            assert render(ConversationItemAdded(item=answer.item), Dialect.DUPLEX)


def decoded(message):
    try:
        return decode_command(orjson.dumps(message))
    except RealtimeError as error:
        return error


def outcome(reading, message):
    try:
        return reading(message)
    except (ValueError, RealtimeError):
        return None


@pytest.mark.slow
@given(appends)
@settings(max_examples=150, deadline=None)
def test_append_by_hand_equals_append_by_converter(message):
    by_hand = outcome(read_append, message)
    generic = outcome(lambda given: GENERIC.structure(given, AppendAudio), message)
    if by_hand is not None:
        assert by_hand == generic
    elif generic is not None:
        # The hand-written reader also reads an alias that a first name makes superfluous; the codec then asks
        # the generic one, and that is the answer.
        with contextlib.suppress(RealtimeError):
            check_append(generic)
            assert decode_command(orjson.dumps(message)) == generic


@pytest.mark.parametrize(
    "message",
    [
        {"audio": "AAAA"},
        {"audio": "AAAA", "format": "pcm16", "sample_rate_hz": 24000, "event_id": "mine"},
        {"audio": "AAAA", "is_speech": True, "duration_ms": 20, "audio_end_ms": 40},
        {"delta": "AAAA", "sample_rate": 8000, "speech": False, "text": "yes"},
        {"audio": "AAAA", "delta": "AAEC", "is_speech": None, "speech": True},
    ],
)
def test_usual_appends_are_read_by_hand(message):
    assert read_append(message) == GENERIC.structure(message, AppendAudio)
