"""A server with two replicas of each stage, one of which breaks while it speaks."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import trio
from attrs import define, field

from duplex_trio.clients import DuplexClient
from duplex_trio.clients.events import ServerEvent
from duplex_trio.protocol.duplex.audio import pcm16_bytes
from duplex_trio.testing.server_process import ServedPort, server_process

pytestmark = pytest.mark.e2e

START_TIMEOUT_S = 60.0
PATIENCE_S = 30.0
WORDS = "alpha bravo charlie delta echo foxtrot golf hotel. "
DEPLOYMENT = f"""
base_config: scripted
stages:
  - stage_id: 0
    num_replicas: 2
    engine_args:
      heard: [tell me a story, and now something else]
  - stage_id: 1
    num_replicas: 2
    engine_args:
      replies:
        tell me a story: {WORDS * 5}And then boom it went. {WORDS * 5}
        tell me another one: {WORDS * 5}
  - stage_id: 2
    num_replicas: 2
    engine_args:
      dies_speaking: boom
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPort]:
    path = tmp_path_factory.mktemp("replicas") / "deploy.yaml"
    path.write_text(DEPLOYMENT)
    with server_process("--deploy", str(path), start_timeout_s=START_TIMEOUT_S) as served:
        yield served


@define(eq=False)
class Guest:
    """A client that plays what it hears at once."""

    client: DuplexClient
    heard: list[ServerEvent] = field(factory=list)
    news: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)

    async def listen(self) -> None:
        with self.client.events() as events:
            async for event in events:
                self.heard.append(event)
                self.news.unpark_all()
                if event.type == "response.output_audio.delta":
                    assert event.response_id is not None
                    await self.client.ack_playback(
                        event.duplex["audio_duration_ms"], response_id=event.response_id
                    )

    async def until(self, kind: str, count: int = 1) -> ServerEvent:
        with trio.fail_after(PATIENCE_S):
            while len(found := [event for event in self.heard if event.type == kind]) < count:
                await self.news.park()
        return found[count - 1]

    async def speak(self) -> None:
        """A turn of one second, in real time."""
        time_s = np.arange(16_000, dtype=np.float32) / 16_000
        loud = (0.3 * np.sin(2 * np.pi * 200 * time_s)).astype(np.float32)
        sound = np.concatenate([loud, np.zeros(16_000, np.float32)])
        await self.client.stream_pcm(pcm16_bytes(sound), realtime=True)

    async def write(self, text: str) -> None:
        await self.client.create_item(text)
        await self.client.create_response()


@asynccontextmanager
async def guest(server: ServedPort) -> AsyncIterator[Guest]:
    async with DuplexClient(server.ws_url) as client, trio.open_nursery() as nursery:
        one = Guest(client)
        nursery.start_soon(one.listen)
        await trio.lowlevel.checkpoint()
        yield one
        nursery.cancel_scope.cancel()


def health(server: ServedPort) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/health", timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def replicas_of(stage: str, told: dict[str, Any]) -> list[dict[str, Any]]:
    (found,) = [each for each in told["stages"] if each["name"] == stage]
    replicas: list[dict[str, Any]] = found["replicas"]
    return replicas


async def comes(condition: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not await trio.to_thread.run_sync(condition):  # noqa: ASYNC110  another process decides
            await trio.sleep(0.02)


async def test_a_replica_that_breaks_in_mid_response_costs_one_answer(server: ServedPort) -> None:
    """The session is told and goes on, the other one hears nothing of it, and the replica comes back."""
    assert health(server)[1]["status"] == "ready"
    async with guest(server) as unlucky, guest(server) as other:
        await unlucky.speak()
        await unlucky.until("response.output_audio.delta")
        await other.write("tell me another one")
        await other.until("response.output_audio.delta")
        seen: list[dict[str, Any]] = []

        def degraded() -> bool:
            status, told = health(server)
            assert status == 200, "each stage has a replica all the time"
            seen.append(told)
            # It is down a moment before it is known why.
            broken = [each for each in replicas_of("tts", told) if each["last_error"] is not None]
            return bool(told["status"] == "degraded" and broken)

        await comes(degraded)
        states = [
            (replica["state"], replica["last_error"] is None) for replica in replicas_of("tts", seen[-1])
        ]
        assert states == [("restarting", False), ("ready", True)]
        failed = (await unlucky.until("response.done")).raw["response"]
        assert failed["status"] == "failed"
        assert failed["status_details"]["error"]["code"] == "engine_dead"
        await comes(lambda: health(server)[1]["status"] == "ready")
        whole = (await other.until("response.done")).raw["response"]
        assert whole["status"] == "completed"
        await unlucky.speak()
        again = (await unlucky.until("response.done", 2)).raw["response"]
        assert again["status"] == "completed"
        assert [event.type for event in other.heard if event.type == "error"] == []
        assert len([event for event in unlucky.heard if event.type == "error"]) == 1

    told = health(server)[1]
    assert [replica["restarts"] for replica in replicas_of("tts", told)] == [1, 0]
    await comes(lambda: server.metrics()["duplex_live_requests"] == 0)
    shown = server.metrics()
    assert shown['duplex_replica_restarts_total{replica="0",stage="tts"}'] == 1
    assert shown['duplex_replica_alive{replica="0",stage="tts"}'] == 1
    assert shown["duplex_leaked_requests_total"] == 0
    for stage in ("asr", "llm", "tts"):
        assert shown[f'duplex_stage_live_requests{{stage="{stage}"}}'] == 0
    assert any("stage.broke" in line for line in server.printed)
    assert any("stage.back" in line for line in server.printed)
