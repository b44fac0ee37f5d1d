"""The `serve` command from its first second to its last, in both session modes: what it says, and when it ends."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio

from duplex_trio.pipelines.registry import GROUP
from duplex_trio.testing.distributions import install
from duplex_trio.testing.raw_websocket import CLOSE, RawWebSocket, upgrade_request
from duplex_trio.testing.serve_command import ServeCommand, serve_command

pytestmark = pytest.mark.e2e

MODES = ("duplex", "turn")
HELLO = {"messages": [{"role": "user", "content": "hello"}]}
ENDLESS = {
    "messages": [{"role": "user", "content": "count " * 3900}],
    "modalities": ["text", "audio"],
    "audio": {"voice": "alloy", "format": "pcm16"},
    "stream": True,
    "max_tokens": 3900,
}
"""Said back it is a quarter of an hour of sound, 75 MB: not to be read in the blink of an eye."""

MODELS = '''
import os, time
import attrs
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.workers import ScriptedLlm

class WaitingLlm(ScriptedLlm):
    """Loads once somebody writes into a pipe, and is in native code until then."""
    def load(self):
        with open(os.environ["LET"]) as let:
            word = let.read()
        if word == "break":
            raise OSError("the weights are cut off")

    def submit(self, request_id, unit, final, context):
        if unit.messages[-1].content == "hang":
            with open(os.environ["LET"]) as let:
                let.read()
        super().submit(request_id, unit, final, context)

class Waiting(ScriptedPipeline):
    config = attrs.evolve(ScriptedPipeline.config, name="waiting")
    def build_worker(self, stage_id):
        return WaitingLlm(self.script) if stage_id == 1 else super().build_worker(stage_id)
'''


class Held:
    """A deployment whose model waits to be let."""

    def __init__(self, folder: Path, mode: str) -> None:
        install(
            folder,
            "held-models",
            files={"held_models.py": MODELS},
            announces={GROUP: {"waiting": "held_models:Waiting"}},
        )
        self.pipe = folder / "let"
        os.mkfifo(self.pipe)
        self.deploy = folder / "deploy.yaml"
        self.deploy.write_text(f"pipeline: waiting\nsession_mode: {mode}\n")
        self.env = {"PYTHONPATH": str(folder), "LET": str(self.pipe)}

    async def let(self, word: str = "") -> None:
        """Let it load, or break."""
        await trio.Path(self.pipe).write_text(word)


@pytest.fixture(params=MODES)
def held(tmp_path: Path, request: pytest.FixtureRequest) -> Held:
    return Held(tmp_path, request.param)


@pytest.fixture(params=MODES)
def deploy(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    path = tmp_path / "deploy.yaml"
    path.write_text(f"base_config: scripted\nsession_mode: {request.param}\n")
    return str(path)


def loading(tmp_path: Path, held: Held) -> Any:
    return serve_command(tmp_path, deploy=str(held.deploy), until="loading", **held.env)


async def read_on(command: ServeCommand) -> str:
    """What the command prints from here to its end."""
    assert command.process.stdout is not None
    with trio.fail_after(60):
        return b"".join([chunk async for chunk in command.process.stdout]).decode()


async def test_it_answers_from_the_first_second_and_is_ready_when_the_model_is(
    tmp_path: Path, held: Held
) -> None:
    async with loading(tmp_path, held) as command:
        health = await command.until_health("loading")
        assert await command.health() == 503
        assert (await command.ask("GET", "/v1/models"))[1]["error"]["code"] == "loading"
        await held.let()
        health = await command.until_health("ready")
        assert {stage["name"] for stage in health["stages"]} >= {"asr", "llm", "tts"}
        status, answer = await command.ask("POST", "/v1/chat/completions", orjson.dumps(HELLO))
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "You said: hello")
        command.signal()
        assert "Ready. Stop with Ctrl-C." in await read_on(command)
        assert await command.exit_code() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_while_it_loads_ends_it_at_once(
    tmp_path: Path, held: Held, number: signal.Signals
) -> None:
    """The model's thread is still in native code then."""
    async with loading(tmp_path, held) as command:
        await command.until_health("loading")
        command.signal(number)
        assert await read_on(command) == ""
        assert await command.exit_code() == 0
        assert "Traceback" not in command.log.read_text()
        assert "server.stuck" not in command.log.read_text()


async def test_a_model_that_does_not_load_is_one_line_and_a_status(tmp_path: Path, held: Held) -> None:
    async with loading(tmp_path, held) as command:
        await held.let("break")
        assert await read_on(command) == ""
        assert await command.exit_code() == 1
        last = command.log.read_text().splitlines()[-1]
        assert last == "duplex-trio: stage 'llm' could not be loaded: the weights are cut off"
        with pytest.raises(OSError, match="connect"):
            await RawWebSocket.open(command.port)


async def endless(command: ServeCommand) -> trio.SocketStream:
    """A chat whose answer is long, and has begun."""
    stream = await trio.open_tcp_stream("127.0.0.1", command.port)
    body = orjson.dumps(ENDLESS)
    fields = f"Host: x\r\nConnection: close\r\nContent-Length: {len(body)}"
    await stream.send_all(f"POST /v1/chat/completions HTTP/1.1\r\n{fields}\r\n\r\n".encode() + body)
    assert (await stream.receive_some(12)) == b"HTTP/1.1 200"
    return stream


async def rest(stream: trio.SocketStream) -> bytes:
    """Everything to the end of the connection."""
    with trio.fail_after(60):
        async with stream:
            return b"".join([part async for part in stream])


async def test_a_chat_has_its_time_and_is_told_why_it_ends(tmp_path: Path, deploy: str) -> None:
    # A tenth of what the whole answer takes on a quick machine.
    async with serve_command(tmp_path, "--drain-timeout", "0.02", deploy=deploy) as command:
        chat = await endless(command)
        command.signal()
        answer = await rest(chat)
        assert b'"code":"server_shutdown"' in answer or b'"code":"shutting_down"' in answer
        assert await command.exit_code() == 0
        assert "Traceback" not in command.log.read_text()


async def test_while_it_drains_it_takes_nothing_new_and_a_second_signal_hurries_it(
    tmp_path: Path, deploy: str
) -> None:
    async with serve_command(tmp_path, "--drain-timeout", "600", deploy=deploy) as command:
        chat = await endless(command)
        command.signal()
        await command.until_health("draining")
        assert await command.health() == 503
        status, answer = await command.ask("POST", "/v1/chat/completions", orjson.dumps(HELLO))
        assert (status, answer["error"]["code"]) == (503, "shutting_down")
        command.signal()
        assert b"[DONE]" in await rest(chat)
        assert await command.exit_code() == 0


async def test_a_chat_that_ends_in_time_is_answered_to_its_end(tmp_path: Path, held: Held) -> None:
    async with loading(tmp_path, held) as command:
        await held.let()
        await command.until_health("ready")
        async with trio.open_nursery() as nursery:
            answers: list[Any] = []

            async def ask() -> None:
                body = orjson.dumps({"messages": [{"role": "user", "content": "hang"}]})
                answers.append(await command.ask("POST", "/v1/chat/completions", body))

            nursery.start_soon(ask)
            while not any(stage_requests(await command.ask("GET", "/health"))):  # noqa: ASYNC110
                await trio.sleep(0.02)
            command.signal()
            await command.until_health("draining")
            await held.let()
        ((status, answer),) = answers
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "You said: hang")
        assert await command.exit_code() == 0


def stage_requests(answer: tuple[int, Any]) -> list[int]:
    return [replica["live_requests"] for stage in answer[1]["stages"] for replica in stage["replicas"]]


async def test_a_third_signal_ends_even_a_model_that_hangs(tmp_path: Path, held: Held) -> None:
    async with loading(tmp_path, held) as command:
        await held.let()
        await command.until_health("ready")
        body = orjson.dumps({"messages": [{"role": "user", "content": "hang"}]})
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with suppress(Exception):
                    await command.ask("POST", "/v1/chat/completions", body)

            nursery.start_soon(ask)
            while not any(stage_requests(await command.ask("GET", "/health"))):  # noqa: ASYNC110
                await trio.sleep(0.02)
            for count in (1, 2, 3):  # one that comes before another is taken is that one
                command.signal()
                while command.log.read_text().count("server.signal") < count:  # noqa: ASYNC110
                    await trio.sleep(0.02)
            assert await command.exit_code() == 1
            nursery.cancel_scope.cancel()
        assert "server.stuck" in command.log.read_text()


@pytest.mark.parametrize("path", ["native", "asgi"])
@pytest.mark.parametrize(
    "target", ["/v1/realtime", "/v1/realtime?model=m&duplex=1", "/v1/duplex", "/v1/realtime/video"]
)
async def test_a_turn_deployment_has_no_websocket(tmp_path: Path, path: str, target: str) -> None:
    deploy = tmp_path / "deploy.yaml"
    deploy.write_text("base_config: scripted\nsession_mode: turn\n")
    async with serve_command(tmp_path, "--ws", path, deploy=str(deploy)) as command:
        client = await command.open(target)
        error = await client.receive()
        assert error is not None
        told = orjson.loads(error.payload)
        assert told.pop("event_id").startswith("event_")
        where = target.partition("?")[0]
        message = (
            f"there is no WebSocket at {where}: this deployment answers requests "
            "(session_mode: turn) and has no sessions"
        )
        if where == "/v1/realtime/video":
            message = "/v1/realtime/video is not available: this deployment serves no video"
        assert told == {
            "type": "error",
            "error": {"type": "invalid_request_error", "code": "unsupported", "message": message},
        }
        end = await client.receive()
        assert end is not None
        assert (end.opcode, end.close_code, end.close_reason) == (CLOSE, 1008, "unsupported")
        await client.aclose()
        if path == "native" and target == "/v1/realtime":
            for absent in ("/v1/realtime", "/v1/duplex", "/v1/realtime/capabilities"):
                assert await command.ask("GET", absent) == (
                    404,
                    {
                        "error": {
                            "message": f"{absent} is not available in this deployment",
                            "type": "not_found_error",
                            "param": None,
                            "code": "not_available",
                        }
                    },
                )


async def test_a_server_of_requests_loads_nothing_of_sessions(tmp_path: Path) -> None:
    """Until somebody asks for a WebSocket, whose refusal the codec of sessions writes."""
    deploy = tmp_path / "deploy.yaml"
    deploy.write_text("base_config: scripted\nsession_mode: turn\n")
    async with serve_command(tmp_path, deploy=str(deploy), PYTHONPROFILEIMPORTTIME="1") as command:
        status, _ = await command.ask("POST", "/v1/chat/completions", orjson.dumps(HELLO))
        assert status == 200
        assert await command.health() == 200
        assert "duplex_trio.entrypoints.async_omni" in modules(command)
        words = ("duplex", "session", "plugin")
        loaded = {name for name in modules(command) if name.startswith("duplex_trio.")}
        assert {
            name for name in loaded if any(word in name.removeprefix("duplex_trio.") for word in words)
        } == set()
        client = await RawWebSocket.open(command.port)
        await client.send(upgrade_request("/v1/realtime"))
        assert (await client.response_head())[0] == 101
        assert await client.receive() is not None
        await client.aclose()
        assert "duplex_trio.protocol.duplex.codec" in modules(command)
        command.signal()
        assert await command.exit_code() == 0


def modules(command: ServeCommand) -> set[str]:
    """What it has imported, as the interpreter itself tells it."""
    lines = command.log.read_text().splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
