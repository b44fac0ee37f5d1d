"""Published clients, each with the session that it makes by default, in a conversation with the real server."""

from __future__ import annotations

from typing import Any

import openai.types.beta.realtime.realtime_server_event as beta
import openai.types.realtime.realtime_server_event as ga
import pytest
from pydantic import TypeAdapter

pytestmark = pytest.mark.e2e

BYTES_PER_WORD = 300 * 24 * 2
"""The scripted model's words, as sound at the 24 kHz that every client assumes."""

OPENAI_EVENTS: dict[str, TypeAdapter[Any]] = {
    "ga": TypeAdapter(ga.RealtimeServerEvent),
    "beta": TypeAdapter(beta.RealtimeServerEvent),
}


def test_it_ends_well_and_sees_no_error(recording: Any) -> None:
    """A client that cannot read an event, or waits for one in vain, ends with a fault of its own."""
    assert recording.returncode == 0, recording.story
    errors = [event for event in recording.events if event["type"] == "error"]
    assert not errors, f"{errors}\n{recording.story}"


def test_it_gets_nothing_but_what_openai_sends(recording: Any) -> None:
    """Each event passes strict validation by the class that OpenAI's SDK has for its type."""
    events = OPENAI_EVENTS[recording.dialect]
    for connection in recording.connections:
        for message in connection.messages:
            if message.sender == "server" and message.close_code is None:
                events.validate_json(message.text, strict=True)


def test_a_written_turn_is_answered_in_sound_and_words(recording: Any) -> None:
    """As the client's own interface gives them to its application."""
    fact = recording.facts["text"]
    assert fact["answer"] == "You said: hello there", recording.story
    assert fact["bytes"] == 4 * BYTES_PER_WORD, recording.story


def test_a_spoken_turn_is_heard_and_answered(recording: Any) -> None:
    """Sound in real time, whose end the server finds."""
    fact = recording.facts["speech"]
    assert fact["heard"] == "How are you today?", recording.story
    assert fact["answer"] == "You said: How are you today?", recording.story
    assert fact["bytes"] == 6 * BYTES_PER_WORD, recording.story


def test_speech_over_an_answer_cuts_it(recording: Any) -> None:
    """The server ends the response, the client says how much of it was heard, and that is what stays of it."""
    cancelled = [
        event["response"]
        for event in recording.events
        if event["type"] == "response.done" and event["response"]["status"] == "cancelled"
    ]
    (response,) = cancelled
    pushes = recording.name == "npm-openai-realtime-api"  # push to talk: it cancels by itself
    reason = "client_cancelled" if pushes else "turn_detected"
    assert response["status_details"]["reason"] == reason, recording.story
    (item,) = response["output"]
    assert item["status"] == "incomplete"
    asked = [command for command in recording.commands if command["type"] == "conversation.item.truncate"]
    (mine,) = [command for command in asked if command["item_id"] == item["id"]]
    truncated = [event for event in recording.events if event["type"] == "conversation.item.truncated"]
    assert len(truncated) == len(asked), recording.story
    (done,) = [event for event in truncated if event["item_id"] == item["id"]]
    assert done["audio_end_ms"] == mine["audio_end_ms"], recording.story


def test_the_speech_that_cut_an_answer_is_answered_itself(recording: Any) -> None:
    """And the conversation goes on after it."""
    fact = recording.facts["interruption"]
    assert fact["answer"] == "You said: Stop it please.", recording.story
    assert fact["bytes"] == 5 * BYTES_PER_WORD, recording.story
    last = recording.facts["last"]
    assert last["answer"].startswith("You said: "), recording.story
    assert last["bytes"] == BYTES_PER_WORD * len(last["answer"].split()), recording.story


@pytest.mark.parametrize("turn", ["tool", "tool_said"])
def test_its_own_tool_is_called_and_answers(recording: Any, turn: str) -> None:
    """The client gets the call's arguments, runs its function, and what that said is in the next answer."""
    fact = recording.facts[turn]
    assert "sunny in Paris" in fact["answer"], recording.story
    calls = [
        event["item"]
        for event in recording.events
        if event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call"
    ]
    assert [(call["name"], call["arguments"]) for call in calls] == 2 * [("get_weather", '{"city": "Paris"}')]
    outputs = [
        command["item"]
        for command in recording.commands
        if command["type"] == "conversation.item.create" and command["item"]["type"] == "function_call_output"
    ]
    assert [output["call_id"] for output in outputs] == [call["call_id"] for call in calls]
