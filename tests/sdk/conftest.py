"""Published client libraries in processes of their own, each in a conversation with one server in its own
process.

All conversations that the tests of a run ask about are held at once, before the first of them looks.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
from attrs import Factory, define, frozen
from filelock import FileLock
from platformdirs import user_cache_path

from duplex_trio.testing.server_process import ServedPort, server_process
from duplex_trio.testing.tap import TappedConnection, open_tap

HERE = Path(__file__).parent
API_KEY = "sk-test"
START_TIMEOUT_S = 60.0
CONVERSATION_TIMEOUT_S = 120.0


@frozen
class Client:
    """A client program: how it is called, with `{http}`, `{ws_base}` and `{ws}` for the server's addresses.

    `whole` is whether it holds a whole conversation, `cuts` are the events at which its connections break,
    `carrier` is the server's `--ws`.
    """

    command: tuple[str, ...]
    dialect: str = "ga"
    is_npm: bool = False
    whole: bool = True
    cuts: tuple[str, ...] = ()
    carrier: str = "native"


def _python(program: str, *arguments: str, **other: Any) -> Client:
    return Client((sys.executable, str(HERE / "clients" / program), *arguments), **other)


def _node(*arguments: str, **other: Any) -> Client:
    return Client(("node", *arguments), is_npm=True, **other)


_BROWSER = ("--conditions=browser", "--experimental-websocket", "--no-warnings")
CLIENTS: Mapping[str, Client] = {
    "openai": _python("openai_realtime.py", "{ws_base}"),
    "openai-beta": _python("openai_realtime.py", "{ws_base}", "beta", dialect="beta"),
    "openai-agents": _python("agents_realtime.py", "{ws}"),
    "pipecat": _python("pipecat_realtime.py", "{ws}"),
    "npm-openai": _node("openai.mjs", "{http}"),
    "npm-agents": _node("agents.mjs", "{ws}"),
    "npm-agents-browser": _node(*_BROWSER, "agents.mjs", "{ws}"),
    "npm-openai-realtime-api": _node("openai_realtime_api.mjs", "{ws}", dialect="beta"),
    "pipecat-asgi": _python("pipecat_realtime.py", "{ws}", carrier="asgi"),
    "npm-agents-browser-asgi": _node(*_BROWSER, "agents.mjs", "{ws}", carrier="asgi"),
    "openai-refused": _python("openai_refused.py", "{ws_base}", whole=False),
    "openai-returning": _python("openai_reconnect.py", "{ws_base}", whole=False, cuts=("response.done",)),
    "npm-openai-returning": _node("openai_reconnect.mjs", "{http}", whole=False, cuts=("response.done",)),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that names a `client` and not which ones is run for each that holds a whole conversation."""
    chosen = any(mark.args[0] == "client" for mark in metafunc.definition.iter_markers("parametrize"))
    if "client" in metafunc.fixturenames and not chosen:
        metafunc.parametrize("client", [name for name, client in CLIENTS.items() if client.whole])


@define(eq=False)
class Recording:
    """What became of one client: what it reported by turn, what it printed, and what went over the wire."""

    name: str
    dialect: str
    connections: list[TappedConnection] = Factory(list)
    returncode: int | None = None
    facts: dict[str, dict[str, Any]] = Factory(dict)
    printed: str = ""

    @property
    def events(self) -> list[Mapping[str, Any]]:
        """What the server sent."""
        return [event for connection in self.connections for event in connection.events("server")]

    @property
    def commands(self) -> list[Mapping[str, Any]]:
        """What the client sent."""
        return [event for connection in self.connections for event in connection.events("client")]

    @property
    def story(self) -> str:
        """All of it for people, for the message of a test that fails."""
        wire = "\n\n".join(connection.describe() for connection in self.connections)
        return f"{self.name} ended with {self.returncode}\n{self.facts}\n{self.printed[-4000:]}\n{wire}"


@contextmanager
def scripted_server(carrier: str) -> Iterator[ServedPort]:
    """`duplex-trio serve` with the scripted model, which wants a key."""
    arguments = ("--deploy", str(HERE / "deploy.yaml"), "--api-key", API_KEY, "--ws", carrier)
    with server_process(*arguments, start_timeout_s=START_TIMEOUT_S) as server:
        yield server


@pytest.fixture(scope="session")
def npm_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the npm programs and the packages that they need, which are installed once per lock file."""
    source = HERE / "npm"
    locked = hashlib.sha256((source / "package-lock.json").read_bytes()).hexdigest()[:16]
    installed = user_cache_path("duplex-trio") / "test-npm" / locked
    installed.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{installed}.lock"):
        if not (installed / "complete").exists():
            for name in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(source / name, installed / name)
            done = subprocess.run(
                ["npm", "ci", "--ignore-scripts"], cwd=installed, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            (installed / "complete").touch()
    programs = tmp_path_factory.mktemp("npm")
    for program in source.glob("*.mjs"):
        shutil.copy(program, programs)
    (programs / "node_modules").symlink_to(installed / "node_modules")
    return programs


@pytest.fixture(scope="session")
def hold(request: pytest.FixtureRequest) -> Callable[..., dict[str, Recording]]:
    """Let clients hold their conversations, all at once: `hold({name: port}, **environment)`.

    Those whose programs are missing hold none.
    """

    def hold_all(ports: Mapping[str, int], **environment: str) -> dict[str, Recording]:
        able = [name for name in ports if _missing_program(CLIENTS[name]) is None]
        recordings = {name: Recording(name, CLIENTS[name].dialect) for name in able}
        npm = any(CLIENTS[name].is_npm for name in able)
        folder = request.getfixturevalue("npm_programs") if npm else HERE

        async def run() -> None:
            async with trio.open_nursery() as nursery:
                for name, recording in recordings.items():
                    nursery.start_soon(_hold, recording, ports[name], folder, environment)

        trio.run(run)
        return recordings

    return hold_all


@pytest.fixture(scope="session")
def conversations(request: pytest.FixtureRequest, hold: Any) -> dict[str, Recording]:
    """The conversations with the scripted model of every client that a test of this run names as its `client`."""
    asked = {
        item.callspec.params["client"]  # type: ignore[attr-defined]
        for item in request.session.items
        if "client" in getattr(getattr(item, "callspec", None), "params", ())
    }
    with ExitStack() as servers:
        carriers = sorted({CLIENTS[name].carrier for name in asked})
        ports = {carrier: servers.enter_context(scripted_server(carrier)).port for carrier in carriers}
        recordings: dict[str, Recording] = hold(
            {name: ports[client.carrier] for name, client in CLIENTS.items() if name in asked}
        )
    return recordings


@pytest.fixture
def recording(client: str, conversations: dict[str, Recording]) -> Recording:
    """The conversation of the test's client."""
    missing = _missing_program(CLIENTS[client])
    if missing is not None:
        pytest.skip(f"{missing} is not installed, so the npm clients cannot run")
    return conversations[client]


def _missing_program(client: Client) -> str | None:
    needed = ("node", "npm") if client.is_npm else ()
    return next((program for program in needed if shutil.which(program) is None), None)


async def _hold(recording: Recording, port: int, folder: Path, environment: Mapping[str, str]) -> None:
    client = CLIENTS[recording.name]
    async with open_tap(port, cuts=client.cuts) as tap:
        at = ServedPort(tap.port)
        places = {"http": at.http_base, "ws_base": at.ws_base, "ws": at.ws_url}
        command = [part.format(**places) for part in client.command]
        with trio.move_on_after(CONVERSATION_TIMEOUT_S):
            done = await trio.run_process(
                command,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                cwd=folder,
                env={**os.environ, "NO_PROXY": "127.0.0.1", **environment},
            )
            recording.returncode = done.returncode
            recording.printed = done.stderr.decode()
            for line in done.stdout.decode().splitlines():
                if line.startswith('{"turn"'):
                    fact = orjson.loads(line)
                    recording.facts[fact.pop("turn")] = fact
                else:
                    recording.printed += f"{line}\n"
        recording.connections = tap.connections
