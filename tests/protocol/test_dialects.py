from types import MappingProxyType

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex_trio.protocol.dialects import Dialect, dialect_converter, render
from duplex_trio.protocol.duplex import (
    CommitRecord,
    ConversationItemAdded,
    ConversationItemCreated,
    ConversationItemDone,
    DuplexExtension,
    ErrorEvent,
    EventKind,
    InputAudioBufferCommitted,
    InputAudioPart,
    MessageItem,
    OutputAudioBufferCleared,
    OutputAudioPart,
    OutputTextPart,
    Playback,
    RealtimeError,
    RealtimeResponse,
    ResponseAudio,
    ResponseAudioOutput,
    ResponseContentPartDone,
    ResponseCreated,
    ResponseDone,
    ResponseListen,
    ResponseOutputAudioDelta,
    ResponseOutputAudioTranscriptDelta,
    SessionCreated,
    StatusDetails,
    TextContentPart,
)
from duplex_trio.testing.protocol_samples import sample_events

SPOKEN = MessageItem(id="i1", role="assistant", status="incomplete", content=(OutputAudioPart("he"),))
DONE = RealtimeResponse(
    id="r1",
    status="cancelled",
    status_details=StatusDetails(type="cancelled", reason="turn_detected"),
    output=(SPOKEN,),
    conversation_id="c1",
    metadata={"topic": "x"},
    audio=ResponseAudio(output=ResponseAudioOutput(format={"type": "audio/pcmu"}, voice="v")),
)


def shown(event, dialect, **kwargs):
    text = render(event, dialect, **kwargs)
    return None if text is None else orjson.loads(text)


@pytest.mark.parametrize("event", sample_events(), ids=lambda event: event.type)
def test_own_events_and_extension_stay_in_the_duplex_dialect(event):
    duplex = shown(event, Dialect.DUPLEX, server_event_seq=3)
    assert duplex["type"] == event.type
    assert duplex["server_event_seq"] == 3
    for dialect in (Dialect.GA, Dialect.BETA):
        other = shown(event, dialect, server_event_seq=3)
        if event.tier == 3:
            assert other is None
        elif other is not None:
            assert not {"duplex", "server_event_seq", "attachment_generation", "resume_token"} & other.keys()


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("response.output_audio.delta", "response.audio.delta"),
        ("response.output_audio.done", "response.audio.done"),
        ("response.output_audio_transcript.delta", "response.audio_transcript.delta"),
        ("response.output_audio_transcript.done", "response.audio_transcript.done"),
        ("response.output_text.delta", "response.text.delta"),
        ("response.output_text.done", "response.text.done"),
        ("response.created", "response.created"),
        ("conversation.item.created", "conversation.item.created"),
        ("conversation.item.added", None),
        ("conversation.item.done", None),
        ("input_audio_buffer.timeout_triggered", None),
    ],
)
def test_beta_names(new, old):
    event = next(event for event in sample_events() if event.type == new)
    beta = shown(event, Dialect.BETA)
    assert (beta and beta["type"]) == old


def test_item_twins_by_dialect():
    item = MessageItem(id="i", role="user", content=(InputAudioPart(),))
    added, created = ConversationItemAdded(item=item), ConversationItemCreated(item=item)
    done = ConversationItemDone(item=item)
    having = {d: [e.type for e in (added, created, done) if render(e, d) is not None] for d in Dialect}
    names = [f"conversation.item.{name}" for name in ("added", "created", "done")]
    assert having == {
        Dialect.GA: [names[0], names[2]],
        Dialect.BETA: [names[1]],
        Dialect.DUPLEX: names,
    }


def test_null_transcript_and_empty_content_are_written():
    user = ConversationItemAdded(item=MessageItem(id="i", role="user", content=(InputAudioPart(),)))
    assert shown(user, Dialect.GA) == {
        "type": "conversation.item.added",
        "event_id": "",
        "previous_item_id": None,
        "item": {
            "type": "message",
            "object": "realtime.item",
            "id": "i",
            "role": "user",
            "status": "completed",
            "content": [{"type": "input_audio", "transcript": None}],
        },
    }
    assistant = ConversationItemAdded(item=MessageItem(id="i", role="assistant"))
    assert shown(assistant, Dialect.GA)["item"]["content"] == []


def test_declared_format_of_an_item_is_shown_to_duplex_clients_only():
    part = InputAudioPart(audio="AAAA", format="g711_ulaw", sample_rate_hz=8000)
    event = ConversationItemAdded(item=MessageItem(id="i", role="user", content=(part,)))
    assert shown(event, Dialect.GA)["item"]["content"][0].keys() == {"type", "audio", "transcript"}
    content = shown(event, Dialect.DUPLEX)["item"]["content"][0]
    assert (content["format"], content["sample_rate_hz"]) == ("g711_ulaw", 8000)


def test_response_done_in_each_dialect():
    event = ResponseDone(
        event_id="e1", response=DONE, duplex=DuplexExtension(epoch=4, cancel_reason="barge_in")
    )
    item = {
        "type": "message",
        "object": "realtime.item",
        "id": "i1",
        "role": "assistant",
        "status": "incomplete",
        "content": [{"type": "output_audio", "transcript": "he"}],
    }
    common = {
        "object": "realtime.response",
        "id": "r1",
        "status": "cancelled",
        "status_details": {"type": "cancelled", "reason": "turn_detected"},
        "conversation_id": "c1",
        "max_output_tokens": None,
        "metadata": {"topic": "x"},
        "usage": None,
    }
    current = common | {
        "output": [item],
        "output_modalities": ["audio"],
        "audio": {"output": {"format": {"type": "audio/pcmu"}, "voice": "v"}},
    }
    assert shown(event, Dialect.GA) == {"type": "response.done", "event_id": "e1", "response": current}
    assert shown(event, Dialect.DUPLEX, server_event_seq=9) == {
        "type": "response.done",
        "event_id": "e1",
        "response": current,
        "response_id": "r1",
        "duplex": {"epoch": 4, "cancel_reason": "barge_in"},
        "server_event_seq": 9,
    }
    assert shown(event, Dialect.BETA)["response"] == common | {
        "output": [item | {"content": [{"type": "audio", "transcript": "he"}]}],
        "modalities": ["audio"],
        "voice": "v",
        "output_audio_format": "g711_ulaw",
    }


def test_beta_text_parts():
    item = MessageItem(id="i", role="assistant", content=(OutputTextPart("hi"),))
    beta = shown(ConversationItemCreated(item=item), Dialect.BETA)
    assert beta["item"]["content"] == [{"type": "text", "text": "hi"}]
    part = ResponseContentPartDone(response_id="r", item_id="i", part=TextContentPart("hi"))
    for dialect in Dialect:
        assert shown(part, dialect)["part"] == {"type": "text", "text": "hi"}


def test_response_created_has_no_extension_keys_when_it_has_none():
    event = ResponseCreated(response=RealtimeResponse(id="r1", status="in_progress"))
    assert shown(event, Dialect.DUPLEX).keys() == {"type", "event_id", "response", "response_id"}
    response = shown(event, Dialect.GA)["response"]
    assert response["status_details"] is None
    assert response["output"] == []
    assert "audio" not in response


def test_cleared_without_a_response_has_no_openai_form():
    event = OutputAudioBufferCleared(response_id=None)
    assert render(event, Dialect.GA) is None
    assert render(event, Dialect.BETA) is None
    assert shown(event, Dialect.DUPLEX)["response_id"] is None


def test_error_in_each_dialect():
    error = RealtimeError("input_backpressure", "full", param="audio", event_id="mine", retryable=True)
    event = ErrorEvent.from_error(error, event_id="e")
    detail = {
        "type": "rate_limit_error",
        "code": "input_backpressure",
        "message": "full",
        "param": "audio",
        "event_id": "mine",
    }
    plain = {"type": "error", "event_id": "e", "error": detail}
    assert shown(event, Dialect.GA) == shown(event, Dialect.BETA) == plain
    assert shown(event, Dialect.DUPLEX) == plain | {"duplex": {"retryable": True}}
    bare = shown(ErrorEvent.from_error(RealtimeError("bad_event", "no")), Dialect.DUPLEX)
    assert bare["error"] == {"type": "invalid_request_error", "code": "bad_event", "message": "no"}
    assert bare.keys() == {"type", "event_id", "error"}


def test_extension_leaves_out_what_it_does_not_say():
    extension = DuplexExtension(epoch=0, commit=CommitRecord(overlap_ack=True), playback=Playback(sent_ms=5))
    event = InputAudioBufferCommitted(item_id="i", duplex=extension)
    assert shown(event, Dialect.DUPLEX)["duplex"] == {
        "epoch": 0,
        "playback": {"generated_ms": 0, "sent_ms": 5, "played_ms": 0, "committed_ms": 0},
        "commit": {"overlap_ack": True},
    }


def test_measured_numbers_of_any_kind_are_written():
    metrics = MappingProxyType({"tts": MappingProxyType({"rtf": np.float32(0.5), "frames": np.int64(3)})})
    event = ResponseDone(response=DONE, duplex=DuplexExtension(stage_metrics=metrics))
    assert shown(event, Dialect.DUPLEX)["duplex"]["stage_metrics"] == {"tts": {"rtf": 0.5, "frames": 3}}


def test_listen_with_and_without_a_response():
    free = ResponseListen.because("silence_or_noise", session_id="s", epoch=2)
    assert shown(free, Dialect.DUPLEX) == {
        "type": "response.listen",
        "event_id": "",
        "session_id": "s",
        "epoch": 2,
        "response": {
            "object": "realtime.response",
            "status": "listening",
            "metadata": {"session_id": "s", "epoch": 2, "reason": "silence_or_noise"},
        },
    }
    tied = shown(
        ResponseListen.because("model_listen", session_id="s", epoch=2, response_id="r", model_listen=True),
        Dialect.DUPLEX,
    )
    assert tied["response_id"] == tied["response"]["id"] == "r"
    assert tied["response"]["metadata"]["model_listen"] is True


def test_secrets_are_not_in_the_repr():
    event = SessionCreated(session={}, resume_token="hush")
    assert "hush" not in repr(event)
    assert shown(event, Dialect.DUPLEX)["resume_token"] == "hush"


@given(
    delta=st.binary(max_size=64),
    names=st.tuples(st.text(), st.text(), st.text()),
    indexes=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    extension=st.none() | st.builds(DuplexExtension, epoch=st.integers(0, 9), format=st.text()),
    seq=st.none() | st.integers(0, 2**40),
    dialect=st.sampled_from(Dialect),
)
@settings(max_examples=50, deadline=None)
def test_audio_by_hand_equals_audio_by_converter(delta, names, indexes, extension, seq, dialect):
    event = ResponseOutputAudioDelta(
        event_id=names[0],
        response_id=names[1],
        item_id=names[2],
        output_index=indexes[0],
        content_index=indexes[1],
        delta=delta,
        duplex=extension,
    )
    generic = dialect_converter(dialect).unstructure(event)
    if seq is not None and dialect is Dialect.DUPLEX:
        generic["server_event_seq"] = seq
    assert render(event, dialect, server_event_seq=seq) == orjson.dumps(generic)


def test_queue_marks():
    kinds = {event.type: event.kind for event in sample_events()}
    assert [name for name, kind in kinds.items() if kind is EventKind.MEDIA] == [
        "response.output_audio.delta"
    ]
    terminal = {name for name, kind in kinds.items() if kind is EventKind.TERMINAL}
    assert terminal == {"session.closed", "session.expired"}
    assert [name for name, kind in kinds.items() if kind is EventKind.ERROR] == ["error"]
    response = {name for name, kind in kinds.items() if kind is EventKind.RESPONSE}
    assert {name for name in kinds if name.startswith("response.")} - response == {
        "response.output_audio.delta"
    }
    discarded = {event.type for event in sample_events() if event.discard_on_cancel}
    assert discarded == {
        "response.output_audio.delta",
        "response.output_audio_transcript.delta",
        "response.output_text.delta",
    }


def test_tier_two_classes_extend_their_twin():
    for event in sample_events():
        bases = [base for base in type(event).__mro__[1:] if base.__dict__.get("type") == event.type]
        assert len(bases) == (1 if event.tier == 2 else 0), event.type


def test_an_unknown_event_class_is_a_programming_error():
    class Stray(ResponseOutputAudioTranscriptDelta):
        pass

    with pytest.raises(AssertionError):
        render(Stray(response_id="r", item_id="i", delta=""), Dialect.GA)


def test_session_names():
    assert [dialect.session_name for dialect in Dialect] == ["ga", "beta", "duplex"]
