"""How videos end: what is said, the close code, what the figures tell, and that nothing is left (`watching` looks)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.models.scripted.video_script import VideoScript
from duplex_trio.plugin.video.capabilities import VideoCapabilities
from duplex_trio.plugin.video.plugin import Frame, StageCaller, VideoModelPlugin, VideoModelSession
from duplex_trio.plugin.video.request import OmniInteractionEvent, VideoRequest
from duplex_trio.protocol.video import (
    SessionDone,
    SessionPing,
    SessionPlayback,
    SessionStart,
    SessionStop,
    VideoChunkMetadata,
    VideoErrorEvent,
)
from duplex_trio.testing.kept_logs import Logs
from duplex_trio.testing.videos.encoder import RawEncoder
from duplex_trio.testing.videos.host import WatchedHost
from duplex_trio.testing.videos.run import RunningVideo, watching
from duplex_trio.testing.videos.threads import patient
from duplex_trio.video.memory import memory_transports
from duplex_trio.video.run import run_video
from duplex_trio.video.transport import TransportClosedError

START = SessionStart(prompt="red", num_frames=90)


def outcome(video: RunningVideo) -> str:
    assert video.figures is not None
    return video.figures.outcome


# ------------------------------------------------------------------ ends that are wanted


async def test_the_end_of_all_frames(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    async with watching(host, SessionStart(prompt="red", num_frames=20)) as video:
        await video.end()
    assert video.shown[-1] == "done 4"
    assert video.peer.closed == (1000, "done")
    assert outcome(video) == "done"
    assert video.done.frames == 20


@pytest.mark.parametrize("where", [(0, 0), (3, 4), (3, 8)])
async def test_a_stop_while_a_frame_is_rendered(autojump_clock: MockClock, where: tuple[int, int]) -> None:
    """The chunk is not sent and no further frame of it is rendered; the trailer is sent."""
    host = WatchedHost()
    hold = host.hold(where)
    async with watching(host, START) as video:
        await video.reach(hold)
        await video.peer.send(SessionStop())
        await video.end()
    assert [row[1] for row in video.rows] == [*range(where[0]), None]
    assert video.shown[-1] == f"done {where[0] + 1} stopped"
    assert video.peer.closed == (1000, "stopped")
    assert outcome(video) == "stopped"
    # The one that was being rendered is rendered to its end.
    assert host.watched.sessions[0].frames <= 9 * where[0] + where[1] + 1


async def test_a_stop_while_playback_is_waited_for(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    async with watching(host, START) as video:
        await video.chunk(2)
        await trio.sleep(0.2)
        stopped_s = trio.current_time()
        await video.peer.send(SessionStop())
        await video.end()
        assert trio.current_time() == stopped_s
    assert video.shown[-1] == "done 4 stopped"


async def test_a_stop_before_the_first_chunk_is_read(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    hold = host.hold((0, 0))
    async with watching(host, START, reads=False) as video:
        await video.reach(hold)
        await video.peer.send(SessionStop())
        await video.peer.send(SessionStop())
        await wait_all_tasks_blocked()
        video.read_on()
        await video.end()
    assert video.shown == ["start", "trailer None", "done 1 stopped"]


async def test_a_prompt_in_preparation_when_it_is_stopped(autojump_clock: MockClock) -> None:
    """It is told to have failed, once; what was ready and what was on its way are unfinished."""
    host = WatchedHost()
    here, slow = host.hold((2, 0)), host.hold("slow")
    async with watching(host, START) as video:
        await video.say("a", "blue", 9)
        await video.reach(here)
        await video.say("b", "green", 0)
        await video.say("c", "slow", 0)
        await video.reach(slow)
        await video.peer.send(SessionStop())
        await video.told("error interaction_failed c")
        slow.open()
        await video.end()
    assert video.shown.count("error interaction_failed c") == 1
    assert video.done.interactions == {"a": "unfinished", "b": "unfinished", "c": "failed"}
    assert video.figures is not None
    assert video.figures.interactions == {"unfinished": 2, "failed": 1}


async def test_what_was_resolved_and_never_seen_is_unfinished(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    here, there = host.hold((0, 0)), host.hold((1, 0))
    async with watching(host, START) as video:
        await video.say("a", "blue", 0)
        await video.reach(here)
        await video.told("interaction.queued a")
        await wait_all_tasks_blocked()
        here.open()
        await video.reach(there)
        await video.peer.send(SessionStop())
        await video.end()
    assert video.done.interactions == {"a": "unfinished"}


async def test_a_drain(autojump_clock: MockClock) -> None:
    """Generation stops, what has been encoded is sent, and why it ends is said."""
    host = WatchedHost()
    hold = host.hold((3, 2))
    async with watching(host, START) as video:
        await video.reach(hold)
        host.slots[0].draining.set()
        await video.end()
    assert video.shown[-3:] == ["trailer None", "error server_shutdown", "done 4"]
    assert not video.done.stopped
    assert video.peer.closed == (1001, "server_shutdown")
    assert outcome(video) == "server_shutdown"


async def test_a_video_without_an_end_lasts_as_long_as_it_may(autojump_clock: MockClock) -> None:
    host = WatchedHost(limits=VideoSessionDeploy(max_session_s=5.0))
    async with watching(host, SessionStart(prompt="red")) as video:
        await video.end()
    assert video.started.config["num_frames"] is None
    assert video.done.frames == 80
    assert video.peer.closed == (1000, "done")
    assert trio.current_time() < 5.0


async def test_a_video_that_is_paused_for_ever(autojump_clock: MockClock) -> None:
    """Pings keep it from stalling; the longest that a video may go on ends it."""
    host = WatchedHost(limits=VideoSessionDeploy(max_session_s=300.0))
    async with watching(host, SessionStart(prompt="red")) as video:
        await video.chunk(0)
        await video.peer.send(SessionPlayback(position_seconds=0.0))
        with trio.move_on_after(400.0):
            while not video.ended:
                await video.peer.send(SessionPing())
                await trio.sleep(20.0)
    assert 299 < trio.current_time() < 330
    assert video.peer.closed == (1000, "done")
    assert outcome(video) == "done"
    assert video.done.frames < 40


# ------------------------------------------------------------------ clients that are gone


@pytest.mark.parametrize("where", [(0, 0), (2, 5)])
async def test_a_client_that_leaves(autojump_clock: MockClock, where: tuple[int, int]) -> None:
    host = WatchedHost()
    hold = host.hold(where)
    async with watching(host, START) as video:
        await video.reach(hold)
        video.peer.leave()
        await video.end()
    assert outcome(video) == "aborted"
    assert host.watched.sessions[0].frames <= 9 * where[0] + where[1] + 1


async def test_a_client_that_leaves_while_its_prompt_is_encoded(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    hold = host.hold("slow")
    async with watching(host, SessionStart(prompt="slow")) as video:
        await video.reach(hold)
        video.peer.leave()
        await wait_all_tasks_blocked()
        hold.open()
    assert outcome(video) == "aborted"
    assert host.watched.sessions[0].frames == 0


async def test_a_client_that_says_nothing_and_leaves(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    async with watching(host) as video:
        video.peer.leave()
    assert outcome(video) == "aborted"
    assert not host.slots


@pytest.mark.parametrize("end", ["done", "stopped", "generation_failed", "invalid_start"])
async def test_who_hears_of_the_end_may_have_another_video(
    autojump_clock: MockClock, faults_expected: None, end: str
) -> None:
    """The model is released, and the place is free, before the client knows that it is over."""
    host = WatchedHost(
        places=1,
        script=VideoScript(fail_at_chunk=5 if end == "generation_failed" else None, refused_word="bad"),
    )
    transport, peer = memory_transports()
    with patient(host.threads, ()):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(run_video, transport, host, encoders=lambda *_, **__: RawEncoder()))
            await peer.send(SessionStart(prompt="bad" if end == "invalid_start" else "red", num_frames=90))
            while not isinstance(told := await peer.receive(), SessionDone | VideoErrorEvent):
                if isinstance(told, VideoChunkMetadata) and end == "stopped":
                    await peer.send(SessionStop())
            assert host.held == 0
            assert host.threads.borrowed_tokens == 0
            assert [session.closed for session in host.watched.sessions] == [1]
            if end in ("done", "stopped"):
                assert isinstance(told, SessionDone)
                assert told.stopped == (end == "stopped")
            else:
                assert isinstance(told, VideoErrorEvent)
                assert told.code == end
            with suppress(TransportClosedError):
                await peer.receive()


async def test_a_client_that_does_not_read(autojump_clock: MockClock) -> None:
    """Two pairs are there, no further frame is rendered, and after 30 s it is over."""
    host = WatchedHost()
    start = SessionStart(prompt="red", streaming_buffer_seconds=None)
    async with watching(host, start) as video:
        await video.chunk(0)
        video.pause()
        await trio.sleep(29.0)
        frames = host.watched.sessions[0].frames
        await trio.sleep(5.0)
        assert host.watched.sessions[0].frames == frames
        video.read_on()
        await video.end()
    assert frames <= 9 * (len(video.pairs) + 2)
    assert video.peer.closed == (1011, "send_timeout")
    assert outcome(video) == "send_timeout"


async def test_a_client_that_does_not_read_when_the_server_ends(autojump_clock: MockClock) -> None:
    """It does not keep the server for as long as it would keep a video."""
    host = WatchedHost()
    start = SessionStart(prompt="red", streaming_buffer_seconds=None)
    async with watching(host, start) as video:
        await video.chunk(0)
        video.pause()
        await trio.sleep(1.0)
        host.slots[0].draining.set()
        await trio.sleep(5.5)
        assert video.peer.closed == (1011, "send_timeout")
        video.read_on()
    assert outcome(video) == "send_timeout"


async def test_a_client_that_asks_and_never_reads(autojump_clock: MockClock) -> None:
    """Answers are bounded: its commands are not read any more."""
    host = WatchedHost()
    async with watching(host, START, reads=False) as video:
        sent = 0
        with trio.move_on_after(20.0):
            while True:
                await video.peer.send(SessionPing())
                sent += 1
        assert 256 <= sent <= 256 + 20
        await trio.sleep(15.0)
        with pytest.raises(trio.BrokenResourceError):
            await video.peer.send(SessionPing())
        video.read_on()
    assert outcome(video) == "send_timeout"


async def test_a_slow_client_gets_all_of_it(autojump_clock: MockClock) -> None:
    """It slows the generator, and nothing else: each payload is there in the end."""
    host = WatchedHost()
    start = SessionStart(prompt="red", num_frames=90, streaming_buffer_seconds=None)
    async with watching(host, start) as video:
        for index in range(10):
            await video.chunk(index)
            video.pause()
            await wait_all_tasks_blocked()
            assert host.watched.sessions[0].frames <= 9 * (len(video.pairs) + 3)
            await trio.sleep(10.0)
            video.read_on()
        await video.end()
    assert video.done.frames == 90


# ------------------------------------------------------------------ what breaks


async def test_a_model_that_breaks(autojump_clock: MockClock, faults_expected: None, logs: Logs) -> None:
    host = WatchedHost(script=VideoScript(fail_at_chunk=2))
    async with watching(host, START) as video:
        await video.end()
    assert video.shown[-1] == "error generation_failed"
    assert "scripted" not in video.errors[-1].message
    assert video.peer.closed == (1011, "generation_failed")
    assert outcome(video) == "generation_failed"
    assert any("scripted failure at chunk 2" in str(entry.get("exc_info")) for entry in logs)


async def test_a_model_that_breaks_while_the_client_does_not_read(
    autojump_clock: MockClock, faults_expected: None
) -> None:
    """The pair that is being written is written, and then the fault."""
    host = WatchedHost(script=VideoScript(fail_at_chunk=3))
    hold = host.hold((2, 0))
    start = SessionStart(prompt="red", streaming_buffer_seconds=None)
    async with watching(host, start, reads=False) as video:
        # The start is what the writer cannot get rid of; two pairs wait behind it, then one is read.
        await wait_all_tasks_blocked()
        assert not hold.reached
        frames = host.watched.sessions[0].frames
        assert frames == 18
        video.read_on()
        await video.chunk(0)
        video.pause()
        await video.reach(hold)
        hold.open()
        await wait_all_tasks_blocked()
        await trio.sleep(1.0)
        video.read_on()
        await video.end()
    assert video.shown[-1] == "error generation_failed"
    assert [row[1] for row in video.rows] == [0, 1, 2]
    assert video.figures is not None
    assert video.figures.frames == 9 * len(video.pairs)


async def test_an_encoder_that_breaks(autojump_clock: MockClock, faults_expected: None) -> None:
    host = WatchedHost()
    async with watching(host, START, encoders=lambda *_, **__: RawEncoder(fail_at=1)) as video:
        await video.end()
    assert video.shown[-1] == "error generation_failed"
    assert [row[1] for row in video.rows] == [0]
    assert outcome(video) == "generation_failed"


class OddSession(VideoModelSession):
    """Renders what a test says."""

    def __init__(
        self, render: Callable[[int], Iterator[Any]], fault: type[BaseException] | None = None
    ) -> None:
        self.render = render
        self.fault = fault

    def encode_interaction(self, event: OmniInteractionEvent) -> Any:
        return 0.0

    def blend(self, source: Any, target: Any, alpha: float) -> Any:
        raise RuntimeError("scripted blend")

    def render_chunk(
        self,
        index: int,
        state: Any,
        *,
        changed: bool,
        hard: bool,
        n_frames: int,
        cancelled: Callable[[], bool],
    ) -> Iterator[Frame]:
        return self.render(n_frames)

    def close(self) -> None:
        if self.fault is not None:
            raise self.fault("scripted close")


class OddPlugin(VideoModelPlugin):
    """A model that renders what a test says."""

    capabilities = VideoCapabilities(default_width=64, default_height=64)

    def __init__(
        self, render: Callable[[int], Iterator[Any]], fault: type[BaseException] | None = None
    ) -> None:
        self.session = OddSession(render, fault)

    def open(self, request: VideoRequest, stages: StageCaller) -> VideoModelSession:
        return self.session


BLACK = np.zeros((64, 64, 3), np.uint8)


def leaving(n_frames: int) -> Iterator[Any]:
    yield BLACK
    raise SystemExit(3)


ODD: dict[str, Callable[[int], Iterator[Any]]] = {
    "too few frames": lambda n: iter([BLACK] * (n - 1)),
    "too many frames": lambda n: iter([BLACK] * (n + 1)),
    "no frame": lambda n: iter(["black"] * n),
    "another size": lambda n: iter([np.zeros((64, 66, 3), np.uint8)] * n),
    "other numbers": lambda n: iter([np.zeros((64, 64, 3), np.float32)] * n),
    "sys.exit": leaving,
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
async def test_a_model_that_renders_wrongly(
    autojump_clock: MockClock, faults_expected: None, name: str
) -> None:
    host = WatchedHost(OddPlugin(ODD[name]))
    async with watching(host, START) as video:
        await video.end()
    assert video.shown == ["start", "error generation_failed"]
    assert outcome(video) == "generation_failed"


async def test_a_model_that_cannot_mix(autojump_clock: MockClock, faults_expected: None) -> None:
    host = WatchedHost(OddPlugin(lambda n: iter([BLACK] * n)))
    async with watching(host, START) as video:
        await video.say("a", "blue", 3)
        await video.end()
    assert video.shown[-1] == "error generation_failed"
    assert video.figures is not None
    assert video.figures.interactions == {"unfinished": 1}


@pytest.mark.parametrize("fault", [RuntimeError, SystemExit])
async def test_a_model_that_cannot_be_closed(
    autojump_clock: MockClock, faults_expected: None, logs: Logs, fault: type[BaseException]
) -> None:
    host = WatchedHost(OddPlugin(lambda n: iter([BLACK] * n), fault))
    async with watching(host, SessionStart(prompt="x", num_frames=9)) as video:
        await video.end()
    assert outcome(video) == "done"
    assert [entry["what"] for entry in logs if entry["event"] == "video.release_failed"] == ["model"]


async def test_a_video_that_stalls(autojump_clock: MockClock) -> None:
    """The client is told at once; the model's thread is waited for, and holds the place until then."""
    host = WatchedHost()
    hold = host.hold((1, 3))
    async with watching(host, START) as video:
        await video.end()
        assert trio.current_time() == 60.0
        assert video.shown[-1] == "error stall_timeout"
        assert video.peer.closed == (1011, "stall_timeout")
        hold.open()
    assert outcome(video) == "stall_timeout"


async def test_pings_keep_a_video_from_stalling(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    hold = host.hold((1, 3))
    async with watching(host, START) as video:
        await video.reach(hold)
        for _ in range(10):
            await trio.sleep(50.0)
            await video.peer.send(SessionPing())
        hold.open()
        await video.end()
    assert outcome(video) == "done"


async def test_too_many_errors(autojump_clock: MockClock) -> None:
    """20 within 10 s; 19 are not too many, however often."""
    host = WatchedHost()
    async with watching(host, SessionStart(prompt="red")) as video:
        for _ in range(3):
            for number in range(19):
                await video.peer.send("{" if number % 2 else b"binary")
            await trio.sleep(10.0)
        assert not video.ended
        for _ in range(20):
            await video.peer.send("{")
        await video.end()
    assert len(video.errors) == 3 * 19 + 20 + 1
    assert {error.code for error in video.errors[:-1]} == {"invalid_json", "invalid_message"}
    assert video.shown[-1] == "error too_many_errors"
    assert video.peer.closed == (1008, "too_many_errors")


async def test_a_flood_of_interactions_is_no_error(autojump_clock: MockClock) -> None:
    """What comes too fast is refused and the video goes on."""
    host = WatchedHost()
    async with watching(host, START) as video:
        for number in range(100):
            await video.say(f"i{number}", "blue")
        await video.end()
    assert outcome(video) == "done"
    refused = video.shown.count("error input_backpressure i99") + sum(
        shown.startswith("error input_backpressure") for shown in video.shown
    )
    assert refused > 20
    assert video.figures is not None
    assert video.figures.interactions["refused"] >= 20


async def test_a_cancellation_from_outside(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    hold = host.hold((1, 1))
    async with watching(host, START) as video:
        await video.reach(hold)
        video.scope.cancel()
        await video.end()
    assert host.slots[0].figures[0].outcome == "aborted"
    assert host.watched.sessions[0].frames <= 11


async def test_a_bug_of_ours_stays_in_its_video(
    autojump_clock: MockClock, faults_expected: None, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("duplex_trio.video.session.VideoSession.ping", broken)
    host = WatchedHost()
    async with watching(host, START) as video:
        await video.chunk(0)
        await video.peer.send(SessionPing())
        await video.end()
    assert video.peer.closed == (1011, "internal_error")
    assert outcome(video) == "internal_error"
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["video.crashed"]
