"""The command line itself: what it loads, and how commands end."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from duplex_trio.cli import main as main_module
from duplex_trio.cli.errors import CommandError, UsageError
from duplex_trio.cli.main import main
from duplex_trio.models.errors import ModelNotInstalledError

Install = Callable[[Callable[[argparse.Namespace], int]], None]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Adds a command `probe` that does what the test says."""

    def install(run: Callable[[argparse.Namespace], int]) -> None:
        def add_parser(subparsers: Any) -> None:
            subparsers.add_parser("probe").set_defaults(run=run)

        module = types.ModuleType("probe_command")
        module.__dict__["add_parser"] = add_parser
        monkeypatch.setitem(sys.modules, "probe_command", module)
        monkeypatch.setitem(
            main_module._COMMANDS, "probe", main_module._Command("probe_command", "for tests")
        )

    return install


def failing(error: BaseException) -> Callable[[argparse.Namespace], int]:
    def run(_: argparse.Namespace) -> int:
        raise error

    return run


def test_the_status_is_the_commands(command: Install) -> None:
    command(lambda _: 7)
    assert main(["probe"]) == 7


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (
            CommandError("It cannot be done.", "line 1\nline 2"),
            1,
            "duplex-trio: It cannot be done.\nline 1\nline 2\n",
        ),
        (UsageError("Not both."), 2, "duplex-trio: Not both.\n"),
        (ModelNotInstalledError("Not there."), 1, "duplex-trio: Not there.\n"),
        (ExceptionGroup("", [ExceptionGroup("", [CommandError("Deep.")])]), 1, "duplex-trio: Deep.\n"),
        (CommandError("Stopped.", status=130), 130, "duplex-trio: Stopped.\n"),
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
        (BaseExceptionGroup("", [KeyboardInterrupt()]), 130, "Interrupted.\n"),
    ],
)
def test_an_expected_end_is_a_message_and_a_status(
    command: Install, capsys: pytest.CaptureFixture[str], error: BaseException, status: int, said: str
) -> None:
    command(failing(error))
    assert main(["probe"]) == status
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("bug"), ExceptionGroup("", [CommandError("known"), ZeroDivisionError("bug")])]
)
def test_a_bug_is_not_hidden(command: Install, error: BaseException) -> None:
    command(failing(error))
    with pytest.raises(type(error)):
        main(["probe"])


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )


def test_help_names_every_command_and_loads_none() -> None:
    done = python(
        "import sys\n"
        "from duplex_trio.cli.main import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'trio', 'torch', 'numpy', 'rich', 'hypercorn', 'vllm'} & set(sys.modules)\n"
        "print('loaded:', sorted(heavy))\n"
    )
    for name in ("completion", "doctor", "install", "models", "serve", "talk"):
        assert re.search(rf"^    {name}\b", done.stdout, flags=re.MULTILINE)
    assert done.stdout.endswith("loaded: []\n")


def test_a_command_is_required() -> None:
    done = subprocess.run([sys.executable, "-m", "duplex_trio"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "COMMAND" in done.stderr
    assert "examples:" in done.stderr


@pytest.mark.parametrize(
    ("typed", "said"),
    [("tlak", "Did you mean `duplex-trio talk`?"), ("xyzzy", "See `duplex-trio --help`.")],
)
def test_a_command_that_there_is_not_is_told_with_the_nearest(
    capsys: pytest.CaptureFixture[str], typed: str, said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([typed])
    assert ended.value.code == 2
    assert f"there is no command {typed!r}. {said}" in capsys.readouterr().err


def test_the_version_is_printed() -> None:
    command = [sys.executable, "-m", "duplex_trio", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("duplex-trio ")
    assert re.match(r"Python 3\.11\.\d+, trio 0\.\d+", second)


def test_a_reader_that_went_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "duplex_trio", "models", "--json"],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("output", "status", "said"),
    [
        (">&-", 0, ""),
        (">&- 2>&-", 0, ""),
        (">/dev/full", 1, "duplex-trio: cannot be written: No space left on device\n"),
    ],
)
def test_an_output_that_takes_nothing_is_told_in_a_sentence(output: str, status: int, said: str) -> None:
    line = f"{shlex.quote(sys.executable)} -m duplex_trio models {output}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (status, said)


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", b"? ?\n"),
        ("latin-1", b"? ?\n"),
        ("ascii:surrogateescape", b"? ?\n"),
        ("utf-8", "✓ ?\n".encode()),
        ("utf-8:surrogateescape", "✓ ".encode() + b"\xe9\n"),
    ],
)
def test_a_terminal_that_lacks_a_sign_gets_another_one(encoding: str, shown: bytes) -> None:
    code = (
        "import sys\nfrom duplex_trio.cli.main import _let_output_take_everything\n"
        "_let_output_take_everything()\n"
        "print('\\u2713 \\udce9')\n"
        "print('\\u2713 \\udce9', file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    assert done.stdout == shown
    assert done.stderr


@pytest.mark.parametrize("name", ["completion", "doctor", "install", "models", "serve", "talk"])
@pytest.mark.slow
def test_every_command_explains_itself(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "duplex_trio", name, "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"usage: duplex-trio {name}")
