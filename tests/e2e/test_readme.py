"""The README's programs do what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import run_server

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


async def _run(program: str, **environment: str) -> str:
    command = [sys.executable, "-c", program]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    with trio.fail_after(120):
        done = await trio.run_process(
            command, capture_stdout=True, stderr=subprocess.STDOUT, env=env, check=False
        )
    printed = done.stdout.decode()
    assert done.returncode == 0, printed
    return printed


async def test_a_stock_client_gets_an_answer(nursery: trio.Nursery) -> None:
    """OpenAI's SDK, as the README uses it, prints what the model writes."""
    factory = partial(DuplexOmni, ScriptedPipeline(), warm_up=False)
    address = await nursery.start(partial(run_server, factory, ServeOptions(port=0)))
    printed = await _run(PROGRAMS[0], DUPLEX_TRIO_URL=address.ws_url.removesuffix("/realtime"))
    assert printed == "You said: Say hello!"
    nursery.cancel_scope.cancel()


async def test_a_chat_client_gets_a_spoken_answer(nursery: trio.Nursery) -> None:
    """The README's chat completion says what the model says, and brings its sound."""
    factory = partial(DuplexOmni, ScriptedPipeline(), warm_up=False)
    address = await nursery.start(partial(run_server, factory, ServeOptions(port=0)))
    printed = await _run(PROGRAMS[1], DUPLEX_TRIO_HTTP_URL=f"{address.http_url}/v1")
    assert printed.startswith("You said: Say hello! ")
    nursery.cancel_scope.cancel()


async def test_a_conversation_runs_on_a_mock_clock() -> None:
    """The scripted conversation of the README prints its answer."""
    assert "hello to you" in (await _run(PROGRAMS[2])).splitlines()
