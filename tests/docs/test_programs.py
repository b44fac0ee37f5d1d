"""The programs of the pages run as they stand, with scripted models where a page names one of ours.

Those that talk to a server find a scripted one, by the variables of the environment that they read, or at the
address of the pages' examples. Lines that only make sense inside of a coroutine run in one. Blocks of tests
are run by pytest, all those of a page together.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import logging
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
import trio.testing

from duplex_trio.testing.server_process import ServedPort, server_process
from duplex_trio.testing.video_frames import decode_frames
from tests.docs.blocks import ROOT, Block, named
from tests.testing.entry_points import declared_entry_points

BLOCKS = named("python", "py")
TESTS = [
    block
    for block in BLOCKS
    if re.search(r"^(async )?def test_|^@pytest\.|^import pytest", block.text, re.MULTILINE)
]
PROGRAMS = [block for block in BLOCKS if block not in TESTS]
PAGE_ADDRESS = "127.0.0.1:8765"
START_TIMEOUT_S = 120.0
PROGRAM_TIMEOUT_S = 60.0

STAND_INS = {'"cascade_turn"': '"scripted"', '"cascade_cpu"': '"scripted"', '"scene"': '"slow.yaml"'}
SLOW_VIDEO = "base_config: scripted_video\nstages: [{stage_id: 0, engine_args: {frame_delay_s: 0.01}}]\n"
"""A video model that has something to do."""

PRINTED = {
    ("README.md", 0): r"You said: Say hello!",
    ("README.md", 1): r"(?:\d+ bytes of speech\n)+You said: What is a good breakfast\?\n",
    ("README.md", 2): r"interrupted after 600 ms\n",
    ("docs/openai-compatibility.md", 0): r"You said: Say hello! \d+ bytes of WAV\n",
    ("docs/python.md", 0): r"You said: What is a good breakfast\?\nYou said: Tell me about the moon\.\n",
    ("docs/python.md", 1): r"'' You said: Listen to this:\n[1-9]\d* samples at 24000 Hz, 5 tokens\n",
    ("docs/python.md", 2): r"(?s)(?=(?:.*stop after 7 tokens){2}).*",
    ("docs/python.md", 3): r"48 frames, lanterns completed\n",
}
"""What some programs print: the page and which program of it, and all of the output."""


@pytest.fixture(scope="session")
def scripted_server() -> Iterator[ServedPort]:
    arguments = ("--deploy", "scripted", "--max-sessions", "8", "--video-model", "scripted_video")
    with server_process(*arguments, start_timeout_s=START_TIMEOUT_S) as server:
        yield server


def _number(block: Block) -> int:
    return [other for other in PROGRAMS if other.page == block.page].index(block)


@pytest.mark.e2e
@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_a_program_runs(
    block: Block, scripted_server: ServedPort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DUPLEX_TRIO_URL", scripted_server.ws_base)
    monkeypatch.setenv("DUPLEX_TRIO_HTTP_URL", scripted_server.http_base)
    (tmp_path / "slow.yaml").write_text(SLOW_VIDEO)
    program = block.text.replace(PAGE_ADDRESS, f"127.0.0.1:{scripted_server.port}")
    for name, stand_in in STAND_INS.items():
        program = program.replace(name, stand_in)
    printed = run_program(program, str(block))
    expected = PRINTED.get((block.page, _number(block)))
    assert expected is None or re.fullmatch(expected, printed), printed
    if "clip.mp4" in program and "VideoOmni" in program:
        assert len(decode_frames((tmp_path / "clip.mp4").read_bytes())) == 48


def run_program(program: str, name: str) -> str:
    """What `program` prints, as the main module of this process."""
    module = types.ModuleType("__main__")
    code = compile(program, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    printed = io.StringIO()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
    )  # put back by all tests
    with contextlib.redirect_stdout(printed), pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", module)
        if code.co_flags & inspect.CO_COROUTINE:
            trio.run(_await, types.FunctionType(code, vars(module)))
        else:
            exec(code, vars(module))
    return printed.getvalue()


async def _await(function: Any) -> None:
    with trio.fail_after(PROGRAM_TIMEOUT_S):
        await function()


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted({block.page for block in TESTS}))
def test_the_tests_of_a_page_pass(page: str, tmp_path: Path) -> None:
    """In a folder of their own, with nothing set up but what the page says."""
    blocks = [block for block in TESTS if block.page == page]
    folder = tmp_path / "project"
    folder.mkdir()
    for block in blocks:
        (folder / f"test_line_{block.line}.py").write_text(block.text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        "-o",
        "trio_mode=true",
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(declared_entry_points(tmp_path)), str(ROOT), str(ROOT / "examples" / "parrot")]
        ),
    }
    done = subprocess.run(
        [*command, "."],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.models
@pytest.mark.parametrize("block", [block for block in PROGRAMS if block.page == "docs/python.md"], ids=str)
def test_the_real_models_do_it_too(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, as a reader runs it."""
    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", block.text],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
