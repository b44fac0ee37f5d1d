"""The wire vectors of video.md 4.3, each as what the client does, what it is told and what it gets.

What a client does is a list of steps; `hold` and `open` keep the model's threads where a vector wants them, so that
"before chunk 1" means that. Chunks have 9 frames at 16 a second. What is told is written as `show` writes it, without
metadata, which is in `rows` (transport index, generation index, frames) and `ids` (started, active, completed).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import trio
from attrs import Factory, frozen
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.models.scripted.video_picture import NAMED_COLOURS, read_picture
from duplex_trio.plugin.video.plugin import Frame
from duplex_trio.protocol.video import InteractionQueued, SessionPing, SessionStart, SessionStop, decode_event
from duplex_trio.testing.video_frames import decode_frames
from duplex_trio.testing.videos.encoder import RawEncoder, unpacked
from duplex_trio.testing.videos.host import WatchedHost
from duplex_trio.testing.videos.run import RunningVideo, watching
from duplex_trio.testing.videos.threads import patient
from duplex_trio.testing.videos.watcher import VideoWatcher, show
from duplex_trio.video.encoders.making import make_encoder
from duplex_trio.video.memory import memory_transports
from duplex_trio.video.run import run_video
from duplex_trio.video.transport import VideoTransport

Step = Callable[[WatchedHost, RunningVideo], Awaitable[None]]


def say(event_id: str | None, prompt: str, chunks: Any = 0, **more: Any) -> Step:
    async def step(host: WatchedHost, video: RunningVideo) -> None:
        await video.say(event_id, prompt, chunks, **more)

    return step


def text(message: Mapping[str, Any] | str) -> Step:
    async def step(host: WatchedHost, video: RunningVideo) -> None:
        await video.peer.send(message if isinstance(message, str) else json.dumps(message))

    return step


def told(shown: str, count: int = 1) -> Step:
    async def step(host: WatchedHost, video: RunningVideo) -> None:
        await video.told(shown, count)

    return step


def chunk(index: int) -> Step:
    async def step(host: WatchedHost, video: RunningVideo) -> None:
        await video.chunk(index)

    return step


def opened(where: Any) -> Step:
    async def step(host: WatchedHost, video: RunningVideo) -> None:
        await wait_all_tasks_blocked()
        assert host.watched.holds[where].reached
        host.watched.holds[where].open()

    return step


def reached(where: Any) -> Step:
    async def step(host: WatchedHost, video: RunningVideo) -> None:
        await video.reach(host.watched.holds[where])

    return step


async def stop(host: WatchedHost, video: RunningVideo) -> None:
    await video.peer.send(SessionStop())


async def pause(host: WatchedHost, video: RunningVideo) -> None:
    video.pause()


async def read_on(host: WatchedHost, video: RunningVideo) -> None:
    await wait_all_tasks_blocked()
    video.read_on()


async def settled(host: WatchedHost, video: RunningVideo) -> None:
    await wait_all_tasks_blocked()


@frozen(kw_only=True)
class Vector:
    """One row of the chapter.

    Attributes:
        frames: of the video.
        start: other fields of the start, or another first message.
        holds: where the model is held up: (chunk, frame) or a prompt.
        updates: whether the model takes prompts while it runs.
        raw: arguments of the encoder that changes nothing, for what real ones do not do.
        steps: what the client does.
        told: everything but metadata, in order.
        params: `param` of each error, in order, where the vector says so.
        rows: of each pair.
        ids: of each media pair; the trailer has none.
        colours: the prompt of each chunk where it is one.
        close: code.
    """

    frames: int = 27
    start: Mapping[str, Any] | str = Factory(dict)
    holds: Sequence[Any] = ()
    updates: bool = True
    raw: Mapping[str, Any] | None = None
    steps: Sequence[Step]
    told: Sequence[str]
    params: Sequence[str | None] | None = None
    rows: Sequence[tuple[int, int | None, int]] | None = None
    ids: Sequence[tuple[str, str, str]] | None = None
    colours: Sequence[str | None] | None = None
    close: int = 1000


FIRST = (0, 0)
NONE = ("", "", "")
HARD_A = ("a", "a", "a")
QUEUED_A = "interaction.queued a"
CONFLICT_A = "error event_id_conflict a interaction.event_id"
BLUE_A = {"event_id": "a", "event": {"prompt": "blue"}}

VECTORS: dict[str, Vector] = {
    "W1": Vector(
        holds=[FIRST],
        steps=[say("a", "blue"), say("a", "blue"), told(QUEUED_A, 2), opened(FIRST)],
        told=["start", QUEUED_A, QUEUED_A, "done 4"],
        ids=[NONE, HARD_A, NONE],
        colours=["red", "blue", "blue"],
    ),
    "W2": Vector(
        holds=[FIRST],
        steps=[say("a", "blue"), told(QUEUED_A), opened(FIRST), chunk(1), say("a", "blue"), told(QUEUED_A, 2)],
        frames=45,
        told=["start", QUEUED_A, QUEUED_A, "done 6"],
        ids=[NONE, HARD_A, NONE, NONE, NONE],
        colours=["red", "blue", "blue", "blue", "blue"],
    ),
    "W3": Vector(
        holds=[FIRST],
        steps=[say("a", "blue"), say("a", "green"), told(CONFLICT_A), opened(FIRST)],
        told=["start", QUEUED_A, CONFLICT_A, "done 4"],
        ids=[NONE, HARD_A, NONE],
        colours=["red", "blue", "blue"],
    ),
    "W4": Vector(
        frames=45,
        holds=[FIRST],
        steps=[say("a", "blue", None), say("a", "blue", 3), told(CONFLICT_A), opened(FIRST)],
        told=["start", QUEUED_A, CONFLICT_A, "done 6"],
        ids=[NONE, ("a", "a", ""), ("", "a", ""), ("", "a", "a"), NONE],
        colours=["red", None, None, "blue", "blue"],
    ),
    "W5": Vector(
        frames=45,
        holds=[FIRST],
        steps=[
            text({"type": "session.interaction", "interaction": {**BLUE_A, "transition_chunks": 3}}),
            text({"interaction": {"transition_chunks": 3.0, **BLUE_A}, "type": "session.interaction"}),
            told(QUEUED_A, 2),
            opened(FIRST),
        ],
        told=["start", QUEUED_A, QUEUED_A, "done 6"],
        ids=[NONE, ("a", "a", ""), ("", "a", ""), ("", "a", "a"), NONE],
    ),
    "W7": Vector(
        holds=[FIRST],
        steps=[say("a", "  "), say("a", "blue"), told(QUEUED_A), opened(FIRST)],
        told=["start", "error invalid_interaction a interaction.event.prompt", QUEUED_A, "done 4"],
        ids=[NONE, HARD_A, NONE],
    ),
    "W8": Vector(
        steps=[say("a", "blue", True)],
        told=["start", "error invalid_interaction a interaction.transition_chunks", "done 4"],
        ids=[NONE, NONE, NONE],
    ),
    "W9": Vector(
        frames=36,
        holds=[FIRST],
        steps=[
            say("a", "blue", negative_prompt="rain"),
            told("error interaction_failed a"),
            opened(FIRST),
            chunk(1),
            say("a", "green"),
        ],
        told=["start", QUEUED_A, "error interaction_failed a", QUEUED_A, "done 5"],
        ids=[NONE, NONE, HARD_A, NONE],
        colours=["red", "red", "green", "green"],
    ),
    "W10": Vector(
        holds=[FIRST],
        steps=[
            say("a", "blue"),
            say("b", "green", multi_modal_data={}),
            told("error interaction_failed b"),
            opened(FIRST),
        ],
        told=["start", QUEUED_A, "interaction.queued b", "error interaction_failed b", "done 4"],
        ids=[NONE, HARD_A, NONE],
        colours=["red", "blue", "blue"],
    ),
    "W11": Vector(
        updates=False,
        holds=[FIRST],
        steps=[say("a", "blue"), told("error interaction_failed a"), opened(FIRST)],
        told=["start", QUEUED_A, "error interaction_failed a", "done 4"],
        ids=[NONE, NONE, NONE],
        colours=["red", "red", "red"],
    ),
    "W12": Vector(
        frames=45,
        holds=[FIRST, "slow"],
        steps=[
            *(say(f"i{number}", "slow" if number == 0 else "blue") for number in range(17)),
            told("error input_backpressure i16"),
            opened("slow"),
            settled,
            say("i16", "green"),
            told("interaction.queued i16"),
            opened(FIRST),
        ],
        told=[
            "start",
            *(f"interaction.queued i{number}" for number in range(16)),
            "error input_backpressure i16",
            "interaction.queued i16",
            "done 6",
        ],
        ids=[NONE, ("i16", "i16", "i16"), NONE, NONE, NONE],
        colours=["red", "green", "green", "green", "green"],
    ),
    "W13": Vector(
        holds=[FIRST],
        steps=[
            say("a", "blue"),
            say("b", "green"),
            told("interaction.queued b"),
            opened(FIRST),
            chunk(0),
            say("a", "blue"),
        ],
        told=["start", QUEUED_A, "interaction.queued b", QUEUED_A, "done 4"],
        ids=[NONE, ("b", "b", "b"), NONE],
        colours=["red", "green", "green"],
    ),
    "W14": Vector(
        holds=[(2, 0)],
        steps=[reached((2, 0)), say("a", "blue"), told("error interaction_failed a"), opened((2, 0))],
        told=["start", "error interaction_failed a", "done 4"],
        rows=[(0, 0, 9), (1, 1, 9), (2, 2, 9), (3, None, 0)],
        ids=[NONE, NONE, NONE],
    ),
    "W15": Vector(
        start='{"type": "session.interaction", "interaction": {"event": {"prompt": "x"}}}',
        steps=[],
        told=["error session_not_started"],
        rows=[],
        close=1008,
    ),
    "W16": Vector(
        frames=90,
        holds=[(5, 3)],
        steps=[reached((5, 3)), stop],
        told=["start", "done 6 stopped"],
        rows=[(0, 0, 9), (1, 1, 9), (2, 2, 9), (3, 3, 9), (4, 4, 9), (5, None, 0)],
    ),
    "W17": Vector(
        frames=90,
        start={"streaming_buffer_seconds": None},
        holds=[(2, 0)],
        steps=[pause, reached((2, 0)), stop, say("a", "blue"), read_on],
        told=["start", "error interaction_failed a", "done 3 stopped"],
    ),
    "W18": Vector(
        frames=20,
        steps=[],
        told=["start", "done 4"],
        rows=[(0, 0, 9), (1, 1, 9), (2, 2, 2), (3, None, 0)],
        ids=[NONE, NONE, NONE],
    ),
    "W19": Vector(
        raw={"held": 1},
        holds=[FIRST],
        steps=[say("a", "blue"), told(QUEUED_A), opened(FIRST)],
        told=["start", QUEUED_A, "done 4"],
        rows=[(0, 0, 9), (1, 1, 9), (2, 2, 9), (3, None, 0)],
        ids=[NONE, HARD_A, NONE],
        colours=["red", "blue", "blue"],
    ),
    "W20": Vector(
        raw={"parts": {1: 2}},
        holds=[FIRST],
        steps=[say("a", "blue"), told(QUEUED_A), opened(FIRST)],
        told=["start", QUEUED_A, "done 5"],
        rows=[(0, 0, 9), (1, 1, 4), (2, 1, 5), (3, 2, 9), (4, None, 0)],
        ids=[NONE, ("a", "a", ""), ("", "a", "a"), NONE],
    ),
}  # fmt: skip


@pytest.mark.parametrize("codec", ["raw", "m4s", "webm"])
@pytest.mark.parametrize("name", VECTORS)
async def test_a_wire_vector(autojump_clock: MockClock, name: str, codec: str) -> None:
    vector = VECTORS[name]
    if vector.raw is not None and codec != "raw":
        pytest.skip("no real encoder does that")
    host = WatchedHost(supports_prompt_updates=vector.updates)
    for where in vector.holds:
        host.hold(where)
    first = vector.start
    if not isinstance(first, str):
        container = "m4s" if codec == "raw" else codec
        first = SessionStart(**{"prompt": "red", "num_frames": vector.frames, "format": container} | first)
    raw = vector.raw or {}
    encoders = (lambda *_, **__: RawEncoder(**raw)) if codec == "raw" else make_encoder
    async with watching(host, first, encoders=encoders) as video:
        if not isinstance(first, str):
            await video.told("start")
        for step in vector.steps:
            await step(host, video)
        await video.end()
    assert [shown for shown in video.shown if not shown.startswith(("media", "trailer"))] == vector.told
    assert video.peer.closed is not None
    assert video.peer.closed[0] == vector.close
    if vector.rows is not None:
        assert video.rows == vector.rows
    if vector.ids is not None:
        assert video.ids == [*vector.ids, NONE]
    if vector.colours is not None:
        check_pictures(pictures(codec, video), vector)


def pictures(codec: str, video: RunningVideo) -> Sequence[Frame]:
    data = [payload for meta, payload in video.pairs if meta.kind == "media" or codec != "raw"]
    return unpacked(b"".join(data)) if codec == "raw" else decode_frames(b"".join(data))


def check_pictures(frames: Sequence[Frame], vector: Vector) -> None:
    """Each was rendered where its metadata says, from the prompt that was in force there."""
    assert len(frames) == vector.frames
    assert vector.colours is not None
    for number, frame in enumerate(frames):
        picture = read_picture(frame)
        assert (picture.chunk, picture.frame) == (number // 9, number)
        name = vector.colours[number // 9]
        if name is not None:
            assert np.abs(picture.colour - np.array(NAMED_COLOURS[name])).max() < 12, (number, name)


async def test_w6_ids_that_the_server_makes(autojump_clock: MockClock) -> None:
    """Two interactions without an id are two, though they are the same."""
    host = WatchedHost()
    hold = host.hold(FIRST)
    async with watching(host, SessionStart(prompt="red", num_frames=27)) as video:
        await video.say(None, "blue")
        await video.say(None, "blue")
        await video.until(lambda: len(video.events) == 3)
        await wait_all_tasks_blocked()
        hold.open()
        await video.end()
    first, second = (event.event_id for event in video.events[1:3] if isinstance(event, InteractionQueued))
    assert uuid.UUID(first) != uuid.UUID(second)
    assert video.done.interactions == {first: "superseded", second: "completed"}
    assert video.ids[1] == (second, second, second)


class HalfWritten(VideoTransport):
    """Waits in the middle of each pair, and keeps what was written."""

    def __init__(self, inner: VideoTransport) -> None:
        self.inner = inner
        self.written: list[str] = []
        self.rest = trio.Event()

    async def receive(self) -> str | None:
        return await self.inner.receive()

    async def send_text(self, text: bytes) -> None:
        self.written.append(show(decode_event(text)))
        await self.inner.send_text(text)

    async def send_pair(self, metadata: bytes, payload: bytes) -> None:
        self.written.append("metadata")
        await self.rest.wait()
        self.written.append("payload")
        await self.inner.send_pair(metadata, payload)

    async def close(self, code: int, reason: str) -> None:
        await self.inner.close(code, reason)


async def test_w21_a_ping_while_a_pair_is_half_written(autojump_clock: MockClock) -> None:
    """It is answered behind the payload."""
    host = WatchedHost()
    transport, peer = memory_transports()
    half = HalfWritten(transport)
    watcher = VideoWatcher(peer)
    watcher.read_on()
    with patient(host.threads, []):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(run_video, half, host, encoders=lambda *_, **__: RawEncoder()))
            nursery.start_soon(watcher.run)
            await peer.send(SessionStart(prompt="red", num_frames=9))
            while "metadata" not in half.written:
                assert not watcher.ended
                await wait_all_tasks_blocked()
            await peer.send(SessionPing())
            await wait_all_tasks_blocked()
            half.rest.set()
    assert half.written == ["start", "metadata", "payload", "pong", "metadata", "payload", "done 2"]
    watcher.check()


async def test_w22_answers_to_a_slow_reader(autojump_clock: MockClock) -> None:
    """They come before the next pair, and two pairs are all that is there."""
    host = WatchedHost()
    start = SessionStart(prompt="red", num_frames=90, streaming_buffer_seconds=None)
    async with watching(host, start) as video:
        await video.chunk(0)
        video.pause()
        await wait_all_tasks_blocked()
        heard = len(video.events)
        for _ in range(20):
            await video.peer.send(SessionPing())
        await video.say("a", "blue")
        await wait_all_tasks_blocked()
        (session,) = host.watched.sessions
        rendered = session.frames
        video.read_on()
        await video.end()
    # One that the watcher has in its hand, and two that are there.
    assert rendered <= 9 * (heard - 1 + 3)
    answers = [shown for shown in video.shown[heard:] if not shown.startswith("media")]
    assert answers == ["pong"] * 20 + [QUEUED_A, "trailer None", "done 11"]
    first = next(number for number, shown in enumerate(video.shown) if shown == "pong")
    assert video.shown[first : first + 21] == ["pong"] * 20 + [QUEUED_A]
    assert first <= heard + 2
