"""Videos beside each other and one after the other: none disturbs another one, and nothing is left of any."""

from __future__ import annotations

import gc
import threading

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.video_picture import read_picture
from duplex_trio.models.scripted.video_script import VideoScript
from duplex_trio.protocol.video import SessionStart, SessionStop
from duplex_trio.testing.videos.encoder import RawEncoder, unpacked
from duplex_trio.testing.videos.host import WatchedHost
from duplex_trio.testing.videos.run import watching
from duplex_trio.testing.videos.threads import patient
from duplex_trio.testing.videos.watcher import VideoWatcher
from duplex_trio.video.encoders.making import make_encoder
from duplex_trio.video.memory import memory_transports
from duplex_trio.video.run import run_video
from duplex_trio.video.session import VideoSession


async def one(host: WatchedHost, start: SessionStart, watchers: list[VideoWatcher]) -> None:
    transport, peer = memory_transports()
    watcher = VideoWatcher(peer)
    watcher.read_on()
    watchers.append(watcher)

    async def serve() -> None:
        await run_video(transport, host, encoders=lambda *_, **__: RawEncoder())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        nursery.start_soon(watcher.run)
        await peer.send(start)


async def test_two_videos_at_once(autojump_clock: MockClock) -> None:
    """Each has its own prompt, its own frames and its own pace."""
    host = WatchedHost()
    watchers: list[VideoWatcher] = []
    with patient(host.threads, []):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, host, SessionStart(prompt="red", num_frames=45), watchers)
            nursery.start_soon(one, host, SessionStart(prompt="blue", num_frames=90, fps=32), watchers)
    assert {len(watcher.pairs) for watcher in watchers} == {6, 11}
    for watcher in watchers:
        watcher.check()
        frames = unpacked(b"".join(data for meta, data in watcher.pairs if meta.kind == "media"))
        pictures = [read_picture(frame) for frame in frames]
        assert [picture.frame for picture in pictures] == list(range(len(frames)))
        red = pictures[0].colour[0] > pictures[0].colour[2]
        assert all((picture.colour[0] > picture.colour[2]) == red for picture in pictures)
        assert watcher.shown[-1] == f"done {len(watcher.pairs)}"


async def test_one_that_breaks_beside_one_that_does_not(
    autojump_clock: MockClock, faults_expected: None
) -> None:
    host = WatchedHost(script=VideoScript())
    watchers: list[VideoWatcher] = []
    with patient(host.threads, []):
        async with trio.open_nursery() as nursery:
            for extra in ({"fail_at_chunk": 2}, {}):
                start = SessionStart(prompt="red", num_frames=45, extra_params=extra)
                nursery.start_soon(one, host, start, watchers)
    assert sorted(watcher.shown[-1] for watcher in watchers) == ["done 6", "error generation_failed"]
    assert host.held == 0


@pytest.mark.slow
async def test_two_hundred_videos(autojump_clock: MockClock) -> None:
    """Of every kind of end, with the real encoder; threads, tasks and sessions are as few behind them as before."""
    host = WatchedHost(places=1)

    async def wave(count: int) -> None:
        for number in range(count):
            start = SessionStart(prompt="red", num_frames=18, streaming_buffer_seconds=None)
            async with watching(host, start, encoders=make_encoder) as video:
                await video.say("a", "blue", 0)
                match number % 4:
                    case 1:
                        await video.chunk(0)
                        video.peer.leave()
                    case 2 if video.peer.closed is None:
                        await video.peer.send(SessionStop())
                    case 3:
                        video.scope.cancel()
                await video.end()
            host.watched.sessions.clear()
            host.slots.clear()

    def live() -> tuple[int, int, int]:
        gc.collect()
        sessions = sum(type(thing) is VideoSession for thing in gc.get_objects())
        return sessions, threading.active_count(), trio.lowlevel.current_statistics().tasks_living

    await wave(8)
    before = live()
    await wave(200)
    after = live()
    assert after[0] == before[0] <= 1
    assert after[1] <= before[1] + 1
    assert after[2] == before[2]
