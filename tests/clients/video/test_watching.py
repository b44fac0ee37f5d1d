"""A video from its start to its end, as a client sees it: opening, payloads, stopping, leaving, and slow readers."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.clients import RealtimeVideoClient
from duplex_trio.clients.video import (
    AnswerTimeoutError,
    VideoConnectionError,
    VideoEndedError,
    VideoReceived,
)
from duplex_trio.testing.video_peer import VideoPeer, read_all, scripted_client

URL = "ws://test.invalid"


async def test_a_video_from_start_to_end(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    peers: list[VideoPeer] = []

    async def script(peer: VideoPeer) -> None:
        peers.append(peer)
        await peer.begin()
        await peer.pair(b"one")
        await peer.pair(b"two", frames=4)
        await peer.end()

    client = scripted_client(nursery, script, width=64, height=32, seconds=0.8, seed=5, api_key="k")
    async with client as video:
        assert video.started.mime_type.startswith("video/mp4")
        assert video.started.config["width"] == 64
        chunks = await read_all(video)
        assert video.done is not None
        assert (video.done.chunks, video.done.frames, video.over) == (3, 13, True)
        assert video.received == VideoReceived(3, 13, 13)
        assert await read_all(video) == []
    assert [chunk.payload for chunk in chunks] == [b"one", b"two", b"trailer"]
    assert [chunk.trailer for chunk in chunks] == [False, False, True]
    assert [chunk.index for chunk in chunks] == [0, 1, 2]
    assert [chunk.generation_index for chunk in chunks] == [0, 1, None]
    assert [chunk.num_frames for chunk in chunks] == [9, 4, 0]
    (peer,) = peers
    assert peer.wire.request.path == "/v1/realtime/video"
    assert (b"authorization", b"Bearer k") in [
        (name.lower(), value) for name, value in peer.wire.request.headers
    ]
    assert peer.start == {
        "type": "session.start",
        "prompt": "a street",
        "width": 64,
        "height": 32,
        "seconds": 0.8,
        "seed": 5,
    }


async def test_what_is_asked_for_beyond_the_usual_reaches_the_server(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    starts: list[dict[str, Any]] = []

    async def script(peer: VideoPeer) -> None:
        starts.append(await peer.begin())
        await peer.end()

    fields: dict[str, Any] = {"guidance_scale": 2.5, "extra_params": {"a": [1]}}
    async with scripted_client(
        nursery, script, streaming_buffer_seconds=None, format="webm", **fields
    ) as video:
        await read_all(video)
    (start,) = starts
    assert start["streaming_buffer_seconds"] is None
    assert (start["format"], start["guidance_scale"], start["extra_params"]) == ("webm", 2.5, {"a": [1]})


async def test_a_client_is_one_video(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.end()

    client = scripted_client(nursery, script)
    with pytest.raises(RuntimeError, match="has not begun"):
        _ = client.started
    async with client:
        pass
    with pytest.raises(RuntimeError, match="one video"):
        async with client:
            pass


@pytest.mark.parametrize(
    "options",
    [{"handshake_timeout_s": 0}, {"answer_timeout_s": -1}, {"ping_interval_s": 0}, {"buffer_bytes_max": 0}],
)
def test_bounds_are_positive(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="positive"):
        RealtimeVideoClient(URL, prompt="x", **options)


def test_an_unknown_field_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="colour"):
        RealtimeVideoClient(URL, prompt="x", colour="red")


async def test_stop_is_followed_by_what_was_made_and_the_trailer(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.pair()
        await peer.receive("session.stop")
        await peer.pair()
        await peer.end(stopped=True)

    async with scripted_client(nursery, script) as video:
        await video.stop()
        chunks = await read_all(video)
        assert video.done is not None
        assert video.done.stopped
        await video.stop()  # over already: nothing
    assert [chunk.trailer for chunk in chunks] == [False, False, True]


async def test_leaving_early_stops_the_video_and_waits_for_its_end(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    ended = trio.Event()

    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        for _ in range(20):
            await peer.pair(bytes(100_000))
        await peer.receive("session.stop")
        await trio.sleep(1)
        await peer.end(stopped=True)
        ended.set()

    async with scripted_client(nursery, script, lockstep=True, buffer_bytes_max=1) as video:
        async for chunk in video:
            assert chunk.index == 0
            break
    assert ended.is_set()
    assert video.done is not None


async def test_a_server_that_does_not_stop_is_left(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.receive("session.never")

    begin_s = trio.current_time()
    async with scripted_client(nursery, script):
        pass
    assert trio.current_time() - begin_s < 8


async def test_a_body_that_raises_gets_its_own_error(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.receive("session.never")

    with pytest.raises(ZeroDivisionError):
        async with scripted_client(nursery, script):
            raise ZeroDivisionError


async def test_a_body_that_is_cancelled_leaves_at_once(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.receive("session.never")

    with trio.move_on_after(5) as scope:
        async with scripted_client(nursery, script) as video:
            await read_all(video)
    assert scope.cancelled_caught
    assert trio.current_time() - scope.deadline <= 1.1


async def test_playback_and_pings(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        assert await peer.receive() == {"type": "session.playback", "position_seconds": 1.5}
        await peer.receive("session.ping")
        await trio.sleep(0.25)
        await peer.wire.send_raw('{"type": "session.pong"}')
        await peer.receive("session.ping")
        await peer.end()

    async with scripted_client(nursery, script, answer_timeout_s=3) as video:
        for wrong in (-1.0, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="no position"):
                await video.playback(wrong)
        await video.playback(1.5)
        assert await video.ping() == pytest.approx(0.25)
        with pytest.raises(VideoEndedError):
            await video.ping()
        await video.playback(2)  # over: nothing


# ---------------------------------------------------------------------- slow readers


async def test_who_does_not_read_makes_the_server_wait_and_loses_nothing(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    sent: list[int] = []

    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        for number in range(50):
            await peer.pair(bytes([number]) * 1000)
            sent.append(number)
        await peer.end()

    async with scripted_client(nursery, script, lockstep=True, buffer_bytes_max=5000) as video:
        await wait_all_tasks_blocked()
        assert 5 <= len(sent) <= 8, "five payloads are held here, and the sockets hold few"
        assert video.received.payload_bytes == 5000
        await trio.sleep(200)
        assert len(sent) <= 8
        chunks = await read_all(video)
    assert [chunk.payload[0] for chunk in chunks[:-1]] == list(range(50))


async def test_an_answer_comes_through_though_nobody_reads(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        for _ in range(9):
            await peer.pair(bytes(1000))
        await peer.queue()
        await peer.receive("session.ping")
        await peer.wire.send_raw('{"type": "session.pong"}')
        for _ in range(9):
            await peer.pair(bytes(1000))
        await peer.end()

    async with scripted_client(nursery, script, lockstep=True, buffer_bytes_max=2000) as video:
        await wait_all_tasks_blocked()
        assert video.received.chunks == 2
        with trio.fail_after(1):
            await video.interact("lanterns")
            await video.ping()
        assert video.received.chunks == 9
        await wait_all_tasks_blocked()
        assert video.received.chunks == 9, "answered: the bound holds again"
        assert len(await read_all(video)) == 19


async def test_a_server_that_never_answers_cannot_fill_the_memory(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        for _ in range(40):
            await peer.pair(bytes(1024 * 1024))

    async with scripted_client(nursery, script, lockstep=True, buffer_bytes_max=1024 * 1024) as video:
        with pytest.raises(AnswerTimeoutError) as caught:
            await video.interact("lanterns", event_id="a", timeout_s=60)
        assert caught.value.event_id == "a"
        assert video.received.payload_bytes <= 18 * 1024 * 1024


# ---------------------------------------------------------------------- signs of life


async def test_a_client_that_only_waits_shows_that_it_lives(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    gaps: list[float] = []

    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        last_s = trio.current_time()
        while len(gaps) < 12:
            await peer.receive("session.ping")
            gaps.append(trio.current_time() - last_s)
            last_s += gaps[-1]
            await peer.wire.send_raw('{"type": "session.pong"}')
        await peer.end()

    async with scripted_client(nursery, script) as video:
        assert len(await read_all(video)) == 1
    assert max(gaps) < 60


async def test_pings_go_on_while_the_buffer_is_full(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    pings: list[float] = []

    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.pair()
        while True:
            await peer.receive("session.ping")
            pings.append(trio.current_time())
            await peer.wire.send_raw('{"type": "session.pong"}')

    async with scripted_client(nursery, script, buffer_bytes_max=1) as video:
        await trio.sleep(600)
        assert len(pings) >= 10
        assert not video.over


async def test_a_silent_connection_is_given_up(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.begin()
        await peer.pair()
        while True:
            await peer.receive("session.ping")

    async with scripted_client(nursery, script, ping_interval_s=7) as video:
        await video.__anext__()
        with pytest.raises(VideoConnectionError, match="said nothing for 7 s") as caught:
            await video.__anext__()
        assert caught.value.received.chunks == 1
        with pytest.raises(VideoConnectionError):
            await video.interact("too late")


async def test_a_server_that_never_begins_is_given_up(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def script(peer: VideoPeer) -> None:
        await peer.receive("session.never")

    with pytest.raises(VideoConnectionError, match="not begun within 4 s"):
        async with scripted_client(nursery, script, handshake_timeout_s=4):
            pytest.fail("it must not begin")
