"""The plugin as a project that builds on this package gets it: pytest in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.entry_points import ROOT, declared_entry_points

CONFTEST = """
import pytest
from duplex_trio.testing import Script

@pytest.fixture
def duplex_script():
    return Script(replies={"what is the weather": "It is sunny.", "stop": "Fine."})
"""
TESTS = """
import time
import trio
from duplex_trio.clients import DuplexClient
from duplex_trio.testing import script

TURN = script().say("what is the weather").expects_reply("It is sunny.")

async def test_a_session(duplex_session):
    await TURN.after_hearing(ms=200).interrupt("stop").expects_cancelled().expects_reply("Fine.").play(duplex_session)

async def test_a_client(duplex_client):
    await TURN.drop().wait(5).resume().play(duplex_client)

async def test_a_server(duplex_server, duplex_clock):
    async with duplex_server.http_client() as http:
        assert (await http.get("/health")).status_code == 200
    begin_s = time.monotonic()
    await trio.sleep(3600)
    assert time.monotonic() - begin_s < 60
    async with DuplexClient(duplex_server.url, connect=duplex_server.connect) as client:
        assert client.session_id

async def test_a_clock_of_ones_own(mock_clock, duplex_omni):
    assert trio.lowlevel.current_clock() is mock_clock
"""
FAILING = """
from duplex_trio.testing import script

async def test_told_as_it_is(duplex_session):
    await script().say("what is the weather").expects_reply("It is rainy.").wait(1).play(duplex_session)

async def test_told_with_its_conversation(duplex_session):
    await script().say("what is the weather").expects_reply().play(duplex_session)
    assert 1 + 1 == 3

async def test_told_without_a_script(duplex_client):
    await duplex_client.create_item("stop")
    await duplex_client.create_response()
    async for response in duplex_client.responses():
        await response.wait()
        break
    assert 1 + 1 == 4
"""
MODEL = """
import pytest
from duplex_trio.clients import SessionConfig
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.testing import script

@pytest.fixture
def duplex_pipeline():
    return NativePipeline(answer="yes I do")

@pytest.fixture
def duplex_config():
    return SessionConfig(turn_detection=None, instructions="be brief")

async def test_my_own_model(duplex_session, duplex_client):
    assert duplex_client.session_info["instructions"] == "be brief"
    await script().say("do you hear me").expects_reply("yes I do").play(duplex_session)
    await script().say("do you hear me").expects_reply("yes I do").play(duplex_client)
"""


def _pytest(folder: Path, *arguments: str, **files: str) -> tuple[int, str]:
    project = folder / "project"
    project.mkdir()
    (project / "pytest.ini").write_text("[pytest]\ntrio_mode = true\n")
    for name, text in files.items():
        (project / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{declared_entry_points(folder)}{os.pathsep}{ROOT}",
        "COLUMNS": "120",
    }
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_fixtures_do_what_they_say(tmp_path: Path) -> None:
    """And a model of one's own takes the place of the scripted one."""
    code, printed = _pytest(tmp_path, "-q", conftest=CONFTEST, test_agent=TESTS, test_model=MODEL)
    assert code == 0, printed
    assert "5 passed" in printed


@pytest.mark.slow
def test_failures_are_told_by_their_conversation(tmp_path: Path) -> None:
    code, printed = _pytest(tmp_path, "-q", conftest=CONFTEST, test_agent=FAILING)
    assert code == 1, printed
    told, with_conversation, without_script = printed.split("____ test_told_")[1:]
    assert (
        'E       duplex_trio.testing.ConversationError: step 2 of 3 failed: expects_reply("It is rainy.")'
        in told
    )
    assert 'E         expected  the assistant says "It is rainy."' in told
    assert 'E         instead   it said "It is sunny."' in told
    assert 'FAILED     expects_reply("It is rainy.")' in told
    assert "Exception Group" not in told
    assert "duplex conversation ---" not in told  # it is told once
    assert "assert (1 + 1) == 3" in with_conversation
    assert "duplex conversation ---" in with_conversation
    assert 'user       says "what is the weather" (1200 ms)' in with_conversation
    assert 'assistant  answer 1: "Fine."' in without_script


@pytest.mark.slow
def test_pytest_lists_the_fixtures(tmp_path: Path) -> None:
    code, printed = _pytest(tmp_path, "--fixtures", "-q")
    assert code == 0, printed
    names = ["duplex_script", "duplex_pipeline", "duplex_config", "duplex_clock", "duplex_omni"]
    for name in [*names, "duplex_session", "duplex_server", "duplex_client"]:
        _, _, described = printed.partition(f"\n{name} -- ")
        assert described.splitlines()[1].startswith("    "), f"{name} is not described"


def test_the_plugin_is_light() -> None:
    """It is loaded in every project where the package is installed, whatever that tests."""
    heavy = ("trio", "numpy", "hypercorn", "attrs", "duplex_trio.clients")
    code = f"import sys, duplex_trio.testing.pytest_plugin; print([n for n in {heavy!r} if n in sys.modules])"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert printed.stdout.strip() == "[]"


def test_the_public_names_are_there() -> None:
    import duplex_trio.testing

    for name in duplex_trio.testing.__all__:
        assert getattr(duplex_trio.testing, name).__name__
        assert name in dir(duplex_trio.testing)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = duplex_trio.testing.nothing_of_the_kind
