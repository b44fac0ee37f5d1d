"""What published clients cannot do without: each test is a field or an order of events, and who breaks
without it.

The transcripts are of whole conversations with these very clients, in OpenAI's GA and beta dialects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

Event = Mapping[str, Any]

LIFE_OF_AN_ITEM = {
    "message": (
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio.delta",
        "response.output_audio_transcript.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
    ),
    "function_call": (
        "response.output_item.added",
        "conversation.item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "conversation.item.done",
    ),
}
"""The order that satisfied every client, by the type of an item of a response, each event where it comes first."""

BETA_NAMES = {
    "response.output_audio.delta": "response.audio.delta",
    "response.output_audio.done": "response.audio.done",
    "response.output_audio_transcript.delta": "response.audio_transcript.delta",
    "response.output_audio_transcript.done": "response.audio_transcript.done",
    "conversation.item.added": "conversation.item.created",
    "conversation.item.done": None,  # the beta never had it
}


def of(recording: Any, *kinds: str) -> list[Event]:
    """The events of these types, by their names in GA; there must be some."""
    names = [BETA_NAMES.get(kind, kind) if recording.dialect == "beta" else kind for kind in kinds]
    found = [event for event in recording.events if event["type"] in names]
    assert found, f"no {names} in\n{recording.story}"
    return found


def items(recording: Any) -> Iterator[tuple[Event, Event]]:
    """Every item that any event shows, with the event."""
    for event in recording.events:
        if "item" in event:
            yield event, event["item"]
        for item in event.get("response", {}).get("output", ()):
            yield event, item


def test_session_created_comes_first_and_unasked(recording: Any) -> None:
    """Without it pipecat and mastra wait for ever: they say nothing before."""
    for connection in recording.connections:
        first = next(message for message in connection.messages if message.sender == "server")
        assert first.kind == "session.created", recording.story
        assert len([m for m in connection.messages if m.kind == "session.created"]) == 1


def test_each_event_has_an_id_of_its_own(recording: Any) -> None:
    """Without one on a delta pipecat's loop dies and openai-agents drop the sound.

    Their turns end by another one.
    """
    ids = Counter(event["event_id"] for event in recording.events)
    assert all(isinstance(event_id, str) and event_id for event_id in ids)
    assert set(ids.values()) == {1}


def test_each_piece_of_an_answer_says_where_it_belongs(recording: Any) -> None:
    """Without response_id or content_index pipecat dies and openai-agents get no sound."""
    pieces = of(
        recording,
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.delta",
        "response.output_audio_transcript.done",
        "response.content_part.added",
        "response.content_part.done",
    )
    responses = {event["response"]["id"] for event in of(recording, "response.created")}
    for piece in pieces:
        assert piece["response_id"] in responses
        assert isinstance(piece["item_id"], str)
        assert (piece["output_index"], piece["content_index"]) == (0, 0)
    for event in of(recording, "response.output_item.added", "response.output_item.done"):
        assert event["response_id"] in responses
        assert event["output_index"] in (0, 1)  # a call may follow what is said before it


def test_the_session_speaks_openais_formats(recording: Any) -> None:
    """A rate of 16000 or an unknown turn detection kills pipecat; all clients assume 24 kHz."""
    for event in of(recording, "session.created", "session.updated"):
        session = event["session"]
        if recording.dialect == "beta":
            assert (session["input_audio_format"], session["output_audio_format"]) == ("pcm16", "pcm16")
            asked = recording.name == "npm-openai-realtime-api" and event["type"] == "session.updated"
            assert (session["turn_detection"] or {}).get("type") == (None if asked else "server_vad")
            continue
        audio = session["audio"]
        assert audio["input"]["format"] == audio["output"]["format"] == {"type": "audio/pcm", "rate": 24_000}
        detection = audio["input"]["turn_detection"]
        assert detection["type"] in ("server_vad", "semantic_vad")
        assert detection["interrupt_response"] is True  # else a client cancels by itself, too late


def test_each_item_enters_the_conversation_once_before_anything_else_is_said_of_it(recording: Any) -> None:
    """Without item.added LiveKit times out and pipecat runs no tool."""
    added: list[str] = []
    for event in recording.events:
        match event["type"]:
            case "conversation.item.added" | "conversation.item.created":
                added.append(event["item"]["id"])
            case "conversation.item.done" | "conversation.item.retrieved":
                assert event["item"]["id"] in added
            case "response.content_part.added" | "input_audio_buffer.committed":
                assert event["item_id"] in added
    assert len(added) == len(set(added))
    of(recording, "conversation.item.added")


def test_each_message_has_content_and_each_sound_of_the_user_a_transcript(recording: Any) -> None:
    """Without content, or the key `transcript` even when it is null, the process of @openai/agents-realtime
    dies.
    """
    sounds = 0
    for event, item in items(recording):
        if item["type"] != "message":
            continue
        assert isinstance(item["content"], list), event
        for part in item["content"]:
            if part["type"] == "input_audio":
                sounds += 1
                assert "transcript" in part, event
    assert sounds


def test_parts_of_an_answer_are_named_one_way_and_content_of_items_the_other(recording: Any) -> None:
    """A part called output_audio is refused by openai-agents.

    Without parts openai-realtime-api shows no text.
    """
    for event in of(recording, "response.content_part.added", "response.content_part.done"):
        assert event["part"]["type"] == "audio"
        assert isinstance(event["part"]["transcript"], str)
    spoken = "audio" if recording.dialect == "beta" else "output_audio"
    for event, item in items(recording):
        if item["type"] == "message" and item["role"] == "assistant":
            assert {part["type"] for part in item["content"]} <= {spoken}, event


def test_a_response_is_called_one_and_its_details_are_no_string(recording: Any) -> None:
    """Another `object` kills pipecat; a string in status_details hangs both openai-agents."""
    for event in of(recording, "response.created", "response.done"):
        response = event["response"]
        assert response["object"] == "realtime.response"
        details = response["status_details"]
        if event["type"] == "response.created":
            assert details is None
        else:
            assert isinstance(details, dict)
            assert details["type"] == response["status"]


def test_the_metadata_of_a_response_comes_back(recording: Any) -> None:
    """LiveKit knows its own responses by it."""
    asked = [
        command["response"]["metadata"]
        for command in recording.commands
        if command["type"] == "response.create" and command.get("response", {}).get("metadata")
    ]
    able = recording.name in ("openai", "openai-beta", "npm-openai")
    assert asked == [{"purpose": "the last turn"}] * able
    for kind in ("response.created", "response.done"):
        back = [event["response"]["metadata"] for event in of(recording, kind)]
        assert [metadata for metadata in back if metadata is not None] == asked


def test_a_response_that_came_to_its_end_is_counted(recording: Any) -> None:
    """Nobody breaks without usage, but all show it."""
    for event in of(recording, "response.done"):
        if event["response"]["status"] == "cancelled":
            continue
        usage = event["response"]["usage"]
        assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] > 0


def test_the_events_of_an_answer_come_in_the_order_that_suits_all(recording: Any) -> None:
    """No delta before its part, no part before its item, each item added before it is done."""
    for done in of(recording, "response.done"):
        for item in done["response"]["output"]:
            life = LIFE_OF_AN_ITEM[item["type"]]
            names = [BETA_NAMES.get(kind, kind) if recording.dialect == "beta" else kind for kind in life]
            expected = [name for name in names if name is not None]
            order = [
                event["type"]
                for event in recording.events
                if event["type"] in expected
                and item["id"] in (event.get("item_id"), event.get("item", {}).get("id"))
            ]
            assert list(dict.fromkeys(order)) == expected, recording.story


def test_a_response_is_created_before_all_that_is_of_it_and_done_after_it(recording: Any) -> None:
    """Clients end a turn at response.done."""
    kinds: dict[str, list[str]] = {}
    for event in recording.events:
        response_id = event.get("response_id") or event.get("response", {}).get("id")
        if response_id is not None and not event["type"].startswith("output_audio_buffer."):
            kinds.setdefault(response_id, []).append(event["type"])
    assert kinds
    for order in kinds.values():
        assert (order[0], order[-1]) == ("response.created", "response.done"), recording.story
        assert (order.count("response.created"), order.count("response.done")) == (1, 1)


def test_a_call_names_itself_and_its_function_wherever_it_is_shown(recording: Any) -> None:
    """Without call_id pipecat and LiveKit never run the tool."""
    calls = {item["call_id"]: item for _, item in items(recording) if item["type"] == "function_call"}
    assert len(calls) == 2
    for event, item in items(recording):
        if item["type"] in ("function_call", "function_call_output"):
            assert item["call_id"] in calls, event
    for event in of(recording, "response.function_call_arguments.done"):
        call = calls[event["call_id"]]
        assert (event["item_id"], event["name"]) == (call["id"], call["name"])
        pieces = [
            piece["delta"]
            for piece in of(recording, "response.function_call_arguments.delta")
            if piece["call_id"] == event["call_id"]
        ]
        assert "".join(pieces) == event["arguments"] == calls[event["call_id"]]["arguments"]


def test_the_subprotocol_that_a_browser_offers_is_selected(recording: Any) -> None:
    """Browsers refuse a server that selects none of those they offered; others offer none and get none."""
    for connection in recording.connections:
        offers = "sec-websocket-protocol: realtime," in connection.request.lower()
        assert offers == ("browser" in recording.name)
        assert ("sec-websocket-protocol: realtime" in connection.response.lower()) == offers


def test_a_client_that_closes_is_answered(recording: Any) -> None:
    """With the same code, 1000 or none, so that nobody takes it for a broken connection and reconnects."""
    for connection in recording.connections:
        closes = [message for message in connection.messages if message.close_code is not None]
        assert [message.sender for message in closes] == ["client", "server"], recording.story
        assert closes[0].close_code == closes[1].close_code
        assert closes[0].close_code in (1000, 1005)


@pytest.mark.parametrize("client", ["openai-refused"])
def test_a_refusal_has_the_code_that_clients_look_for_and_names_the_command(recording: Any) -> None:
    """pipecat ends its session at any other code; LiveKit finds its item by event_id, and swallows three of these."""
    assert recording.returncode == 0, recording.story
    assert {name: fact["code"] for name, fact in recording.facts.items() if name != "text"} == {
        "twice": "item_create_duplicate_item_id",
        "rci_nowhere": "item_retrieve_invalid_item_id",
        "cancel": "response_cancel_not_active",
        "commit": "input_audio_buffer_commit_empty",
        "second": "conversation_already_has_active_response",
    }, recording.story
    assert recording.facts["cancel"]["message"].startswith("Cancellation failed")
    assert recording.facts["text"]["answer"] == "You said: hello there"
