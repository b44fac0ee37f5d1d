"""A server whose language model is in a process of its own, and what its sessions see when that process is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
import trio_websocket

from duplex_trio.testing.server_process import ServedPort, server_process

pytestmark = pytest.mark.e2e

GUARD_S = 240.0
SCRIPTED = """
base_config: scripted
stages:
  - {stage_id: 1, execution: process, num_replicas: 2}
"""
CASCADE = """
base_config: cascade_cpu
stages:
  - {stage_id: 1, execution: process}
"""


class Talker:
    """A session that writes and reads."""

    def __init__(self, socket: trio_websocket.WebSocketConnection) -> None:
        self._socket = socket

    async def until(self, *kinds: str) -> dict[str, Any]:
        while True:
            event: dict[str, Any] = orjson.loads(await self._socket.get_message())
            if event["type"] in kinds:
                return event

    async def write(self, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        create = {"type": "conversation.item.create", "item": item}
        answer = {"type": "response.create", "response": {"output_modalities": ["text"]}}
        for event in (create, answer):
            await self._socket.send_message(orjson.dumps(event).decode())

    async def done(self) -> tuple[str, str]:
        """How the response ended, and what it said."""
        response = (await self.until("response.done"))["response"]
        said = [part.get("text", "") for item in response["output"] for part in item.get("content", ())]
        return response["status"], "".join(said)

    async def ask(self, text: str) -> tuple[str, str]:
        await self.write(text)
        return await self.done()

    async def ask_until_it_answers(self, text: str) -> str:
        while True:
            status, said = await self.ask(text)
            # A long answer may be cut at its length; it is one all the same.
            if status in ("completed", "incomplete"):
                return said
            assert status == "failed"
            # A failed response takes no time, and a model that loads needs the processor.
            await trio.sleep(0.2)


@asynccontextmanager
async def talking(server: ServedPort) -> AsyncIterator[Talker]:
    with trio.fail_after(GUARD_S):
        async with trio_websocket.open_websocket_url(server.ws_url) as socket:
            yield Talker(socket)


def serve(folder: Path, deploy: str) -> Any:
    file = folder / "deploy.yaml"
    file.write_text(deploy)
    return server_process("--deploy", str(file), start_timeout_s=GUARD_S)


async def test_a_process_killed_in_mid_response_costs_its_own_sessions_one_response(tmp_path: Path) -> None:
    with serve(tmp_path, SCRIPTED) as server:
        assert len(server.stage_processes()) == 2
        async with talking(server) as one, talking(server) as other:
            assert await one.ask("hello") == ("completed", "You said: hello")
            assert await other.ask("hello") == ("completed", "You said: hello")
            first, second = server.stage_processes()
            for pid in (first, second):
                os.kill(pid, signal.SIGSTOP)
            ended: dict[str, tuple[str, str]] = {}
            async with trio.open_nursery() as nursery:

                async def answered(name: str, talker: Talker) -> None:
                    ended[name] = await talker.done()
                    # Whoever's process is alive is let go when the other one has been told.
                    os.kill(second, signal.SIGCONT)

                for name, talker in (("one", one), ("other", other)):
                    await talker.write("and now")
                    await talker.until("response.created")
                    nursery.start_soon(answered, name, talker)
                os.kill(first, signal.SIGKILL)
            assert sorted(ended.values()) == [("completed", "You said: and now"), ("failed", "")]
            for talker in (one, other):
                assert (await talker.ask("still there"))[0] == "completed"
            while len(server.stage_processes()) < 2:
                assert (await one.ask("and again"))[0] == "completed"
            os.kill(second, signal.SIGKILL)
            # What got no answer is part of the next question.
            for talker in (one, other):
                assert (await talker.ask_until_it_answers("back again")).endswith("back again")
        pids = server.stage_processes()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_all_replicas_killed_while_they_are_idle_and_while_they_load_come_back(tmp_path: Path) -> None:
    """Whoever asks meanwhile is told at once, and nothing stays behind."""
    with serve(tmp_path, SCRIPTED) as server:
        async with talking(server) as talker:
            assert (await talker.ask("hello"))[0] == "completed"
            killed: set[int] = set()
            while len(killed) < 6:
                for pid in set(server.stage_processes()) - killed:
                    killed.add(pid)
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                status, said = await talker.ask("there")
                assert status == "failed" or said.endswith("there")
                await trio.sleep(0.05)
            assert (await talker.ask_until_it_answers("back again")).endswith("back again")
            figures = await trio.to_thread.run_sync(server.metrics)
            assert figures['duplex_stage_live_requests{stage="llm"}'] == 0
            assert figures["duplex_leaked_requests_total"] == 0
        for pid in killed:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


async def test_a_terminals_interrupt_drains_a_server_with_its_processes(tmp_path: Path) -> None:
    with serve(tmp_path, SCRIPTED) as server:
        async with talking(server) as talker:
            assert (await talker.ask("hello"))[0] == "completed"
            for pid in server.stage_processes():
                os.kill(pid, signal.SIGINT)
                os.kill(pid, signal.SIGTERM)
            assert (await talker.ask("hello again"))[0] == "completed"


@pytest.mark.models
async def test_a_real_model_in_a_process_answers_and_comes_back(tmp_path: Path) -> None:
    with serve(tmp_path, CASCADE) as server:
        async with talking(server) as talker:
            status, said = await talker.ask("What is the capital of France?")
            assert status == "completed"
            assert said
            await talker.write("Tell me a long story about a ship and its crew.")
            await talker.until("response.output_text.delta")
            (pid,) = server.stage_processes()
            os.kill(pid, signal.SIGKILL)
            status, _ = await talker.done()
            assert status == "failed"
            assert await talker.ask_until_it_answers("What is the capital of Italy?")
