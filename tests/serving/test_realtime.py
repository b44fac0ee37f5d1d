"""One WebSocket against an engine that only remembers: what the transport decides, sends and passes on."""

from typing import Any

import orjson
import pytest
import trio

from duplex_trio.engine import SessionEnd
from duplex_trio.protocol.duplex import (
    ErrorEvent,
    Heartbeat,
    OutputAudioBufferCleared,
    RealtimeError,
    SessionClosed,
    SessionHeartbeatAck,
)

HEARTBEAT = '{"type":"session.heartbeat"}'


async def session_of(omni: Any, number: int = 0) -> Any:
    with trio.fail_after(10):
        while len(omni.handles) <= number:
            await trio.testing.wait_all_tasks_blocked()
    return omni.handles[number]


async def test_the_ga_session_opens_before_the_client_has_said_anything(omni: Any, open_socket: Any) -> None:
    socket = await open_socket("/v1/realtime?model=gpt-9")
    assert (await socket.accepted())["subprotocol"] is None
    await session_of(omni)
    assert omni.opened == [("ga", "gpt-9", None)]
    await socket.disconnect()


async def test_without_a_model_the_served_one_is_opened(omni: Any, open_socket: Any) -> None:
    socket = await open_socket("/v1/realtime", {"openai-beta": "realtime=v1"})
    await session_of(omni)
    assert omni.opened == [("beta", "test-model", None)]
    await socket.disconnect()


async def test_the_duplex_session_waits_for_its_configuration(omni: Any, open_socket: Any) -> None:
    socket = await open_socket("/v1/duplex")
    await socket.accepted()
    await trio.testing.wait_all_tasks_blocked()
    assert omni.opened == []
    await socket.text('{"type":"session.update","session":{"voice":"v"}}')
    await session_of(omni)
    assert omni.opened == [("duplex", "test-model", {"voice": "v"})]
    await socket.disconnect()


async def test_a_first_command_is_run_in_the_session_it_opens(omni: Any, open_socket: Any) -> None:
    socket = await open_socket("/v1/duplex")
    await socket.text(HEARTBEAT)
    session = await session_of(omni)
    await session.until(lambda: session.commands == [Heartbeat()])
    await socket.disconnect()


async def test_a_faulty_first_message_is_reported_by_the_session_it_opens(
    omni: Any, open_socket: Any
) -> None:
    socket = await open_socket("/v1/duplex")
    await socket.text('{"type":"nonsense","event_id":"e"}')
    session = await session_of(omni)
    await session.until(lambda: len(session.refused) == 1)
    assert (session.refused[0].code, session.refused[0].event_id) == ("unknown_event", "e")
    await socket.disconnect()


async def test_silence_times_out_after_the_stated_time(open_socket: Any, autojump_clock: Any) -> None:
    started = trio.current_time()
    socket = await open_socket("/v1/duplex")
    await socket.accepted()
    event = await socket.event()
    assert trio.current_time() - started == pytest.approx(10.0)
    assert event["error"]["code"] == "config_timeout"
    assert event["event_id"].startswith("event_")
    assert await socket.closed() == (1008, "config_timeout")


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ("no json", "invalid_json"),
        ("[]", "bad_event"),
        ('"' + "x" * (15 * 1024 * 1024) + '"', "event_too_large"),
        ('{"type":"session.resume","session_id":"s","resume_token":"t"}', "unsupported_session_resume"),
        (HEARTBEAT, "bad_event"),
        (b"\x00", "bad_event"),
    ],
    ids=["no json", "no object", "too large", "resume", "not an opening", "binary"],
)
async def test_a_refused_handshake_says_why_and_closes(
    omni: Any, open_socket: Any, first: Any, code: str
) -> None:
    socket = await open_socket("/v1/duplex?autostart=0")
    await socket.accepted()
    await (socket.binary(first) if isinstance(first, bytes) else socket.text(first))
    assert (await socket.event())["error"]["code"] == code
    assert await socket.closed() == (1008, code)
    assert omni.opened == []


@pytest.mark.parametrize(
    ("refusal", "close"),
    [
        (RealtimeError("resource_exhausted", "full"), (1013, "resource_exhausted")),
        (RealtimeError("unsupported_audio_format", "no", param="audio"), (1008, "unsupported_audio_format")),
        (RealtimeError("engine_error", "no"), (1011, "engine_error")),
    ],
)
async def test_a_session_that_cannot_be_opened_is_an_error_and_a_close(
    omni: Any, open_socket: Any, refusal: RealtimeError, close: tuple[int, str]
) -> None:
    omni.refusal = refusal
    socket = await open_socket("/v1/realtime")
    await socket.accepted()
    error = (await socket.event())["error"]
    assert (error["code"], error.get("param")) == (refusal.code, refusal.param)
    assert await socket.closed() == close


async def test_a_session_refused_for_its_object_names_the_message(omni: Any, open_socket: Any) -> None:
    omni.refusal = RealtimeError("unsupported_audio_format", "no", param="session.input_audio_format")
    socket = await open_socket("/v1/duplex")
    await socket.accepted()
    await socket.text('{"type":"session.update","event_id":"e1","session":{"input_audio_format":"mp3"}}')
    error = (await socket.event())["error"]
    assert (error["code"], error["event_id"]) == ("unsupported_audio_format", "e1")
    assert error["param"] == "session.input_audio_format"
    assert await socket.closed() == (1008, "unsupported_audio_format")


async def test_a_client_that_leaves_before_its_session_is_forgotten(omni: Any, open_socket: Any) -> None:
    socket = await open_socket("/v1/duplex")
    await socket.accepted()
    await socket.disconnect()
    with pytest.raises(trio.EndOfChannel):
        await socket.next()
    assert omni.opened == []


async def test_commands_arrive_in_order_and_faults_between_them_are_refused(
    omni: Any, open_socket: Any
) -> None:
    socket = await open_socket()
    session = await session_of(omni)
    for number in range(3):
        await socket.text(f'{{"type":"session.heartbeat","event_id":"e{number}"}}')
    await socket.text("{")
    await socket.text('{"type":"session.heartbeat","event_id":"e3"}')
    await session.until(lambda: len(session.commands) == 4)
    assert [command.event_id for command in session.commands] == ["e0", "e1", "e2", "e3"]
    assert [error.code for error in session.refused] == ["invalid_json"]
    await socket.disconnect()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"type":"session.heartbeat","x":"' + "x" * (15 * 1024 * 1024) + '"}', "event_too_large"),
        (
            '{"type":"session.resume","event_id":"e","session_id":"s","resume_token":"t"}',
            "unsupported_session_resume",
        ),
        (None, "bad_event"),
    ],
    ids=["too large", "late resume", "binary"],
)
async def test_the_session_survives_what_the_transport_refuses(
    omni: Any, open_socket: Any, text: str | None, code: str
) -> None:
    socket = await open_socket()
    session = await session_of(omni)
    await (socket.binary(b"\x00\x01") if text is None else socket.text(text))
    await socket.text(HEARTBEAT)
    await session.until(lambda: session.commands == [Heartbeat()])
    assert [error.code for error in session.refused] == [code]
    await socket.disconnect()


async def test_an_event_ack_beyond_the_last_event_is_refused(omni: Any, open_socket: Any) -> None:
    socket = await open_socket()
    session = await session_of(omni)
    await socket.text('{"type":"session.event_ack","server_event_seq":0}')
    await socket.text('{"type":"session.event_ack","server_event_seq":3,"event_id":"a1"}')
    await socket.text(HEARTBEAT)
    await session.until(lambda: session.commands == [Heartbeat()])
    refused = [(error.code, error.param, error.event_id) for error in session.refused]
    assert refused == [("invalid_event_ack", "server_event_seq", "a1")]
    await socket.disconnect()


async def test_events_are_written_in_the_clients_dialect(omni: Any, open_socket: Any) -> None:
    ga, duplex = await open_socket(), await open_socket("/v1/duplex?model=m")
    await session_of(omni, 1)
    event = SessionHeartbeatAck(event_id="event_1", session_id="s", client_event_count=1)
    for socket, session in zip((ga, duplex), omni.handles, strict=True):
        await socket.accepted()
        await session.attachment.send(event)
        await session.attachment.send(OutputAudioBufferCleared(event_id="event_2", response_id="r"))
    assert (await ga.event())["event_id"] == "event_2"  # the acknowledgement is not OpenAI's
    assert (await duplex.event())["type"] == "session.heartbeat_ack"
    assert (await duplex.event())["event_id"] == "event_2"
    await ga.disconnect()
    await duplex.disconnect()


async def test_the_session_says_goodbye_itself(omni: Any, open_socket: Any) -> None:
    socket = await open_socket("/v1/duplex?model=m")
    session = await session_of(omni)
    await socket.accepted()
    await session.attachment.send(SessionClosed(event_id="event_1", session_id="s", reason="done"))
    await session.attachment.close(1000, "a reason that is too long " * 10)
    session.ended.set()
    assert (await socket.event())["reason"] == "done"
    code, reason = await socket.closed()
    assert code == 1000
    assert len(reason) == 123
    with pytest.raises(trio.EndOfChannel):  # the application has returned, and closed nothing twice
        await socket.next()


async def test_a_session_that_ends_without_a_word_is_closed_with_its_reason(
    omni: Any, open_socket: Any
) -> None:
    socket = await open_socket()
    session = await session_of(omni)
    await socket.accepted()
    session.end = SessionEnd("slow_reader", code=1008)
    session.ended.set()
    assert await socket.closed() == (1008, "slow_reader")


async def test_a_client_that_leaves_is_reported_and_no_longer_written_to(omni: Any, open_socket: Any) -> None:
    socket = await open_socket()
    session = await session_of(omni)
    await socket.accepted()
    await socket.disconnect()
    await session.until(lambda: session.disconnects > 0)
    with pytest.raises(trio.BrokenResourceError):
        await session.attachment.send(ErrorEvent.from_error(RealtimeError("bad_event", "x"), event_id="e"))
    await session.attachment.close(1000, "bye")
    with pytest.raises(trio.EndOfChannel):
        await socket.next()


async def test_a_cancelled_application_reports_its_client_gone(
    omni: Any, app_for: Any, autojump_clock: Any
) -> None:
    async def receive() -> Any:
        return {"type": "websocket.connect"} if not omni.handles else await trio.sleep_forever()

    async def send(message: Any) -> None:
        await trio.lowlevel.checkpoint()

    scope = {"type": "websocket", "path": "/v1/realtime", "query_string": b"", "headers": [], "client": None}
    with trio.move_on_after(1):
        await app_for()(scope, receive, send)
    assert omni.handles[0].disconnects == 1


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("/v1/realtime/video", "serves no video"),
        ("/v1/realtime/", "there is no WebSocket"),
        ("/v1/realtime?duplex=0", "turn-based"),
    ],
)
async def test_an_unavailable_websocket_accepts_explains_and_closes(
    open_socket: Any, target: str, word: str
) -> None:
    socket = await open_socket(target, subprotocols=("realtime",))
    assert (await socket.accepted())["subprotocol"] == "realtime"
    event = await socket.event()
    assert event["type"] == "error"
    assert (event["error"]["type"], event["error"]["code"]) == ("invalid_request_error", "unsupported")
    assert word in event["error"]["message"]
    assert await socket.closed() == (1008, "unsupported")


async def test_a_wrong_key_is_refused_before_the_upgrade(omni: Any, open_socket: Any) -> None:
    socket = await open_socket(
        "/v1/realtime", subprotocols=("realtime", "openai-insecure-api-key.wrong"), api_keys=("sk-test",)
    )
    start, body = await socket.next(), await socket.next()
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 401)
    assert orjson.loads(body["body"])["error"]["code"] == "invalid_api_key"
    assert omni.opened == []


async def test_a_server_without_http_responses_still_refuses(open_socket: Any) -> None:
    socket = await open_socket("/v1/realtime", api_keys=("sk-test",), extensions={})
    assert await socket.next() == {"type": "websocket.close"}


async def test_a_browser_with_the_right_key_gets_realtime_and_never_its_key(
    omni: Any, open_socket: Any
) -> None:
    socket = await open_socket(
        "/v1/realtime", subprotocols=("realtime", "openai-insecure-api-key.sk-test"), api_keys=("sk-test",)
    )
    assert (await socket.accepted())["subprotocol"] == "realtime"
    await session_of(omni)
    await socket.disconnect()
