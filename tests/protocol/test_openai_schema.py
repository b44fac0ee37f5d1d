"""Every event that OpenAI has too must pass strict validation by the class of OpenAI's own SDK."""

import orjson
import pydantic
import pytest

from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import EVENT_CLASSES, DuplexEvent, SessionCreated, SessionUpdated
from duplex_trio.testing.openai_events import foreign_fields, openai_event_classes
from duplex_trio.testing.protocol_samples import sample_events

GA = openai_event_classes(Dialect.GA)
BETA = openai_event_classes(Dialect.BETA)
OUT_OF_SCOPE = {name for name in GA if "mcp" in name} | {
    "input_audio_buffer.dtmf_event_received",
    "conversation.item.input_audio_transcription.segment",
}


def ids(event: DuplexEvent) -> str:
    return f"{event.type}-{event.event_id}"


openai_events = pytest.mark.parametrize("event", [e for e in sample_events() if e.tier < 3], ids=ids)


def test_each_event_class_has_a_sample():
    assert {type(event) for event in sample_events()} == set(EVENT_CLASSES)


def test_openai_event_types_are_ours_or_out_of_scope():
    ours = {cls.type for cls in EVENT_CLASSES if cls.tier < 3}
    assert ours == GA.keys() - OUT_OF_SCOPE


@openai_events
def test_duplex_dialect_passes_strict_validation(event):
    text = render(event, Dialect.DUPLEX, server_event_seq=7)
    GA[event.type].model_validate_json(text, strict=True)


@openai_events
def test_ga_dialect_passes_strict_validation_and_adds_nothing(event):
    text = render(event, Dialect.GA, server_event_seq=7)
    if event.type == "conversation.item.created":
        assert text is None
        return
    model = GA[event.type].model_validate_json(text, strict=True)
    assert model.event_id == event.event_id
    if not isinstance(event, SessionCreated | SessionUpdated):
        # OpenAI's own session object has fields that its SDK class lacks.
        assert foreign_fields(model) == []


def in_the_beta(event: DuplexEvent) -> bool:
    """Session objects arrive already written for the dialect, and the beta knew no images."""
    text = render(event, Dialect.BETA)
    if text is None or isinstance(event, SessionCreated | SessionUpdated):
        return False
    return not any(p["type"] == "input_image" for p in orjson.loads(text).get("item", {}).get("content", ()))


@pytest.mark.parametrize("event", list(filter(in_the_beta, sample_events())), ids=ids)
def test_beta_dialect_passes_strict_validation(event):
    text = render(event, Dialect.BETA, server_event_seq=7)
    message = orjson.loads(text)
    model = BETA[message["type"]].model_validate_json(text, strict=True)
    assert set(foreign_fields(model)) <= {"name", "image_tokens", "cached_tokens_details"}


def test_sdk_validation_can_fail():
    with pytest.raises(pydantic.ValidationError):
        GA["response.output_audio.done"].model_validate({"type": "response.output_audio.done"})
