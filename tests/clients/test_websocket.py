from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import orjson
import pytest
import trio
import trio_websocket
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from duplex_trio.clients import (
    AudioFormat,
    DuplexClient,
    DuplexConnectionError,
    DuplexLagError,
    DuplexProtocolError,
    DuplexSessionClosedError,
    SessionConfig,
)
from duplex_trio.clients.events import AudioDelta
from duplex_trio.clients.transport import Connect
from duplex_trio.clients.video import RealtimeVideoClient, VideoConnectionError
from duplex_trio.testing.wire_peer import Script, WirePeer, scripted

URL = "ws://test.invalid"


def client_of(
    nursery: trio.Nursery, script: Script, *, lockstep: bool = False, **options: object
) -> DuplexClient:
    connect = scripted(nursery, script, lockstep=lockstep)
    return DuplexClient(URL, connect=connect, **options)  # type: ignore[arg-type]


async def quiet(peer: WirePeer) -> None:
    """A server that opens and closes a session and says nothing between."""
    await peer.open_session()
    await peer.close_session()


# ---------------------------------------------------------------------- opening and closing


async def test_a_session_is_opened_with_the_config_and_closed(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    peers: list[WirePeer] = []

    async def script(peer: WirePeer) -> None:
        peers.append(peer)
        await peer.open_session({"model": "m"})
        await peer.close_session()

    config = SessionConfig(instructions="be brief")
    client = client_of(nursery, script, model="m", config=config, api_key="secret")
    async with client as entered:
        assert entered is client
        assert client.session_id == "duplex-1"
        assert client.session_info["model"] == "m"
        assert not client.closed
    assert client.closed
    (peer,) = peers
    assert peer.request.path == "/v1/realtime?duplex=1&model=m&autostart=0"
    assert (b"authorization", b"Bearer secret") in [
        (name.lower(), value) for name, value in peer.request.headers
    ]
    update, close = (command for command in peer.received if command["type"] != "session.event_ack")
    assert update["session"] == config.to_session_payload("m")
    assert update["event_id"].startswith("evt_")
    assert close["type"] == "session.close"


async def test_a_client_is_one_session(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    client = client_of(nursery, quiet)
    async with client:
        pass
    with pytest.raises(RuntimeError, match="one session"):
        async with client:
            pass


async def test_a_refused_session_is_a_protocol_error(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: WirePeer) -> None:
        update = await peer.receive()
        error = {
            "code": "invalid_value",
            "message": "no",
            "param": "session.voice",
            "event_id": update["event_id"],
        }
        await peer.send("error", error=error)
        await peer.close(1008, "no")

    with pytest.raises(DuplexProtocolError) as caught:
        async with client_of(nursery, script):
            pytest.fail("the session must not open")
    assert (caught.value.code, caught.value.param) == ("invalid_value", "session.voice")
    assert caught.value.event_id is not None
    assert caught.value.raw["type"] == "error"


async def test_a_close_instead_of_a_session_names_the_code(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: WirePeer) -> None:
        await peer.receive()
        await peer.close(1013, "full")

    with pytest.raises(DuplexConnectionError, match="1013 full") as caught:
        async with client_of(nursery, script):
            pytest.fail("the session must not open")
    assert caught.value.close_code == 1013


async def test_a_server_that_never_answers_is_given_up(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: WirePeer) -> None:
        await peer.receive()
        await trio.sleep(100)

    begin_s = trio.current_time()
    with pytest.raises(DuplexConnectionError, match="within 7 s"):
        async with client_of(nursery, script, handshake_timeout_s=7):
            pytest.fail("the session must not open")
    assert trio.current_time() - begin_s == pytest.approx(7, abs=1.1)


async def test_an_upgrade_that_is_refused_tells_the_status(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def refuse(stream: trio.abc.Stream) -> None:
        request = await trio_websocket.wrap_server_stream(nursery, stream)
        await request.reject(401, body=b"who are you")

    with pytest.raises(DuplexConnectionError, match="401: an API key is needed") as caught:
        async with DuplexClient(URL, connect=raw_server(nursery, refuse)):
            pytest.fail("the session must not open")
    assert caught.value.status == 401


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 101 Switching", b"SSH-2.0-OpenSSH_9.9\r\n"])
async def test_a_server_that_does_not_speak_websocket_is_a_connection_error(
    nursery: trio.Nursery, reply: bytes, autojump_clock: MockClock
) -> None:
    async def serve(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await stream.send_all(reply)
        await stream.aclose()

    with pytest.raises(DuplexConnectionError, match="during the WebSocket handshake"):
        async with DuplexClient(URL, connect=raw_server(nursery, serve)):
            pytest.fail("the session must not open")


async def test_a_server_that_cannot_be_reached_is_a_connection_error(autojump_clock: MockClock) -> None:
    async def connect(host: str, port: int, tls: bool) -> trio.abc.Stream:
        raise OSError(f"{host}:{port} is down")

    with pytest.raises(DuplexConnectionError, match=r"test\.invalid:80 is down"):
        async with DuplexClient(URL, connect=connect):
            pytest.fail("the session must not open")


@pytest.mark.parametrize(
    "kind", [DuplexClient, partial(RealtimeVideoClient, prompt="snow")], ids=["duplex", "video"]
)
async def test_a_host_that_cannot_be_one_is_a_connection_error(kind: Callable[..., Any]) -> None:
    with pytest.raises((DuplexConnectionError, VideoConnectionError), match="cannot connect to ws://aaaa"):
        async with kind(f"ws://{'a' * 70}.invalid"):
            pytest.fail("nothing must open")


@pytest.mark.parametrize(
    "kind", [DuplexClient, partial(RealtimeVideoClient, prompt="snow")], ids=["duplex", "video"]
)
@pytest.mark.parametrize("key", ["", "read from a file\n", "key\n", "a\x00b", "a b"])
def test_a_key_that_no_header_can_carry_is_refused_at_once(kind: Callable[..., Any], key: str) -> None:
    with pytest.raises(ValueError, match="api_key must be None, or a text without"):
        kind(URL, api_key=key)


async def test_the_body_gets_its_own_exception_back_and_the_server_a_goodbye(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    said_goodbye = trio.Event()

    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        await peer.receive("session.close")
        said_goodbye.set()

    with pytest.raises(KeyError, match="mine"):
        async with client_of(nursery, script):
            raise KeyError("mine")
    await said_goodbye.wait()


async def test_leaving_a_cancelled_body_takes_a_second_at_most(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        await trio.sleep_forever()

    with trio.CancelScope() as scope:
        async with client_of(nursery, script):
            scope.cancel()
            begin_s = trio.current_time()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trio.current_time() - begin_s <= 1.1
    nursery.cancel_scope.cancel()


async def test_close_gives_up_on_a_server_that_does_not_confirm(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        await trio.sleep(60)

    with pytest.raises(DuplexConnectionError, match="within 3 s"):
        async with client_of(nursery, script) as client:
            await client.close(timeout_s=3)


@pytest.mark.parametrize(
    ("code", "expected"), [(1000, nullcontext()), (1011, pytest.raises(DuplexConnectionError))]
)
async def test_a_server_that_answers_a_close_with_its_close_frame_alone(
    nursery: trio.Nursery,
    code: int,
    expected: AbstractContextManager[object],
    autojump_clock: MockClock,
) -> None:
    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        await peer.receive("session.close")
        await peer.close(code)

    with expected:
        async with client_of(nursery, script) as client:
            pass
    assert client.closed


# ---------------------------------------------------------------------- how a session can end


async def session_ending(
    nursery: trio.Nursery, ending: Callable[[WirePeer], Awaitable[None]]
) -> DuplexClient:
    """A client whose server ends the session in some way, read to its end; events before the end must
    arrive."""

    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        await peer.receive()
        await peer.send("turn.event", event="last words")
        await ending(peer)

    client = client_of(nursery, script)
    async with client:
        events = client.events()
        await client.commit()
        seen = []
        try:
            async for event in events:
                seen.append(event.type)
        finally:
            assert "turn.event" in seen
            with pytest.raises((DuplexSessionClosedError, DuplexConnectionError, DuplexProtocolError)):
                await client.commit()
    return client


async def test_session_closed_ends_iteration(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async def ending(peer: WirePeer) -> None:
        await peer.send("session.closed", reason="bye")
        await peer.close(1000, "bye")

    client = await session_ending(nursery, ending)
    with pytest.raises(DuplexSessionClosedError, match="bye"):
        await client.wait_for("response.done")


async def test_session_expired_raises(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async def ending(peer: WirePeer) -> None:
        await peer.send("session.expired", reason="idle_ttl_expired")

    with pytest.raises(DuplexSessionClosedError) as caught:
        await session_ending(nursery, ending)
    assert caught.value.reason == "idle_ttl_expired"


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        (WirePeer.hang_up, "1006"),
        (lambda peer: peer.close(1011, "oops"), "1011 oops"),
        (lambda peer: peer.close(1000, "idle_timeout"), "1000 idle_timeout"),
    ],
)
async def test_a_lost_connection_raises(
    nursery: trio.Nursery,
    ending: Callable[[WirePeer], Awaitable[None]],
    message: str,
    autojump_clock: MockClock,
) -> None:
    with pytest.raises(DuplexConnectionError, match=message):
        await session_ending(nursery, ending)


@pytest.mark.parametrize(
    ("frame", "code"), [("{", "invalid_json"), ("[]", "bad_event"), ('{"type":1}', "bad_event")]
)
async def test_what_is_no_event_ends_the_session(
    nursery: trio.Nursery, frame: str, code: str, autojump_clock: MockClock
) -> None:
    with pytest.raises(DuplexProtocolError) as caught:
        await session_ending(nursery, lambda peer: peer.send_raw(frame))
    assert caught.value.code == code


async def test_a_silent_server_is_given_up_after_a_heartbeat(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        await peer.receive("session.heartbeat")
        await peer.send("session.heartbeat_ack", session_id="duplex-1")
        await peer.receive("session.heartbeat")
        await trio.sleep(60)

    async with client_of(nursery, script, heartbeat_interval_s=10) as client:
        begin_s = trio.current_time()
        with pytest.raises(DuplexConnectionError, match="after a heartbeat"):
            await _read_events(client)
    assert 29 < trio.current_time() - begin_s < 33


# ---------------------------------------------------------------------- events


async def test_events_come_in_order_to_every_subscriber_and_unknown_types_too(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        await peer.receive()
        await peer.send_raw(b"binary frames are not for us")
        for number in range(5):
            await peer.send(f"novel.{number}")
        await peer.close_session()

    async with client_of(nursery, script) as client:
        first, second = client.events(), client.events()
        await client.commit()
        assert (await first.wait_for("novel.4")).type == "novel.4"
        late = client.events()
    seen = [event.type async for event in second if event.type != "session.updated"]
    assert seen == [f"novel.{n}" for n in range(5)] + ["session.closed"]
    assert [event.type async for event in late] == ["session.closed"]


async def test_a_slow_subscriber_loses_only_itself_and_knows(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        await peer.receive()
        for number in range(10):
            await peer.send("novel", number=number)
        await peer.send("turn.event")
        await peer.close_session()

    async with client_of(nursery, script) as client:
        await client.wait_for("session.updated")
        slow, quick = client.events(events_max=4), client.events()
        await client.commit()
        await quick.wait_for("turn.event")
        assert [(await anext(slow)).raw["number"] for _ in range(4)] == [0, 1, 2, 3]
        with pytest.raises(DuplexLagError):
            await anext(slow)
        assert not client.closed


async def test_waiting_raises_the_error_that_comes_first_unless_it_is_asked_for(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        for _ in range(2):
            await peer.receive()
            await peer.send("error", error={"code": "bad_event", "message": "m", "type": "t"})
        await peer.close_session()

    async with client_of(nursery, script) as client:
        with client.events() as events:
            await client.commit()
            with pytest.raises(DuplexProtocolError, match="bad_event"):
                await events.wait_for("input_audio_buffer.committed")
        with client.events() as events:
            await client.commit()
            assert (await events.wait_for("error")).type == "error"
        with pytest.raises(trio.TooSlowError):
            await client.wait_for("response.done", timeout_s=1)


async def test_journaled_events_are_acknowledged_and_never_seen_twice(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    acknowledged: list[int] = []

    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        await peer.receive()
        for seq in (2, 3, 3, 2, 4):
            await peer.send("novel", server_event_seq=seq)
        while 4 not in acknowledged:
            acknowledged.append((await peer.receive("session.event_ack"))["server_event_seq"])
        await peer.close_session()

    async with client_of(nursery, script) as client:
        events = client.events()
        await client.commit()
        await trio.sleep(2)
    assert [event.server_event_seq async for event in events if event.type == "novel"] == [2, 3, 4]
    assert acknowledged == sorted(set(acknowledged))
    assert len(acknowledged) <= 3


async def test_answers_are_told_apart(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    def delta(response_id: str, pcm: bytes) -> dict[str, object]:
        audio = base64.b64encode(pcm).decode()
        return {"response_id": response_id, "delta": audio, "sample_rate_hz": 24000}

    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        await peer.receive("response.create")
        await peer.send("response.created", response={"id": "a"})
        await peer.send("response.output_audio.delta", **delta("a", b"aa"))
        await peer.receive("barge_in")
        await peer.send("response.done", response={"id": "a", "status": "cancelled"})
        await peer.send("response.created", response={"id": "b"})
        await peer.send("response.output_audio.delta", **delta("b", b"bb"))
        await peer.send("response.output_audio.delta", **delta("b", b"BB"))
        await peer.send("response.done", response={"id": "b", "status": "completed"})
        await peer.close_session()

    heard: dict[str | None, bytes] = {}
    async with client_of(nursery, script) as client:
        responses = client.responses()
        assert client.responses() is responses
        await client.create_response(instructions="talk")
        async for response in responses:
            heard[response.response_id] = b""
            async for pcm in response.audio():
                heard[response.response_id] += pcm
                if response.response_id == "a":
                    await client.barge_in()
            if response.response_id == "b":
                break
    assert heard == {"a": b"aa", "b": b"bbBB"}


async def test_sound_that_is_not_base64_ends_the_session_of_one_who_plays_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        await peer.receive()
        await peer.send("response.output_audio.delta", response_id="a", delta="@@@@")
        await peer.receive("session.close")

    async with client_of(nursery, script) as client:
        responses = client.responses()
        await client.commit()
        with pytest.raises(DuplexProtocolError, match="bad_audio"):
            await anext(responses)


# ---------------------------------------------------------------------- commands


async def test_every_command_is_what_the_wire_asks_for(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    peers: list[WirePeer] = []

    async def script(peer: WirePeer) -> None:
        peers.append(peer)
        await quiet(peer)

    async with client_of(nursery, script) as client:
        await client.append_audio(b"\1\0" * 320)
        await client.append_audio(b"\1\0" * 160, is_speech=True, video_frames=["data:image/png;base64,iVBO"])
        await client.commit()
        await client.commit(final=False, create_response=True)
        await client.clear_input()
        await client.create_response()
        await client.create_response(instructions="i", metadata={"k": "v"})
        await client.cancel_response()
        await client.cancel_response("r")
        await client.barge_in()
        await client.ack_playback(12.9, response_id="r")
        await client.ack_playback(12, item_id="item_r", committed_ms=11.5)
        await client.create_item("hello", item_id="item_1", previous_item_id="root")
        await client.create_item("hi", role="assistant")
        assert await client.send({"type": "novel", "event_id": "mine"}) == "mine"

    def append(pcm: bytes, **more: object) -> dict[str, object]:
        fixed = {"type": "input_audio_buffer.append", "format": "pcm16", "sample_rate_hz": 16000}
        return fixed | {"audio": base64.b64encode(pcm).decode()} | more

    sent = [command for command in peers[0].received if command["type"] != "session.event_ack"]
    assert len({command.pop("event_id") for command in sent}) == len(sent)
    assert sent[1:-1] == [
        append(b"\1\0" * 320, duration_ms=20, audio_end_ms=20),
        append(b"\1\0" * 160, duration_ms=10, audio_end_ms=30, is_speech=True, video_frames=["iVBO"]),
        {"type": "input_audio_buffer.commit"},
        {"type": "input_audio_buffer.commit", "final": False, "response_create": True},
        {"type": "input_audio_buffer.clear"},
        {"type": "response.create"},
        {"type": "response.create", "response": {"instructions": "i", "metadata": {"k": "v"}}},
        {"type": "response.cancel"},
        {"type": "response.cancel", "response_id": "r"},
        {"type": "barge_in"},
        {"type": "playback.ack", "played_ms": 12, "response_id": "r"},
        {"type": "playback.ack", "played_ms": 12, "committed_ms": 11, "item_id": "item_r"},
        {
            "type": "conversation.item.create",
            "item": {
                "type": "message",
                "object": "realtime.item",
                "role": "user",
                "id": "item_1",
                "content": [{"type": "input_text", "text": "hello"}],
            },
            "previous_item_id": "root",
        },
        {
            "type": "conversation.item.create",
            "item": {
                "type": "message",
                "object": "realtime.item",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "hi"}],
            },
        },
        {"type": "novel"},
    ]


async def test_a_broken_sample_is_refused_before_it_is_sent(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async with client_of(nursery, quiet) as client:
        with pytest.raises(ValueError, match="3 bytes"):
            await client.append_audio(b"123")
        await client.append_audio(b"12")


@pytest.mark.parametrize(("realtime", "duration_s"), [(True, 0.5), (False, 0)])
async def test_a_stream_is_paced_by_the_clock(
    nursery: trio.Nursery, realtime: bool, duration_s: float, autojump_clock: MockClock
) -> None:
    appended: list[dict[str, object]] = []

    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        for _ in range(3):
            appended.append(await peer.receive("input_audio_buffer.append"))
        await peer.close_session()

    config = SessionConfig(input_audio=AudioFormat("pcm16", 1000))
    async with client_of(nursery, script, config=config) as client:
        begin_s = trio.current_time()
        assert await client.stream_pcm(bytes(1000), chunk_ms=200, realtime=realtime) == 3
        assert trio.current_time() - begin_s == pytest.approx(duration_s, abs=1e-6)
    assert [command["audio_end_ms"] for command in appended] == [200, 400, 500]


# ---------------------------------------------------------------------- cancellation


async def _append_forever(client: DuplexClient) -> None:
    while True:
        await client.append_audio(bytes(64_000))


async def _read_sound(client: DuplexClient) -> None:
    async for response in client.responses():
        async for _pcm in response.audio():
            pass


async def _read_events(client: DuplexClient) -> None:
    async for _event in client:
        pass


async def _wait_for(client: DuplexClient) -> None:
    await client.wait_for("response.done")


async def _stream(client: DuplexClient) -> None:
    await client.stream_pcm(bytes(3_200_000))


@pytest.mark.parametrize("activity", [_append_forever, _read_sound, _read_events, _wait_for, _stream])
async def test_a_cancelled_activity_leaves_the_session_usable(
    nursery: trio.Nursery, activity: Callable[[DuplexClient], Awaitable[None]], autojump_clock: MockClock
) -> None:
    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        await peer.send("response.output_audio.delta", response_id="a", delta="AAAA")
        # Reads nothing for a while, so that a sender comes to wait at each of its awaits.
        await trio.sleep(2)
        await peer.receive("input_audio_buffer.commit")
        await peer.send("input_audio_buffer.committed")
        await peer.close_session()

    async with client_of(nursery, script, lockstep=True) as client:
        client.responses()
        with trio.move_on_after(1) as scope:
            await activity(client)
        assert scope.cancelled_caught
        with client.events() as events:
            await client.commit()
            await events.wait_for("input_audio_buffer.committed")


@pytest.mark.parametrize("stuck_at", ["connecting", "upgrade", "session"])
async def test_opening_can_be_cancelled_at_each_step_and_leaves_no_stream_open(
    nursery: trio.Nursery, stuck_at: str, autojump_clock: MockClock
) -> None:
    streams: list[trio.abc.Stream] = []

    async def connect(_host: str, _port: int, _tls: bool) -> trio.abc.Stream:
        if stuck_at == "connecting":
            await trio.sleep_forever()
        ours, theirs = memory_stream_pair()
        streams.append(theirs)
        if stuck_at == "session":
            nursery.start_soon(accept, theirs)
        return ours

    async def accept(stream: trio.abc.Stream) -> None:
        request = await trio_websocket.wrap_server_stream(nursery, stream)
        socket = await request.accept()
        await socket.get_message()
        assert orjson.loads(await socket.get_message())["type"] == "session.close"
        with pytest.raises(trio_websocket.ConnectionClosed):
            await socket.get_message()

    with trio.move_on_after(1) as scope:
        async with DuplexClient(URL, connect=connect):
            pytest.fail("the session must not open")
    assert scope.cancelled_caught
    for stream in streams:
        if stuck_at == "upgrade":
            while await stream.receive_some():
                pass
        await trio.aclose_forcefully(stream)


async def test_a_sender_that_waits_is_released_when_the_connection_breaks(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    broken = trio.Event()

    async def script(peer: WirePeer) -> None:
        await peer.open_session()
        await broken.wait()
        await peer.hang_up()

    async with client_of(nursery, script, lockstep=True) as client:
        nursery.start_soon(break_later, broken)
        with pytest.raises((DuplexConnectionError, DuplexSessionClosedError)):
            await _append_forever(client)


async def break_later(broken: trio.Event) -> None:
    await wait_all_tasks_blocked()
    broken.set()


def raw_server(nursery: trio.Nursery, serve: Callable[[trio.abc.Stream], Awaitable[None]]) -> Connect:
    async def connect(_host: str, _port: int, _tls: bool) -> trio.abc.Stream:
        ours, theirs = memory_stream_pair()
        nursery.start_soon(serve, theirs)
        return ours

    return connect


async def test_a_real_socket_works_too(nursery: trio.Nursery) -> None:
    """Over loopback, with the `connect` that users get."""

    async def handler(request: trio_websocket.WebSocketRequest) -> None:
        socket = await request.accept()
        peer = WirePeer(request, socket, trio.testing.memory_stream_pair()[0])
        await peer.open_session()
        await peer.receive()
        await peer.send("response.output_audio.delta", response_id="a", delta="AAAA")
        await peer.close_session()

    server = await nursery.start(trio_websocket.serve_websocket, handler, "127.0.0.1", 0, None)
    async with DuplexClient(f"http://127.0.0.1:{server.port}") as client:
        events = client.events()
        await client.commit()
        event = await events.wait_for("response.output_audio.delta")
        assert isinstance(event, AudioDelta)
        assert event.audio == b"\0\0\0"
    nursery.cancel_scope.cancel()
