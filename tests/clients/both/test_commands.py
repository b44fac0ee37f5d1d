"""Every command of a client, and what becomes of what is none, over either way to an engine."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.clients import DuplexClientBase, DuplexProtocolError, SessionConfig
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import MAX_MESSAGE_BYTES

Run = Callable[..., Any]
Say = Callable[[DuplexClientBase], Awaitable[str]]
BY_HAND = SessionConfig(turn_detection=None)
TONE = b"".join(int(9000 * (-1) ** (i // 40)).to_bytes(2, "little", signed=True) for i in range(16_000))
LONG = "Alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima."


async def heard(client: DuplexClientBase) -> str:
    """Speak for a second."""
    return await client.append_audio(TONE)


async def written(client: DuplexClientBase) -> str:
    """Put an item into the conversation, and wait until it is there."""
    with client.events() as events:
        await client.create_item("hello", item_id="item_1")
        await events.wait_for("conversation.item.done")
    return "item_1"


async def talking(client: DuplexClientBase) -> str:
    """Let the assistant talk; returns the response's id once it is heard."""
    with client.events() as events:
        await client.create_item("hello")
        await client.create_response()
        response_id = (await events.wait_for("response.output_audio.delta")).response_id
    assert response_id is not None
    return response_id


async def answered(client: DuplexClientBase) -> str:
    """Let the assistant say all it has to say."""
    with client.events() as events:
        response_id = await talking(client)
        await events.wait_for("response.done")
    return response_id


async def opened(client: DuplexClientBase) -> str:
    """Let the events of the opening pass."""
    with client.events() as events:
        await client.heartbeat()
        await events.wait_for("session.heartbeat_ack")
    return ""


@pytest.mark.parametrize(
    ("before", "say", "event", "fields"),
    [
        (opened, heard, "input_audio_buffer.speech_started", {}),
        (heard, lambda c: c.commit(), "input_audio_buffer.committed", {}),
        (heard, lambda c: c.commit(create_response=True), "response.created", {}),
        (heard, lambda c: c.clear_input(), "input_audio_buffer.cleared", {}),
        (heard, lambda c: c.cancel_input(), "input_audio_buffer.cleared", {}),
        (talking, lambda c: c.cancel_input(), "response.done", {}),
        (talking, lambda c: c.barge_in(), "response.done", {}),
        (talking, lambda c: c.cancel_response(), "response.done", {}),
        (talking, lambda c: c.clear_output(), "output_audio_buffer.cleared", {}),
        (talking, lambda c: c.ack_playback(20.7), "playback.acknowledged", {}),
        (opened, lambda c: c.create_item("hi", role="system"), "conversation.item.added", {}),
        (written, lambda c: c.create_item("a", previous_item_id="root"), "conversation.item.done", {}),
        (written, lambda c: c.create_response(modalities=["text"]), "response.output_text.delta", {}),
        (written, lambda c: c.retrieve_item("item_1"), "conversation.item.retrieved", {}),
        (written, lambda c: c.delete_item("item_1"), "conversation.item.deleted", {"item_id": "item_1"}),
        (opened, lambda c: c.update(instructions="briefly"), "session.updated", {}),
        (opened, lambda c: c.signal_turn("user_started"), "turn.event", {"turn_state": "user_speaking"}),
        (talking, lambda c: c.signal_turn("playback_ack", played_ms=5), "playback.acknowledged", {}),
        (opened, lambda c: c.signal_turn("session.update", session={}), "session.updated", {}),
        (opened, lambda c: c.heartbeat(), "session.heartbeat_ack", {}),
    ],
)
async def test_a_command_is_answered(
    run_engine: Run, autojump_clock: MockClock, before: Say, say: Say, event: str, fields: dict[str, Any]
) -> None:
    async with (
        run_engine(Script(otherwise=lambda _: LONG)) as engine,
        engine.client(config=BY_HAND) as client,
    ):
        await before(client)
        with client.events() as events:
            event_id = await say(client)
            assert event_id.startswith("evt_")
            answer = await events.wait_for(event)
        assert {name: answer.raw[name] for name in fields} == fields


async def test_an_answer_is_cut_to_what_was_heard(run_engine: Run, autojump_clock: MockClock) -> None:
    async with run_engine(Script(otherwise=lambda _: LONG)) as engine, engine.client() as client:
        response_id = await answered(client)
        with client.events() as events:
            await client.truncate_item(f"item_{response_id}", 900.5)
            assert (await events.wait_for("conversation.item.truncated")).raw["audio_end_ms"] == 900
            await client.retrieve_item(f"item_{response_id}")
            item = (await events.wait_for("conversation.item.retrieved")).raw["item"]
        kept = item["content"][0]["transcript"]
        assert LONG.startswith(kept)
        assert kept.startswith("Alpha bravo ")
        assert len(kept) < len("Alpha bravo charlie delta")


async def test_settings_that_change_are_in_the_session_info(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    async with run_engine() as engine, engine.client(config=BY_HAND) as client:
        await opened(client)
        with client.events() as events:
            await client.update(instructions="in rhymes", turn_detection={"type": "server_vad"})
            await events.wait_for("session.updated")
        assert client.session_info["instructions"] == "in rhymes"
        assert client.session_info["turn_detection"]["type"] == "server_vad"


@pytest.mark.parametrize(
    ("say", "code", "param"),
    [
        (lambda c: c.append_text("while you listen"), "native_text_append_unsupported", None),
        (lambda c: c.commit(), "input_audio_buffer_commit_empty", None),
        (lambda c: c.cancel_response("nobody"), "response_cancel_not_active", "response_id"),
        (lambda c: c.cancel_response(), "response_cancel_not_active", None),
        (lambda c: c.retrieve_item("nobody"), "item_retrieve_invalid_item_id", "item_id"),
        (lambda c: c.delete_item(""), "missing_item_id", "item_id"),
        (lambda c: c.truncate_item("nobody", 100), "item_not_found", "item_id"),
        (lambda c: c.ack_playback(100), "playback_item_not_found", None),
        (lambda c: c.send_function_output("nobody", "{}"), "invalid_function_call_output", None),
        (lambda c: c.update(temperature=99), "invalid_value", "session.temperature"),
        (lambda c: c.create_response(temperature="hot"), "invalid_value", "response.temperature"),
        (lambda c: c.append_audio(b""), "bad_event", "audio"),
        (lambda c: c.append_audio(bytes(640), video_frames=["AAAA"]), "invalid_video_frames", None),
        (lambda c: c.signal_turn(""), "bad_event", "event"),
        (lambda c: c.signal_turn("response.cancel", response_id=1), "bad_event", "payload.response_id"),
        (lambda c: c.send({"type": "novel"}), "unknown_event", "type"),
        (lambda c: c.send({"type": 7}), "bad_event", "type"),
        (lambda c: c.send({}), "bad_event", "type"),
        (lambda c: c.send({"type": "session.resume", "session_id": "s", "resume_token": "t"}),
         "unsupported_session_resume", None),
        (lambda c: c.send({"type": "session.event_ack", "server_event_seq": -1}), "invalid_event_ack", None),
        (lambda c: c.send({"type": "novel", "x": "x" * MAX_MESSAGE_BYTES}), "event_too_large", None),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_an_error_that_names_it_and_the_session_goes_on(
    run_both: Run, autojump_clock: MockClock, say: Say, code: str, param: str | None
) -> None:
    found = []
    for way in run_both():
        async with way as engine, engine.client(config=BY_HAND) as client:
            with client.events() as events:
                event_id = await say(client)
                with pytest.raises(DuplexProtocolError) as caught:
                    await events.wait_for("response.done")
                error = caught.value
                if code != "event_too_large":  # of that nothing is read
                    assert error.event_id == event_id
                found.append((error.code, error.param, error.message))
                await client.heartbeat()
                await events.wait_for("session.heartbeat_ack")
    assert found[0] == found[1]
    assert found[0][0] == code
    assert param in (None, found[0][1])


async def test_an_acknowledgment_of_events_is_taken_without_a_word(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    async with run_engine() as engine, engine.client(heartbeat_interval_s=1e6) as client:
        await opened(client)
        with client.events() as events:
            await client.send({"type": "session.event_ack", "server_event_seq": 1})
            await client.heartbeat()
            assert (await anext(events)).type == "session.heartbeat_ack"


async def test_what_is_no_json_is_refused_before_it_is_sent(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    async with run_engine() as engine, engine.client() as client:
        with pytest.raises(TypeError):
            await client.send({"type": "novel", "what": object()})
        with pytest.raises(ValueError, match="3 bytes"):
            await client.append_audio(b"123")
        await client.append_audio(b"12")
        assert await client.send({"type": "session.heartbeat", "event_id": "mine"}) == "mine"


@pytest.mark.parametrize(("realtime", "duration_s"), [(True, 0.5), (False, 0)])
async def test_a_stream_is_paced_by_the_clock(
    run_engine: Run, autojump_clock: MockClock, realtime: bool, duration_s: float
) -> None:
    async with run_engine() as engine, engine.client(config=BY_HAND) as client:
        begin_s = trio.current_time()
        assert await client.stream_pcm(TONE[:16_000], chunk_ms=200, realtime=realtime) == 3
        assert trio.current_time() - begin_s == pytest.approx(duration_s, abs=1e-6)
        with client.events() as events:
            await client.commit()
            await events.wait_for("input_audio_buffer.committed")


async def test_pictures_ride_along(run_engine: Run, autojump_clock: MockClock) -> None:
    """As data URLs too; a model that sees nothing refuses them by name."""
    jpeg = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(64)).decode()
    async with run_engine() as engine, engine.client(config=BY_HAND) as client:
        with client.events() as events:
            event_id = await client.append_audio(TONE, video_frames=[f"data:image/jpeg;base64,{jpeg}"])
            with pytest.raises(DuplexProtocolError) as caught:
                await events.wait_for("response.done")
        assert caught.value.event_id == event_id
        assert (caught.value.param or "").startswith("video_frames")
