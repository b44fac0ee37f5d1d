"""Conversations with the real models: spoken, interrupted, many at once, and after bad input."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
import pytest
import trio
import trio_websocket

from duplex_trio.clients import DuplexClient
from duplex_trio.protocol.duplex.audio import pcm16_bytes, resample
from duplex_trio.testing.speech import Speaker, silence
from duplex_trio.testing.talking.run import PATIENCE_S, Listener, talking

pytestmark = [pytest.mark.e2e, pytest.mark.models]


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    return Speaker()


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z']+", text.lower()))


async def settled(condition: Callable[[], bool]) -> None:
    """Wait for something that the server does by itself soon."""
    with trio.fail_after(PATIENCE_S):
        while not await trio.to_thread.run_sync(condition):  # noqa: ASYNC110  another process decides
            await trio.sleep(0.1)


async def test_an_interruption_is_heard_and_answered(real_server: Any, speaker: Speaker) -> None:
    """Speech over an answer cuts it once and for all; history keeps what was heard; the new words are answered."""
    async with talking(real_server.ws_url) as (client, microphone, listener):
        microphone.say(speaker.say("Hello, please tell me a long story about a dragon."))
        first = await listener.until("response.output_audio.delta")
        microphone.say(speaker.say("Wait, stop. What is a good breakfast?"))
        cut = await listener.until("response.done")
        second = await listener.until("response.created", 2)
        done = await listener.until("response.done", 2)
        await client.send(
            {"type": "conversation.item.retrieve", "item_id": cut.raw["response"]["output"][0]["id"]}
        )
        kept = (await listener.until("conversation.item.retrieved")).raw["item"]
    assert cut.raw["response"]["status"] == "cancelled"
    assert cut.raw["response"]["status_details"]["reason"] == "turn_detected"
    assert cut.response_id == first.response_id
    assert cut.duplex["epoch"] == second.duplex["epoch"] == cut.duplex["cancelled_epoch"] + 1
    assert done.raw["response"]["status"] in ("completed", "incomplete")
    assert done.response_id == second.response_id
    after = listener.events[listener.events.index(cut) + 1 :]
    late = [e.type for e in after if e.response_id == cut.response_id and e.type.startswith("response.")]
    assert late == []
    cleared = listener.of("output_audio_buffer.cleared")
    assert [event.response_id for event in cleared] == [cut.response_id]
    said = "".join(e.text for e in listener.of("response.output_audio_transcript.delta")[:1])
    assert said
    heard = kept["content"][0]["transcript"]
    full = [
        e for e in listener.of("response.output_audio_transcript.done") if e.response_id == cut.response_id
    ]
    assert full[0].raw["transcript"].startswith(heard)
    transcripts = [
        event.raw["transcript"]
        for event in listener.of("conversation.item.input_audio_transcription.completed")
    ]
    assert "dragon" in words(transcripts[0])
    assert "breakfast" in words(transcripts[-1])


async def test_four_talk_at_once_and_one_leaves(real_server: Any, speaker: Speaker) -> None:
    """Each gets an answer to its own words; one that is cut off takes its engine request with it and nothing else."""
    topics = ("breakfast", "moon", "music", "winter")
    heard: dict[str, set[str]] = {}
    statuses: dict[str, str] = {}
    left = trio.Event()

    async def talk(topic: str) -> None:
        async with talking(real_server.ws_url) as (_client, microphone, listener):
            microphone.say(speaker.say(f"Please tell me something about {topic}."))
            done = await listener.until("response.done")
            statuses[topic] = done.raw["response"]["status"]
            completed = await listener.until("conversation.item.input_audio_transcription.completed")
            heard[topic] = words(completed.raw["transcript"])

    async def talk_and_leave(topic: str) -> None:
        url = f"{real_server.ws_url}?model=m"
        async with trio_websocket.open_websocket_url(url, max_message_size=2**26) as socket:
            for chunk in (speaker.say(f"Hello, please tell me a story about {topic}."), silence(1.0)):
                audio = base64.b64encode(pcm16_bytes(resample(chunk, 16_000, 24_000))).decode()
                command = {"type": "input_audio_buffer.append", "audio": audio}
                await socket.send_message(orjson.dumps(command).decode())
            await _until(partial(_receive, socket), "response.output_audio.delta")
            await trio.aclose_forcefully(socket._stream)
        left.set()

    async with trio.open_nursery() as nursery:
        for topic in topics[:3]:
            nursery.start_soon(talk, topic)
        nursery.start_soon(talk_and_leave, topics[3])
    assert left.is_set()
    assert set(statuses) == set(topics[:3])
    assert set(statuses.values()) <= {"completed", "incomplete"}
    assert all(topic in heard[topic] for topic in topics[:3])
    await settled(lambda: real_server.metrics()["duplex_sessions"] == 0)
    figures = await trio.to_thread.run_sync(real_server.metrics)
    assert figures["duplex_live_requests"] == 0
    assert figures['duplex_stage_live_requests{stage="llm"}'] == 0


BAD = [
    ("not json", "{", "invalid_json", None),
    ("no object", "[1]", "bad_event", None),
    ("no type", '{"event_id":"b1"}', "bad_event", "b1"),
    ("unknown type", '{"type":"session.explode","event_id":"b2"}', "unknown_event", "b2"),
    (
        "broken base64",
        '{"type":"input_audio_buffer.append","audio":"@@@@","event_id":"b3"}',
        "bad_audio",
        "b3",
    ),
    ("bad padding", '{"type":"input_audio_buffer.append","audio":"AAA","event_id":"b4"}', "bad_audio", "b4"),
    ("no audio", '{"type":"input_audio_buffer.append","event_id":"b5"}', "bad_event", "b5"),
    (
        "bad rate",
        '{"type":"input_audio_buffer.append","audio":"AAAA","sample_rate_hz":4000,"event_id":"b6"}',
        "bad_event",
        "b6",
    ),
    (
        "empty commit",
        '{"type":"input_audio_buffer.commit","event_id":"b7"}',
        "input_audio_buffer_commit_empty",
        "b7",
    ),
    ("nothing to cancel", '{"type":"response.cancel","event_id":"b8"}', "response_cancel_not_active", "b8"),
    (
        "unknown item",
        '{"type":"conversation.item.delete","item_id":"nope","event_id":"b9"}',
        "item_not_found",
        "b9",
    ),
    (
        "bad turn detection",
        '{"type":"session.update","event_id":"b10","session":{"type":"realtime","audio":{"input":{"turn_detection":{"type":"server_vad","threshold":7}}}}}',
        "unsupported_turn_detection",
        "b10",
    ),
    (
        "oversize",
        '{"type":"input_audio_buffer.append","audio":"' + "A" * (15 * 1024 * 1024) + '"}',
        "event_too_large",
        None,
    ),
]


@pytest.mark.parametrize(
    ("message", "code", "event_id"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
async def test_bad_input_is_refused_and_the_next_turn_works(
    real_server: Any, message: str, code: str, event_id: str | None
) -> None:
    """A typed error names the message at fault, and the session goes on."""
    url = f"{real_server.ws_url}?model=m"
    async with trio_websocket.open_websocket_url(url, max_message_size=2**26) as socket:
        receive = partial(_receive, socket)
        assert (await receive())["type"] == "session.created"
        await socket.send_message(message)
        error = (await _until(receive, "error"))["error"]
        assert error["code"] == code
        assert error.get("event_id") == event_id
        assert error["message"]
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello!"}]}
        await socket.send_message(orjson.dumps({"type": "conversation.item.create", "item": item}).decode())
        response = {"output_modalities": ["text"], "max_output_tokens": 8}
        await socket.send_message(orjson.dumps({"type": "response.create", "response": response}).decode())
        done = await _until(receive, "response.done")
        assert done["response"]["status"] in ("completed", "incomplete")
        assert done["response"]["output"][0]["content"][0]["text"]


async def test_half_a_sample_waits_for_its_other_half(real_server: Any, speaker: Speaker) -> None:
    """Sound may be cut at any byte: odd appends are put together again and understood."""
    async with DuplexClient(real_server.ws_url) as client, trio.open_nursery() as nursery:
        listener = Listener(client)
        nursery.start_soon(listener.run)
        await client.send({"type": "session.update", "session": {"turn_detection": None}})
        sound = pcm16_bytes(speaker.say("Good morning, how are you?"))
        for begin in range(0, len(sound), 3333):
            audio = base64.b64encode(sound[begin : begin + 3333]).decode()
            command = {"type": "input_audio_buffer.append", "audio": audio, "sample_rate_hz": 16_000}
            await client.send(command)
        await client.commit()
        completed = await listener.until("conversation.item.input_audio_transcription.completed")
        assert {"good", "morning"} <= words(completed.raw["transcript"])
        nursery.cancel_scope.cancel()


async def _receive(socket: trio_websocket.WebSocketConnection) -> dict[str, Any]:
    with trio.fail_after(PATIENCE_S):
        event: dict[str, Any] = orjson.loads(await socket.get_message())
    return event


async def _until(receive: Callable[[], Any], kind: str) -> dict[str, Any]:
    while True:
        event: dict[str, Any] = await receive()
        if event["type"] == kind:
            return event
