"""`serve` as a process of its own with a model of video: a signal in mid-video, and the death of a stage's process."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
import trio_websocket

from duplex_trio.testing.server_process import ServedPort, server_process

pytestmark = pytest.mark.e2e

GUARD_S = 120.0
SCRIPTED = """
base_config: scripted_video
video_session: {max_sessions: 1}
stages:
  - {stage_id: 0, execution: process, engine_args: {encode_delay_s: 1.0}}
"""
BESIDE = """
base_config: scripted
video: ./video.yaml
"""


class Watcher:
    """A client that steers."""

    def __init__(self, socket: trio_websocket.WebSocketConnection) -> None:
        self._socket = socket
        self.chunks = 0

    async def say(self, **message: Any) -> None:
        await self._socket.send_message(orjson.dumps(message).decode())

    async def interact(self, event_id: str) -> None:
        interaction = {"event_id": event_id, "event": {"prompt": event_id}, "transition_chunks": 0}
        await self.say(type="session.interaction", interaction=interaction)

    async def next(self) -> dict[str, Any]:
        with trio.fail_after(GUARD_S):
            event: dict[str, Any] = orjson.loads(await self._socket.get_message())
            if event["type"] == "video.chunk_metadata":
                assert isinstance(await self._socket.get_message(), bytes)
                self.chunks += 1
        return event

    async def until(self, *kinds: str) -> dict[str, Any]:
        while (event := await self.next())["type"] not in kinds:
            pass
        return event

    async def outcome(self, event_id: str) -> str:
        """Steer, and wait for what comes of it."""
        await self.interact(event_id)
        while True:
            event = await self.next()
            if event["type"] == "error" and event["event_id"] == event_id:
                assert event["code"] == "interaction_failed"
                return "failed"
            if event_id in event.get("started_event_ids", ()):
                return "started"

    async def until_closed(self) -> int:
        with pytest.raises(trio_websocket.ConnectionClosed) as ended:
            await self.until("no such event")
        reason = ended.value.reason
        assert reason is not None
        return int(reason.code)


@asynccontextmanager
async def watching(served: ServedPort) -> AsyncIterator[Watcher]:
    async with trio_websocket.open_websocket_url(f"{served.ws_url}/video") as socket:
        watcher = Watcher(socket)
        await watcher.say(type="session.start", prompt="red", streaming_buffer_seconds=0.2)
        await watcher.until("video.start")
        try:
            yield watcher
        finally:
            # A client of this library that was closed by its server may be left before TCP has ended.
            await trio.aclose_forcefully(socket._stream)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "video.yaml").write_text(SCRIPTED)
    (tmp_path / "beside.yaml").write_text(BESIDE)
    return tmp_path


@pytest.fixture(params=["alone", "beside"])
def served(files: Path, request: pytest.FixtureRequest) -> Iterator[ServedPort]:
    name = "video.yaml" if request.param == "alone" else "beside.yaml"
    with server_process(
        "--deploy", str(files / name), "--drain-timeout", "1", start_timeout_s=GUARD_S
    ) as port:
        yield port


async def test_a_video_outlives_its_stages_process(served: ServedPort) -> None:
    """A prompt that comes meanwhile fails, pictures go on, and later prompts work again."""
    async with watching(served) as watcher:
        (pid,) = served.stage_processes()
        await watcher.interact("lost")
        await watcher.until("session.interaction.queued")
        os.kill(pid, signal.SIGKILL)  # it takes a second for a prompt
        failed = await watcher.until("error")
        assert (failed["code"], failed["event_id"]) == ("interaction_failed", "lost")
        await watcher.until("video.chunk_metadata")
        for attempt in range(1_000):
            if await watcher.outcome(f"try-{attempt}") == "started":
                break
            await watcher.until("video.chunk_metadata")  # no flood
        assert served.stage_processes() not in ([], [pid])
        await watcher.say(type="session.stop")
        done = await watcher.until("session.done")
        assert done["chunks"] == watcher.chunks
        assert await watcher.until_closed() == 1000
    printed = "".join(served.printed)
    assert "Video at" in printed
    assert f"{served.ws_url}/video" in printed


async def test_a_signal_gives_a_video_its_time_and_ends_it(served: ServedPort) -> None:
    async with watching(served) as watcher:
        await watcher.until("video.chunk_metadata")
        os.kill(served.pid, signal.SIGTERM)
        before = watcher.chunks
        fault = await watcher.until("error")
        assert fault["code"] == "server_shutdown"
        assert watcher.chunks > before  # it was given its time
        assert await watcher.until_closed() == 1001
    with trio.fail_after(GUARD_S):
        while served.alive:  # noqa: ASYNC110  one signal is enough for it
            await trio.sleep(0.05)
