"""A server whose language model is on an engine elsewhere: the real recognition and voice, real conversations."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from duplex_trio.testing.http_faults.answers import Hold, chunk, delta, event, stream_head, streamed
from duplex_trio.testing.http_faults.run import FaultEngine, engine_on_port
from duplex_trio.testing.server_process import ServedPort, server_process
from duplex_trio.testing.speech import Speaker
from duplex_trio.testing.talking.run import PATIENCE_S, talking
from duplex_trio.testing.vllm_server import VllmServer

pytestmark = [pytest.mark.e2e, pytest.mark.models, pytest.mark.slow]

EXAMPLE = Path(__file__).parents[2] / "examples" / "deployments" / "remote_llm.yaml"
START_TIMEOUT_S = 400.0


def deployment(folder: Path, port: int, model: str) -> Path:
    """The example, with the address and the model of a test's engine."""
    text = EXAMPLE.read_text()
    text = re.sub(r"base_url: .*", f"base_url: http://127.0.0.1:{port}/v1", text)
    text = re.sub(r"(?m)^( +)model: Qwen.*$", rf"\1model: {model}", text)
    file = folder / "remote.yaml"
    file.write_text(text)
    return file


@asynccontextmanager
async def served(file: Path) -> AsyncIterator[ServedPort]:
    """`duplex-trio serve` in a process, started beside the engine that this loop carries."""
    process = server_process("--deploy", str(file), start_timeout_s=START_TIMEOUT_S)
    server = await trio.to_thread.run_sync(process.__enter__)
    try:
        yield server
    finally:
        with trio.move_on_after(60, shield=True):
            await trio.to_thread.run_sync(process.__exit__, None, None, None)


async def test_a_conversation_with_a_remote_model_survives_its_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is answered, a barge-in closes its connection, one that breaks fails its response only, and it comes back."""
    monkeypatch.setenv("VLLM_API_KEY", "k-secret")
    speaker = await trio.to_thread.run_sync(Speaker)
    engine = FaultEngine(answers=[streamed("Eggs", " and", " oats", " are", " good.")])
    async with engine_on_port(engine) as port, served(deployment(tmp_path, port, "tiny")) as server:
        before = len(engine.asked)
        async with talking(server.ws_url) as (_client, microphone, listener):
            microphone.say(speaker.say("What is a good breakfast?"))
            done = await listener.until("response.done")
            assert done.raw["response"]["status"] == "completed"
            said = await listener.until("response.output_audio_transcript.done")
            assert said.raw["transcript"] == "Eggs and oats are good."
            assert "breakfast" in engine.asked[before].json["messages"][-1]["content"].lower()

            hold = Hold()
            begun = [chunk(event(delta("This is a very long story about a dragon. "))) for _ in range(4)]
            engine.answers = [[stream_head(), *begun, hold]]
            microphone.say(speaker.say("Please tell me a long story about a dragon."))
            await hold.reached.wait()
            await listener.until(
                "response.output_audio.delta", len(listener.of("response.output_audio.delta")) + 1
            )
            asked = engine.asked[-1]
            microphone.say(speaker.say("Wait, stop that now please."))
            with trio.fail_after(PATIENCE_S):
                await asked.gone.wait()
            cut = await listener.until("response.done", 2)
            assert cut.raw["response"]["status"] == "cancelled"

            engine.break_down()
            failed = await listener.until("response.done", 3)
            assert failed.raw["response"]["status"] in ("failed", "cancelled")
            engine.up = True
            engine.answers = [streamed("I", " am", " back.")]
            with trio.fail_after(PATIENCE_S):
                while failed.raw["response"]["status"] != "completed":
                    count = len(listener.of("response.done"))
                    microphone.say(speaker.say("Hello, are you there again?"))
                    failed = await listener.until("response.done", count + 1)
            assert engine.live == 0


async def test_a_remote_model_speaks_through_processes_that_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is let go of when the voices die, and the session is answered once they are back."""
    monkeypatch.setenv("VLLM_API_KEY", "k-secret")
    speaker = await trio.to_thread.run_sync(Speaker)
    hold = Hold()
    begun = [chunk(event(delta("This is a very long story about a dragon. "))) for _ in range(4)]
    # The first one is asked for by the warm-up.
    engine = FaultEngine(
        answers=[streamed("Hello", "."), [stream_head(), *begun, hold], streamed("I", " am", " back.")]
    )
    async with engine_on_port(engine) as port:
        file = deployment(tmp_path, port, "tiny")
        file.write_text(file.read_text() + "  - {stage_id: 2, execution: process, num_replicas: 2}\n")
        async with served(file) as server, talking(server.ws_url) as (_client, microphone, listener):
            microphone.say(speaker.say("Please tell me a long story about a dragon."))
            await hold.reached.wait()
            await listener.until("response.output_audio.delta")
            for pid in server.stage_processes():
                os.kill(pid, signal.SIGKILL)
            done = await listener.until("response.done")
            assert done.raw["response"]["status"] == "failed"
            with trio.fail_after(PATIENCE_S):
                await engine.asked[1].gone.wait()
                while done.raw["response"]["status"] != "completed":
                    count = len(listener.of("response.done"))
                    microphone.say(speaker.say("Hello, are you there again?"))
                    done = await listener.until("response.done", count + 1)
            assert engine.live == 0


async def test_a_spoken_conversation_is_answered_by_vllms_own_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vllm: VllmServer
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "k-secret")
    speaker = await trio.to_thread.run_sync(Speaker)
    async with served(deployment(tmp_path, vllm.port, "smollm2-135m")) as server:
        async with talking(server.ws_url) as (_client, microphone, listener):
            microphone.say(speaker.say("What is a good breakfast?"))
            done = await listener.until("response.done")
            assert done.raw["response"]["status"] in ("completed", "incomplete")
            assert done.raw["response"]["usage"]["input_tokens"] > 10
            assert listener.of("response.output_audio.delta")
        with trio.fail_after(PATIENCE_S):
            while await trio.to_thread.run_sync(vllm.running_requests):  # noqa: ASYNC110  another process decides
                await trio.sleep(0.2)
