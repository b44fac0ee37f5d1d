"""How videos begin, and how they do not: each refusal with its code, its field and its close code (video.md 3.3)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.models.scripted.video_script import VideoScript
from duplex_trio.protocol.video import SessionPing, SessionStart
from duplex_trio.testing.kept_logs import Logs
from duplex_trio.testing.videos.encoder import RawEncoder
from duplex_trio.testing.videos.host import WatchedHost
from duplex_trio.testing.videos.run import RunningVideo, watching
from duplex_trio.testing.videos.watcher import VideoWatcher
from duplex_trio.video.encoders.errors import EncoderError, EncoderUnavailableError
from duplex_trio.video.encoders.making import make_encoder
from duplex_trio.video.memory import memory_transports
from duplex_trio.video.run import run_video


def start(**fields: Any) -> str:
    return json.dumps({"type": "session.start", "prompt": "red", "num_frames": 9, **fields})


REFUSED: dict[str, tuple[str | bytes, str]] = {
    "binary": (b"x", "error invalid_message"),
    "no JSON": ("{", "error invalid_json"),
    "no object": ("[]", "error invalid_message"),
    "another message": ('{"type": "session.ping"}', "error session_not_started"),
    "no prompt": ('{"type": "session.start"}', "error invalid_start prompt"),
    "blank prompt": (start(prompt=" "), "error invalid_start prompt"),
    "odd size": (start(width=65), "error invalid_start width"),
    "too large": (start(height=2048), "error invalid_start height"),
    "unknown format": (start(format="avi"), "error invalid_start format"),
    "too long": (start(num_frames=16 * 601), "error invalid_start num_frames"),
    "another model": (start(model="helios"), "error model_not_found model"),
    "not for this model": (start(guidance_scale=3), "error invalid_start guidance_scale"),
    "what the model refuses": (start(extra_params={"colour": 1}), "error invalid_start"),
    "too large a message": (start(prompt="x" * 70_000), "error message_too_large"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_start_that_is_refused(autojump_clock: MockClock, name: str, logs: Logs) -> None:
    message, shown = REFUSED[name]
    host = WatchedHost()
    async with watching(host, message) as video:
        await video.end()
    code = shown.split()[1]
    assert video.shown == [shown]
    assert video.peer.closed == (1008, code)
    assert video.figures is not None
    assert video.figures.outcome == code
    assert [entry["code"] for entry in logs if entry["event"] == "video.refused"] == [code]
    assert not host.watched.sessions


async def test_a_client_that_does_not_say_what_it_wants(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    async with watching(host) as video:
        await video.end()
        assert trio.current_time() == 10.0
    assert video.shown == ["error start_timeout"]
    assert video.peer.closed == (1008, "start_timeout")


async def test_no_place(autojump_clock: MockClock) -> None:
    """A wrong request is told what is wrong with it all the same."""
    host = WatchedHost(places=1)
    hold = host.hold((0, 0))
    async with watching(host, start()) as first:
        await first.reach(hold)
        for message, code, close in (
            (start(), "resource_exhausted", 1013),
            (start(width=1), "invalid_start", 1008),
        ):
            await refused(host, message, code, close)
        hold.open()
        await first.end()
    assert first.shown[-1] == "done 2"


def outcome(video: RunningVideo) -> str:
    assert video.figures is not None
    return video.figures.outcome


async def refused(host: WatchedHost, message: str, code: str, close: int) -> None:
    transport, peer = memory_transports()
    watcher = VideoWatcher(peer)
    watcher.read_on()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_video, transport, host)
        await peer.send(message)
        await watcher.run()
    assert watcher.errors[0].code == code
    assert peer.closed == (close, code)


async def test_a_server_on_its_way_out(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    host.closing = "server_shutdown"
    async with watching(host, start()) as video:
        await video.end()
    assert video.peer.closed == (1001, "server_shutdown")


async def test_a_drain_while_the_first_prompt_is_encoded(autojump_clock: MockClock) -> None:
    """The client is told at once; the thread is waited for."""
    host = WatchedHost()
    hold = host.hold("red")
    async with watching(host, start()) as video:
        await video.reach(hold)
        host.slots[0].draining.set()
        await video.end()
        assert video.figures is None
        assert trio.current_time() < 1.0
        hold.open()
    assert video.shown == ["error server_shutdown"]
    assert video.peer.closed == (1001, "server_shutdown")
    assert outcome(video) == "server_shutdown"


async def test_a_first_prompt_that_is_never_encoded(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    hold = host.hold("red")
    async with watching(host, start()) as video:
        await video.end()
        assert trio.current_time() == 60.0
        hold.open()
    assert video.shown == ["error stall_timeout"]
    assert video.peer.closed == (1011, "stall_timeout")
    assert outcome(video) == "stall_timeout"


async def test_a_first_prompt_that_takes_its_time(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    hold = host.hold("red")
    async with watching(host, start()) as video:
        await video.reach(hold)
        await trio.sleep(59.0)
        hold.open()
        await video.end()
    assert video.shown[-1] == "done 2"


@pytest.mark.parametrize(
    ("word", "code", "close"),
    [("refused_word", "invalid_start", 1008), ("failing_word", "generation_failed", 1011)],
)
async def test_a_first_prompt_that_cannot_be_encoded(
    autojump_clock: MockClock, logs: Logs, word: str, code: str, close: int
) -> None:
    """A stage that does not work is one line of the log for each who asks."""
    host = WatchedHost(script=VideoScript(**{word: "odd"}))
    async with watching(host, start(prompt="odd")) as video:
        await video.end()
    assert video.peer.closed == (close, code)
    assert (video.errors[0].param == "prompt") == (code == "invalid_start")
    assert ("cannot do 'odd'" in video.errors[0].message) == (code == "invalid_start")
    failures = [entry for entry in logs if entry["event"] == "video.opening_failed"]
    assert ["exc_info" in entry for entry in failures] == [False] * (code == "generation_failed")


@pytest.mark.parametrize(
    ("error", "code", "close"),
    [(EncoderUnavailableError, "generation_failed", 1011), (EncoderError, "invalid_start", 1008)],
)
async def test_an_encoder_that_cannot_be_had(
    autojump_clock: MockClock, error: type[Exception], code: str, close: int
) -> None:
    def make(*_: Any, **__: Any) -> RawEncoder:
        raise error("install something")

    host = WatchedHost()
    async with watching(host, start(), encoders=make) as video:
        await video.end()
    assert video.peer.closed == (close, code)


async def test_what_a_client_is_told_first(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    async with watching(host, start(seed=7, size="128x64", fps=20), encoders=make_encoder) as video:
        await video.end()
    told = video.started
    assert told.request_id.startswith("video_stream-")
    assert len(told.request_id) == len("video_stream-") + 32
    assert told.mime_type.startswith('video/mp4; codecs="avc1.')
    assert (told.format, told.chunk_frames, told.default_transition_chunks) == ("m4s", 9, 3)
    assert told.supports_interaction
    expected = {"model": "scripted_video", "prompt": "red", "width": 128, "height": 64, "fps": 20, "seed": 7}
    assert {key: told.config[key] for key in expected} == expected


async def test_a_seed_is_chosen_and_told(autojump_clock: MockClock) -> None:
    seeds = set()
    for _ in range(2):
        host = WatchedHost()
        async with watching(host, start()) as video:
            await video.end()
        seeds.add(video.started.config["seed"])
    assert len(seeds) == 2


async def test_what_is_said_before_the_video_begins(autojump_clock: MockClock) -> None:
    """It is read when it has begun."""
    host = WatchedHost()
    hold = host.hold("red")
    async with watching(host, start()) as video:
        await video.peer.send(SessionPing())
        await video.say("a", "blue")
        await wait_all_tasks_blocked()
        assert video.events == []
        hold.open()
        await video.end()
    assert video.shown[:2] == ["start", "pong"]
    assert "interaction.queued a" in video.shown or "error interaction_failed a" in video.shown


async def test_the_log(autojump_clock: MockClock, logs: Logs) -> None:
    """How it began and how it ended; what was wanted only on demand."""
    for log_prompts in (False, True):
        host = WatchedHost(limits=VideoSessionDeploy())
        async with watching(
            host, SessionStart(prompt="red secret", num_frames=18), log_prompts=log_prompts
        ) as video:
            await video.end()
        (began,) = [entry for entry in logs if entry["event"] == "video.started"]
        (ended,) = [entry for entry in logs if entry["event"] == "video.ended"]
        assert began["request_id"] == ended["request_id"] == video.started.request_id
        assert (began["width"], began["num_frames"]) == (64, 18)
        assert (ended["outcome"], ended["frames"], ended["chunks"]) == ("done", 18, 2)
        assert any("secret" in str(entry) for entry in logs) == log_prompts
        logs.clear()
