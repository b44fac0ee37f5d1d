"""Whatever happens to a video, it may happen between any two steps of its tasks.

A video with everything in it is watched again and again; each time the same thing happens one step later. `watching`
looks every time that no thread, place or session is left, and that all that was sent is as the protocol says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.protocol.video import SessionDone, SessionPing, SessionPlayback, SessionStart, SessionStop
from duplex_trio.testing.steps import acting_at
from duplex_trio.testing.videos.host import WatchedHost
from duplex_trio.testing.videos.run import RunningVideo, watching

START = SessionStart(prompt="red", num_frames=40)
STRIDE = pytest.mark.parametrize("stride", [19, pytest.param(1, marks=pytest.mark.slow)])
"""Every so manyth step is tried, beginning at another one in each test."""

Action = Callable[[WatchedHost, RunningVideo], object]


async def watch(video: RunningVideo) -> None:
    """Say a bit of everything; whoever has ended the video meanwhile is not minded."""
    try:
        await video.say("a", "blue", 2)
        await video.peer.send(SessionPing())
        await video.say("b", "green", 0, style="oil")
        await video.peer.send("{")
        await trio.sleep(0.7)
        await video.say("c", "white", 3)
        await video.peer.send(SessionPlayback(position_seconds=0.5))
        await trio.sleep(0.7)
        await video.peer.send(SessionPlayback(position_seconds=1.5))
        await trio.sleep(3.0)
        await video.peer.send(SessionStop())
    except trio.BrokenResourceError:
        assert video.peer.closed is not None


async def steps_of_it() -> int:
    host = WatchedHost()
    async with watching(host, START) as video:
        with acting_at(0, lambda: None) as counter:
            await watch(video)
            await video.end()
    assert video.shown[-1].startswith("done")
    assert counter.steps > 150
    return counter.steps


@contextmanager
def at(step: int, action: Action, host: WatchedHost, video: RunningVideo) -> Iterator[None]:
    with acting_at(step, lambda: action(host, video)):
        yield


async def with_something_at(step: int, action: Action) -> tuple[WatchedHost, RunningVideo]:
    host = WatchedHost()
    async with watching(host, START) as video:
        with at(step, action, host, video):
            await watch(video)
            await video.end()
    return host, video


def drain(host: WatchedHost, video: RunningVideo) -> None:
    if host.slots:
        host.slots[0].draining.set()


def ended_well(host: WatchedHost, video: RunningVideo) -> None:
    assert video.figures is not None
    assert isinstance(video.events[-1], SessionDone) or video.peer.closed == (1001, "server_shutdown")


def aborted(host: WatchedHost, video: RunningVideo) -> None:
    for slot in host.slots:
        assert slot.figures[0].outcome in ("aborted", "done", "stopped")


ACTIONS: dict[str, tuple[Action, Action]] = {
    "cancelled": (lambda host, video: video.scope.cancel(), aborted),
    "left": (lambda host, video: video.peer.leave(), aborted),
    "drained": (drain, ended_well),
}


@STRIDE
@pytest.mark.parametrize("name", ACTIONS)
async def test_an_end_at_any_step(autojump_clock: MockClock, name: str, stride: int) -> None:
    action, look = ACTIONS[name]
    for step in range(1 + 3 * list(ACTIONS).index(name) % stride, await steps_of_it(), stride):
        host, video = await with_something_at(step, action)
        look(host, video)


@STRIDE
async def test_a_stop_at_any_step(autojump_clock: MockClock, stride: int) -> None:
    """The client's own, as if it were read then."""
    steps = await steps_of_it()
    for step in range(1, steps, stride):
        host = WatchedHost()
        async with watching(host, START) as video, trio.open_nursery() as nursery:
            said = trio.Event()

            async def stop(said: trio.Event = said, video: RunningVideo = video) -> None:
                await said.wait()
                if video.peer.closed is None:
                    await video.peer.send(SessionStop())

            nursery.start_soon(stop)
            with acting_at(step, said.set):
                await watch(video)
                await video.end()
            said.set()
        ended_well(host, video)
