"""The turn-based half stands by itself: its sources speak of nothing else, and it loads nothing else."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from duplex_trio import AsyncOmni, DuplexOmni, Omni
from duplex_trio.engine.async_omni_engine import AsyncOmniEngine
from duplex_trio.engine.duplex_omni_engine import DuplexOmniEngine
from duplex_trio.engine.duplex_orchestrator import DuplexOrchestrator
from duplex_trio.engine.omni_engine_base import OmniEngineBase
from duplex_trio.engine.orchestrator import Orchestrator
from duplex_trio.engine.orchestrator_base import OrchestratorBase
from duplex_trio.entrypoints.omni_base import AsyncOmniBase, OmniBase
from duplex_trio.models.scripted.pipeline import ScriptedPipeline

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "duplex_trio"
GENERIC = [
    *(PACKAGE / "engine" / f"{name}.py" for name in (
        "omni_engine_base", "async_omni_engine", "orchestrator_base", "orchestrator", "pipeline_request", "run",
    )),
    *sorted((PACKAGE / "engine" / "turn").glob("*.py")),
    *(PACKAGE / "entrypoints" / f"{name}.py" for name in (
        "omni_base", "async_omni", "answer", "omni", "omni_thread", "batch", "progress", "turn_chat",
    )),
]  # fmt: skip
FOREIGN = re.compile(
    r"duplex|session|realtime|barge|epoch|dialect|playback|plugin|\bvads?\b|voice.?activity", re.I
)
ALLOWED = {"session_mode", "SessionMode"}
"""How a deployment calls its choice between the two halves."""
FOREIGN_MODULE = ("duplex", "session", "plugin")


def _foreign_words(source: str) -> list[str]:
    """Words of the other half in the names and docstrings of a source, with their lines."""
    found: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NAME, tokenize.COMMENT):
            text = token.string.replace("duplex_trio", "")
            if text not in ALLOWED and FOREIGN.search(text):
                found.append(f"line {token.start[0]}: {token.string}")
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            text = node.value.value.replace("duplex_trio", "")
            found += [f"line {node.lineno}: {word}" for word in FOREIGN.findall(text)]
    return found


@pytest.mark.parametrize("path", GENERIC, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_generic_code_has_no_duplex_word(path: Path) -> None:
    """Neither in a name nor in a docstring nor in a comment."""
    assert _foreign_words(path.read_text()) == []


def test_the_search_finds_what_it_looks_for() -> None:
    """In each of the places, and not the package's own name."""
    source = '"""Of a session."""\nfrom duplex_trio import x\nbarge_in = 1  # at an epoch\nsession_mode = 2\n'
    assert _foreign_words(source) == ["line 3: barge_in", "line 3: # at an epoch", "line 1: session"]


def _run(program: str) -> str:
    """What a program prints in an interpreter of its own, and then which modules of the other half it has loaded."""
    listing = (
        "\nimport sys\n"
        "modules = [name.removeprefix('duplex_trio.') for name in sys.modules if name.startswith('duplex_trio.')]\n"
        f"print([name for name in modules if any(word in name for word in {FOREIGN_MODULE!r})])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program + listing], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_turn_based_stack_loads_no_duplex_module() -> None:
    """By the names that users import, and by the modules themselves."""
    program = (
        "from duplex_trio import AsyncOmni, Message, Omni, OmniRequest, Sound\n"
        "import duplex_trio.engine.async_omni_engine, duplex_trio.engine.orchestrator\n"
        "import duplex_trio.entrypoints.turn_chat\n"
    )
    assert _run(program) == "[]\n"


@pytest.mark.parametrize("deployment", ["scripted", "scripted_turns"])
def test_a_request_loads_no_duplex_module(deployment: str) -> None:
    """From the deployment to the answer, spoken and as a chat completion, with a script for a model."""
    program = f"""
import trio
from duplex_trio import AsyncOmni, OmniRequest, Sound
from duplex_trio.entrypoints.turn_chat import TurnChatBackend
from duplex_trio.models.scripted.workers import tone
from duplex_trio.protocol.chat import read_chat_request

async def main():
    async with AsyncOmni.from_deploy({deployment!r}).running() as omni:
        result = await omni.complete(OmniRequest(Sound(tone(500), 24_000), modalities=["audio"]))
        assert len(result.pcm), result
        chat = read_chat_request(b'{{"messages": [{{"role": "user", "content": "hello"}}]}}', 16_000)
        async with TurnChatBackend(omni).answer(chat) as answer:
            print((await answer.next_piece()).text)

trio.run(main)
"""
    printed = _run(program).splitlines()
    assert printed[-2:] == ["You ", "[]"]


SERVER = """
import trio
from functools import partial
from duplex_trio import {name}
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import run_server

async def main():
    async with trio.open_nursery() as nursery:
        omni = {name}.from_deploy({deployment!r})
        address = await nursery.start(partial(run_server, lambda: omni, ServeOptions(port=0)))
        async with await trio.open_tcp_stream(address.host, address.port) as stream:
            await stream.send_all(b"GET /health HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")
        nursery.cancel_scope.cancel()

trio.run(main)
import sys
print([name for name in sys.modules if name.startswith("duplex_trio.video") or ".video_" in name])
"""


def test_a_server_of_requests_loads_nothing_of_sessions_or_video() -> None:
    """Ready, and asked how it is."""
    printed = _run(SERVER.format(name="AsyncOmni", deployment="scripted")).splitlines()
    assert printed[-2:] == ["[]", "[]"]


def test_a_server_of_video_loads_nothing_of_sessions() -> None:
    """What it has of plugins is that of video."""
    video, speech = _run(SERVER.format(name="VideoOmni", deployment="scripted_video")).splitlines()[-2:]
    assert "duplex_trio.video.run" in video
    names = speech.strip("[]").replace("'", "").split(", ")
    assert [name for name in names if not name.startswith(("plugin", "video"))] == []
    assert "plugin.plugin" not in names


def test_the_duplex_half_is_loaded_when_it_is_asked_for() -> None:
    """By the same door."""
    assert "entrypoints.duplex_omni" in _run("from duplex_trio import DuplexOmni")


def test_the_duplex_half_extends_the_other_by_what_it_makes() -> None:
    """Each class of sessions is the generic one with another collaborator, made where that one makes its own."""
    assert issubclass(AsyncOmni, AsyncOmniBase)
    assert issubclass(Omni, OmniBase)
    assert issubclass(DuplexOmni, AsyncOmni)
    assert issubclass(DuplexOmniEngine, AsyncOmniEngine)
    assert issubclass(AsyncOmniEngine, OmniEngineBase)
    assert issubclass(DuplexOrchestrator, Orchestrator)
    assert issubclass(Orchestrator, OrchestratorBase)
    turns, sessions = AsyncOmni(ScriptedPipeline()), DuplexOmni(ScriptedPipeline())
    assert type(turns.engine) is AsyncOmniEngine
    assert type(turns.engine.orchestrator) is Orchestrator
    assert type(sessions.engine) is DuplexOmniEngine
    assert type(sessions.engine.orchestrator) is DuplexOrchestrator
