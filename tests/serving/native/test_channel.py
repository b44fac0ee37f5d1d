"""A native WebSocket over a pipe in memory: messages, pings, closing, and who is told what."""

import struct
from typing import Any

import pytest
import trio
import trio.testing

from duplex_trio.engine import ResumeGrant
from duplex_trio.protocol.dialects import Dialect
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.serving.channel import ChannelClosedError
from duplex_trio.serving.native.channel import TURNS_MAX, NativeChannel
from duplex_trio.serving.session_log import SessionLog
from duplex_trio.serving.socket_attachment import SocketAttachment
from duplex_trio.testing.raw_websocket import BINARY, CLOSE, FIN, PING, PONG, TEXT, frame

HEAD_END = b"\r\n\r\n"


def after_head(pipe: Any) -> bytes:
    """What was written behind the response's head."""
    return bytes(pipe.sent.partition(HEAD_END)[2])


async def accept(channel: NativeChannel) -> None:
    await channel.accept("realtime")


async def test_accepting_writes_the_answer(pipe: Any, channel: NativeChannel) -> None:
    await channel.accept("realtime")
    assert pipe.sent.startswith(b"HTTP/1.1 101 ")
    assert b"sec-websocket-protocol: realtime\r\n" in pipe.sent
    assert b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in pipe.sent


async def test_messages_come_one_by_one_and_binary_ones_as_none(pipe: Any, channel: NativeChannel) -> None:
    await accept(channel)
    pipe.arrive(frame(FIN | TEXT, b"one") + frame(FIN | BINARY, b"x") + frame(TEXT, b"t") + frame(FIN, b"wo"))
    assert [await channel.receive() for _ in range(3)] == ["one", None, "two"]


async def test_many_messages_at_once_leave_others_their_turn(pipe: Any, channel: NativeChannel) -> None:
    await accept(channel)
    pipe.arrive(frame(FIN | TEXT, b"m") * 10 * TURNS_MAX)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for _ in range(10 * TURNS_MAX):
            assert await channel.receive() == "m"
        assert turns >= 5
        nursery.cancel_scope.cancel()


async def test_no_message_is_lost_to_a_cancellation(pipe: Any, channel: NativeChannel) -> None:
    await accept(channel)
    count = 3 * TURNS_MAX
    pipe.arrive(b"".join(frame(FIN | TEXT, str(number).encode()) for number in range(count)))
    seen: list[str | None] = []
    while len(seen) < count:
        with trio.CancelScope() as scope:
            scope.cancel()
            seen.append(await channel.receive())
            continue
        seen.append(await channel.receive())
    assert seen == [str(number) for number in range(count)]


async def test_pings_are_answered_while_messages_are_read(
    pipe: Any, channel: NativeChannel, frames_in: Any
) -> None:
    await accept(channel)
    pipe.arrive(frame(FIN | PING, b"p") + frame(FIN | PONG, b"unasked") + frame(FIN | TEXT, b"m"))
    assert await channel.receive() == "m"
    assert [(f.opcode, f.payload) for f in frames_in(after_head(pipe))] == [(PONG, b"p")]


@pytest.mark.parametrize("end", ["end", "lose"])
async def test_a_client_that_goes_without_a_word_is_1006(pipe: Any, channel: NativeChannel, end: str) -> None:
    await accept(channel)
    pipe.arrive(frame(FIN | TEXT, b"last") + frame(FIN | TEXT, b"cut")[:-1])
    getattr(pipe, end)()
    assert await channel.receive() == "last"
    with pytest.raises(ChannelClosedError) as closed:
        await channel.receive()
    assert closed.value.code == 1006


@pytest.mark.parametrize(("payload", "code"), [(b"", 1005), (struct.pack("!H", 4321) + b"bye", 4321)])
async def test_a_close_frame_is_answered_with_its_code(
    pipe: Any, channel: NativeChannel, frames_in: Any, payload: bytes, code: int
) -> None:
    async def serve(_: Any) -> None:
        await accept(channel)
        with pytest.raises(ChannelClosedError) as closed:
            await channel.receive()
        assert closed.value.code == code
        with pytest.raises(trio.BrokenResourceError):
            await channel.send(b"late")

    pipe.arrive(frame(FIN | CLOSE, payload))
    await channel.run(serve)  # does not wait for anything more
    (answer,) = frames_in(after_head(pipe))
    assert (answer.opcode, answer.close_code) == (CLOSE, code)


async def test_a_broken_rule_is_answered_with_its_code_and_waits_for_the_peer(
    pipe: Any, channel: NativeChannel, frames_in: Any, autojump_clock: Any
) -> None:
    async def serve(_: Any) -> None:
        await accept(channel)
        with pytest.raises(ChannelClosedError) as closed:
            await channel.receive()
        assert closed.value.code == 1007

    pipe.arrive(frame(FIN | TEXT, b"\xff") + frame(FIN | TEXT, b"late"))
    started = trio.current_time()
    await channel.run(serve)
    assert trio.current_time() - started == pytest.approx(1.0)  # the quiet time
    (answer,) = frames_in(after_head(pipe))
    assert answer.close_code == 1007


async def test_our_close_frame_comes_last_and_its_answer_is_waited_for(
    pipe: Any, channel: NativeChannel, frames_in: Any, autojump_clock: Any
) -> None:
    async def serve(_: Any) -> None:
        await accept(channel)
        await channel.send(b"bye")
        await channel.close(1000, "over")
        await channel.close(1011, "again")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run, serve)
        await trio.sleep(0.9)
        pipe.arrive(frame(FIN | PING, b"p") + frame(FIN | TEXT, b"late"))
        await trio.sleep(0.9)
        pipe.arrive(frame(FIN | CLOSE, struct.pack("!H", 1000)))
    assert trio.current_time() == pytest.approx(1.8)
    text, close = frames_in(after_head(pipe))
    assert text.payload == b"bye"
    assert (close.close_code, close.close_reason) == (1000, "over")


async def test_an_answer_that_was_there_before_is_not_waited_for(
    pipe: Any, channel: NativeChannel, autojump_clock: Any
) -> None:
    async def serve(_: Any) -> None:
        await accept(channel)
        assert await channel.receive() == "m"
        await channel.close(1000, "over")

    pipe.arrive(frame(FIN | TEXT, b"m") + frame(FIN | TEXT, b"unread") + frame(FIN | CLOSE, b""))
    await channel.run(serve)
    assert trio.current_time() == 0


async def test_a_peer_that_never_stops_is_left_after_a_while(
    pipe: Any, channel: NativeChannel, autojump_clock: Any
) -> None:
    async def flood() -> None:
        while True:
            pipe.arrive(frame(FIN | TEXT, b"flood"))
            await trio.sleep(0.5)

    async def serve(_: Any) -> None:
        await accept(channel)
        await channel.close(1000, "over")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(flood)
        await channel.run(serve)
        nursery.cancel_scope.cancel()
    assert trio.current_time() == pytest.approx(10.0)


@pytest.mark.parametrize("error", [RuntimeError("x"), ExceptionGroup("x", [RuntimeError("x")])])
async def test_what_fails_in_a_session_is_1011(
    pipe: Any, channel: NativeChannel, frames_in: Any, autojump_clock: Any, error: Exception
) -> None:
    async def serve(_: Any) -> None:
        await accept(channel)
        raise error

    await channel.run(serve)
    (close,) = frames_in(after_head(pipe))
    assert close.close_code == 1011


async def test_what_fails_before_the_answer_is_500(
    pipe: Any, channel: NativeChannel, autojump_clock: Any
) -> None:
    async def serve(_: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise RuntimeError

    await channel.run(serve)
    assert pipe.sent.startswith(b"HTTP/1.1 500 ")
    assert pipe.writing_ended


async def test_a_refusal_is_a_response_and_the_end(
    pipe: Any, channel: NativeChannel, autojump_clock: Any
) -> None:
    async def serve(_: Any) -> None:
        await channel.deny(401, b"{}", [(b"www-authenticate", b"Bearer")])

    await channel.run(serve)
    assert pipe.sent.startswith(b"HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\n")
    assert pipe.sent.endswith(b"\r\n\r\n{}")
    assert pipe.writing_ended


async def test_sending_waits_for_a_client_that_does_not_read_and_can_be_cancelled(
    pipe: Any, channel: NativeChannel, frames_in: Any, autojump_clock: Any
) -> None:
    await accept(channel)
    pipe.room = 2
    with trio.move_on_after(3) as scope:
        await channel.send(b"first")
    assert scope.cancelled_caught
    pipe.make_room(1000)
    await channel.close(1001, "away")
    first, close = frames_in(after_head(pipe))
    assert first.payload == b"first"
    assert close.close_code == 1001


async def test_a_client_that_never_reads_again_is_lost(
    pipe: Any, channel: NativeChannel, autojump_clock: Any
) -> None:
    await accept(channel)
    pipe.room = 2
    with pytest.raises(trio.BrokenResourceError):
        await channel.send(b"first")
    assert trio.current_time() == pytest.approx(5.0)
    with pytest.raises(trio.BrokenResourceError):
        await channel.send(b"second")
    with pytest.raises(ChannelClosedError):
        await channel.receive()
    await channel.close(1000, "")  # nothing to say it to, and no error


async def test_a_client_that_has_left_need_not_be_told_why_it_is_refused(
    pipe: Any, channel: NativeChannel
) -> None:
    await accept(channel)
    pipe.lose()
    attachment = SocketAttachment(channel, Dialect.GA, ResumeGrant(1, "t"), SessionLog())
    await attachment.refuse(RealtimeError("config_timeout", "no session.update"))


async def test_many_sends_leave_others_their_turn(channel: NativeChannel) -> None:
    await accept(channel)
    with trio.CancelScope() as scope:
        scope.cancel()
        for _ in range(TURNS_MAX):
            await channel.send(b"m")
    assert scope.cancelled_caught


async def heard(channel: NativeChannel, into: list[str | None]) -> None:
    try:
        while True:
            into.append(await channel.receive())
    except ChannelClosedError as closed:
        into.append(f"closed {closed.code}")


async def test_a_client_of_which_nothing_is_heard_is_pinged_and_let_go(
    pipe: Any, channel: NativeChannel, frames_in: Any, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    await accept(channel)
    into: list[str | None] = []
    nursery.start_soon(channel.keep_alive)
    nursery.start_soon(heard, channel, into)
    await trio.sleep(59)
    assert [frame.opcode for frame in frames_in(after_head(pipe))] == [PING, PING]
    assert into == []
    await trio.sleep(2)
    *_, close = frames_in(after_head(pipe))
    assert (close.close_code, close.close_reason) == (1011, "keepalive ping timeout")
    assert into == ["closed 1011"]


@pytest.mark.parametrize("life", [frame(FIN | PONG, b""), frame(FIN | TEXT, b"audio"), b"\x81"])
async def test_any_byte_is_a_sign_of_life(
    pipe: Any, channel: NativeChannel, nursery: trio.Nursery, autojump_clock: Any, life: bytes
) -> None:
    await accept(channel)
    into: list[str | None] = []
    nursery.start_soon(channel.keep_alive)
    nursery.start_soon(heard, channel, into)
    if life == b"\x81":  # a long message, a byte at a time
        life = b"\xfe\x03\xe8" + bytes(100)
        pipe.arrive(b"\x81")
        for place in range(len(life)):
            await trio.sleep(39)
            pipe.arrive(life[place : place + 1])
        assert into == []
        return
    for _ in range(20):
        await trio.sleep(39)
        pipe.arrive(life)
    await trio.sleep(1)
    assert not any(str(item).startswith("closed") for item in into)


async def test_a_client_is_not_missed_while_nobody_listens(
    pipe: Any, channel: NativeChannel, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    await accept(channel)
    nursery.start_soon(channel.keep_alive)
    await trio.sleep(1000)
    pipe.arrive(frame(FIN | TEXT, b"m"))
    assert await channel.receive() == "m"


async def test_no_ping_follows_a_close_frame(
    pipe: Any, channel: NativeChannel, frames_in: Any, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    await accept(channel)
    nursery.start_soon(channel.keep_alive)
    await channel.close(1000, "")
    await trio.sleep(100)
    assert [frame.opcode for frame in frames_in(after_head(pipe))] == [CLOSE]


async def test_no_ping_waits_behind_what_is_not_read(
    pipe: Any, channel: NativeChannel, frames_in: Any, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    await accept(channel)
    nursery.start_soon(channel.keep_alive)
    pipe.room = 2
    with trio.move_on_after(1):
        await channel.send(b"first")
    await trio.sleep(3)
    pipe.make_room(1000)
    await trio.sleep(1)
    assert [frame.opcode for frame in frames_in(after_head(pipe))] == [TEXT]
