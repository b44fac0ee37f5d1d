"""The vocabulary, row by row: 42 server events and OpenAI's six beyond them, 18 commands with their aliases."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import attrs
import pytest

from duplex_trio.protocol.duplex import (
    COMMAND_CLASSES,
    EVENT_CLASSES,
    TYPE_ALIASES,
    DuplexCommand,
    DuplexExtension,
    EnvelopeMessage,
)
from duplex_trio.protocol.duplex import commands as tier2_commands
from duplex_trio.protocol.duplex import events as all_events
from duplex_trio.protocol.realtime import commands as tier1_commands
from duplex_trio.protocol.realtime import events as tier1_events

PART = "response_id item_id output_index content_index"
# type, tier, fields beyond `type` and `event_id`. What the duplex protocol adds to OpenAI's events stands in `duplex`.
EVENTS: list[tuple[str, int, str]] = [
    ("session.created", 2, "session attachment_generation resume_token"),
    ("session.updated", 1, "session"),
    ("response.created", 2, "response response_id duplex"),
    ("response.output_item.added", 1, "response_id output_index item"),
    ("response.content_part.added", 1, f"{PART} part"),
    ("response.speak", 3, f"{PART} metadata"),
    ("response.output_audio.delta", 2, f"{PART} delta duplex"),
    ("response.output_audio_transcript.delta", 2, f"{PART} delta duplex"),
    ("response.output_audio.done", 1, PART),
    ("response.output_audio_transcript.done", 1, f"{PART} transcript"),
    ("response.output_text.delta", 1, f"{PART} delta"),
    ("response.output_text.done", 1, f"{PART} text"),
    ("response.content_part.done", 1, f"{PART} part"),
    ("response.output_item.done", 1, "response_id output_index item"),
    ("conversation.item.done", 1, "previous_item_id item"),
    ("response.done", 2, "response response_id duplex"),
    ("rate_limits.updated", 1, "rate_limits"),
    ("response.function_call_arguments.delta", 1, "response_id item_id output_index call_id delta"),
    ("response.function_call_arguments.done", 1, "response_id item_id output_index call_id name arguments"),
    ("input_audio_buffer.committed", 2, "previous_item_id item_id duplex"),
    ("input_audio_buffer.cleared", 1, ""),
    ("input_audio_buffer.speech_started", 1, "audio_start_ms item_id"),
    ("input_audio_buffer.speech_stopped", 1, "audio_end_ms item_id"),
    ("conversation.item.added", 1, "previous_item_id item"),
    ("conversation.item.created", 1, "previous_item_id item"),
    ("conversation.item.retrieved", 1, "item"),
    ("conversation.item.deleted", 2, "item_id duplex"),
    ("conversation.item.truncated", 2, "item_id content_index audio_end_ms duplex"),
    (
        "conversation.item.input_audio_transcription.completed",
        1,
        "item_id content_index transcript usage",
    ),
    ("output_audio_buffer.cleared", 2, "response_id duplex"),
    ("error", 2, "error duplex"),
    (
        "session.resumed",
        3,
        "session_id session attachment_generation resume_token client_event_count last_client_event_id",
    ),
    ("session.replaced", 3, "session_id attachment_generation"),
    ("session.resync_required", 3, "session_id reason"),
    ("session.closed", 3, "session_id reason event"),
    ("session.expired", 3, "session_id reason"),
    ("session.heartbeat_ack", 3, "session_id client_event_count"),
    ("turn.event", 3, "session_id event turn_state epoch"),
    ("playback.acknowledged", 3, "event"),
    ("overlap.decision", 3, "session_id epoch policy action reason metadata"),
    ("response.listen", 3, "session_id epoch response response_id"),
    ("duplex.model_event", 3, "session_id epoch response_id event"),
]
BEYOND: list[tuple[str, int, str]] = [
    ("conversation.created", 1, "conversation"),
    ("conversation.item.input_audio_transcription.delta", 1, "item_id content_index delta"),
    ("conversation.item.input_audio_transcription.failed", 1, "item_id content_index error"),
    ("input_audio_buffer.timeout_triggered", 1, "audio_start_ms audio_end_ms item_id"),
    ("output_audio_buffer.started", 1, "response_id"),
    ("output_audio_buffer.stopped", 1, "response_id"),
]
# type, its other names, the fields as the client writes them; the names of the hints of an append follow them.
COMMANDS: list[tuple[str, str, str]] = [
    ("session.update", "", "session"),
    ("input_audio_buffer.append", "", "audio format sample_rate_hz video_frames"),
    ("input_audio_buffer.commit", "input.commit", "final response_create is_speech"),
    ("input_audio_buffer.clear", "", ""),
    ("output_audio_buffer.clear", "", "response_id"),
    ("response.create", "", "response"),
    ("response.cancel", "", "response_id"),
    ("conversation.item.create", "", "item previous_item_id"),
    ("conversation.item.delete", "", "item_id"),
    ("conversation.item.truncate", "", "item_id audio_end_ms content_index"),
    ("conversation.item.retrieve", "", "item_id"),
    ("input.text.append", "input_text.append push_text", "text"),
    ("input.cancel", "", ""),
    ("barge_in", "", ""),
    ("turn.signal", "signal_turn", "event payload"),
    ("playback.ack", "audio.playback_ack", "played_ms committed_ms response_id item_id"),
    ("session.heartbeat", "", ""),
    ("session.close", "close close_session", "reason"),
]
ENVELOPE: list[tuple[str, str, str]] = [
    ("session.resume", "", "session_id resume_token last_received_server_event_seq attempt"),
    ("session.event_ack", "", "server_event_seq"),
]
TIER1_COMMANDS = 11
"""OpenAI's client events; two of their classes have a Tier 2 twin."""


def camel(wire_type: str) -> str:
    name = "".join(word.capitalize() for word in wire_type.replace(".", "_").split("_"))
    return {"Error": "ErrorEvent", "DuplexModelEvent": "ModelEvent"}.get(name, name)


def own_fields(cls: type) -> set[str]:
    """What a class itself declares."""
    inherited = {field.name for base in cls.__mro__[1:] if attrs.has(base) for field in attrs.fields(base)}
    return {field.name for field in attrs.fields(cls)} - inherited


def wire_names(cls: type) -> set[str]:
    """The keys of a command's fields on the wire."""
    names = set()
    for field in attrs.fields(cls):
        how = field.metadata.get("wire")
        if how is None or not how.flat:
            names.add((how.name if how is not None else None) or field.name)
    return names - {"event_id"}


def test_all_rows_are_there_and_no_others() -> None:
    assert (len(EVENTS), len(BEYOND), len(COMMANDS)) == (42, 6, 18)
    assert sorted(cls.type for cls in EVENT_CLASSES) == sorted(row[0] for row in EVENTS + BEYOND)
    assert COMMAND_CLASSES.keys() == {row[0] for row in COMMANDS + ENVELOPE}


@pytest.mark.parametrize(("wire_type", "tier", "fields"), EVENTS + BEYOND)
def test_an_event(wire_type: str, tier: int, fields: str) -> None:
    """Its class is named for it, is of its tier, and has its fields."""
    (cls,) = (cls for cls in EVENT_CLASSES if cls.type == wire_type)
    assert cls.__name__ == camel(wire_type)
    assert getattr(all_events, cls.__name__) is cls
    assert cls.tier == tier
    assert {field.name for field in attrs.fields(cls)} == {"event_id", *fields.split()}


@pytest.mark.parametrize(
    "cls", [cls for cls in EVENT_CLASSES if cls.tier == 2], ids=lambda cls: str(cls.type)
)
def test_tier_two_extends_its_twin_and_declares_only_what_it_adds(cls: type[Any]) -> None:
    """The type comes from the twin; what is added is the extension, or belongs to resuming."""
    twin = getattr(tier1_events, cls.__name__)
    assert cls.__mro__[1] is twin
    assert (twin.tier, twin.type, twin.kind) == (1, cls.type, cls.kind)
    assert not {"type", "kind", "discard_on_cancel"} & set(vars(cls))
    added = own_fields(cls)
    assert added
    assert added <= {"duplex", "response_id", "attachment_generation", "resume_token"}
    assert get_type_hints(cls).get("duplex", DuplexExtension | None) == DuplexExtension | None


@pytest.mark.parametrize(
    "cls", [cls for cls in EVENT_CLASSES if cls.tier != 2], ids=lambda cls: str(cls.type)
)
def test_tiers_one_and_three_have_no_twin(cls: type[Any]) -> None:
    """OpenAI's events are re-exported as they are, ours are below nobody's."""
    in_tier1 = getattr(tier1_events, cls.__name__, None)
    assert in_tier1 is (cls if cls.tier == 1 else None)


@pytest.mark.parametrize(("wire_type", "aliases", "fields"), COMMANDS + ENVELOPE)
def test_a_command(wire_type: str, aliases: str, fields: str) -> None:
    """It has its other names and its fields."""
    cls = COMMAND_CLASSES[wire_type]
    assert {name for name, kind in TYPE_ALIASES.items() if kind == wire_type} == set(aliases.split())
    assert wire_names(cls) == set(fields.split())
    assert (cls in get_args(EnvelopeMessage)) == ((wire_type, aliases, fields) in ENVELOPE)
    assert (cls in get_args(DuplexCommand)) == ((wire_type, aliases, fields) in COMMANDS)


def test_commands_of_openai_are_its_classes_or_extend_them() -> None:
    """Eleven, of which two are extended by what they add."""
    of_openai = {
        cls.type: cls
        for cls in vars(tier1_commands).values()
        if attrs.has(cls) and issubclass(cls, tier1_commands.RealtimeCommand) and hasattr(cls, "type")
    }
    assert len(of_openai) == TIER1_COMMANDS
    added = {}
    for wire_type, twin in of_openai.items():
        cls = COMMAND_CLASSES[wire_type]
        assert cls is getattr(tier2_commands, twin.__name__)
        if cls is not twin:
            assert cls.__mro__[1] is twin
            assert "type" not in vars(cls)
            added[cls.__name__] = own_fields(cls)
    assert added == {
        "AppendAudio": {"format", "sample_rate_hz", "video_frames", "hints"},
        "Commit": {"final", "response_create", "is_speech"},
    }
