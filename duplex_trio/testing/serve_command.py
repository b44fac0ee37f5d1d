"""`duplex-trio serve` in a process of its own, told to stop by signals: for tests of how it starts and ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import trio
from attrs import define

import duplex_trio
from duplex_trio.testing.raw_websocket import RawWebSocket, upgrade_request

PACKAGE_PARENT = str(Path(duplex_trio.__file__).parent.parent)
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.02


@define
class ServeCommand:
    """The running command.

    Attributes:
        process: of the server.
        log: the file of its log.
        output: what it has printed so far, until it was ready.
        port: where it listens, on 127.0.0.1.
    """

    process: trio.Process
    log: Path
    output: str = ""
    port: int = 0

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    async def exit_code(self) -> int:
        """Wait for its end."""
        with trio.fail_after(PATIENCE_S):
            return await self.process.wait()

    async def open(self, target: str = "/v1/realtime", headers: dict[str, str] | None = None) -> RawWebSocket:
        """Open a WebSocket; `headers` are more of the request's."""
        client = await RawWebSocket.open(self.port)
        await client.send(upgrade_request(target, headers))
        assert (await client.response_head())[0] == 101
        return client

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
        """One request on a connection of its own: its status, and its body as JSON."""
        client = await RawWebSocket.open(self.port)
        fields = f"Host: x\r\nConnection: close\r\nContent-Length: {len(body)}"
        try:
            await client.send(f"{method} {path} HTTP/1.1\r\n{fields}\r\n\r\n".encode() + body)
            status, head = await client.response_head()
            answer = await client.read(int(head["content-length"]))
        finally:
            with trio.CancelScope(shield=True):
                await client.aclose()
        return status, orjson.loads(answer or b"null")

    async def health(self) -> int:
        """The status of its health."""
        return (await self.ask("GET", "/health"))[0]

    async def until_health(self, word: str) -> Any:
        """Wait until its health is in a word; returns all that it says then."""
        with trio.fail_after(PATIENCE_S):
            while (health := (await self.ask("GET", "/health"))[1])["status"] != word:  # noqa: ASYNC110
                await trio.sleep(LOOK_EVERY_S)
        return health


def serve_arguments(*arguments: str) -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "duplex_trio.cli.main", "serve", *arguments]


def serve_environment(**extra: str) -> dict[str, str]:
    """Its environment; further folders of modules are `PYTHONPATH`."""
    path = os.pathsep.join(filter(None, (PACKAGE_PARENT, extra.pop("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONUNBUFFERED": "1", **extra, "PYTHONPATH": path}


@asynccontextmanager
async def serve_command(
    folder: Path, *arguments: str, deploy: str = "scripted", until: str = "ready", **env: str
) -> AsyncIterator[ServeCommand]:
    """Run the command on a free loopback port; it is killed at the end of the block if it has not ended.

    Args:
        folder: where its log goes.
        arguments: more arguments of the command.
        deploy: what it serves.
        until: wait until it is `ready`, or until it is `loading`: its port answers, its model may not be there.
        env: further variables.
    """
    log = folder / "log"
    with log.open("wb") as stderr:
        process = await trio.lowlevel.open_process(
            serve_arguments("--deploy", deploy, "--port", "0", *arguments),
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=serve_environment(**env),
        )
    assert process.stdout is not None
    try:
        command = ServeCommand(process, log)
        with trio.fail_after(PATIENCE_S):
            if until == "ready":
                while "Ready." not in command.output:
                    chunk = await process.stdout.receive_some()
                    assert chunk, log.read_text()
                    command.output += chunk.decode()
            command.port = await _port(command)
        yield command
    finally:
        if process.returncode is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()


async def _port(command: ServeCommand) -> int:
    while True:
        found = re.search(r"http://127\.0\.0\.1:(\d+)", command.output + command.log.read_text())
        if found is not None:
            return int(found[1])
        assert command.process.poll() is None, command.log.read_text()
        await trio.sleep(LOOK_EVERY_S)
