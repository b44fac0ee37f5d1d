"""The thorough checks: the engine is imported, and a spoken turn is held with the models. In processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence

from duplex_trio.cli.doctor.finding import Finding
from duplex_trio.cli.talk.command import SAMPLES
from duplex_trio.models.errors import INSTALL_COMMAND

PATIENCE_S = 300.0
"""How long the models may take to load and answer on a slow machine with a cold disk."""


def check_import() -> Iterator[Finding]:
    """Import everything that the engine is made of, and open the models."""
    done = _python("-m", "duplex_trio.cli.install.selfcheck")
    if done.returncode:
        said = f"does not start: {_last_line(done.stderr or done.stdout)}"
        yield Finding("Engine starts", "problem", said, INSTALL_COMMAND)
    else:
        yield Finding("Engine starts", "ok", "imports, and opens every model")


def check_turn(deploy: str) -> Iterator[Finding]:
    """Say a recording to a deployment, and hear its answer."""
    recording = sorted(SAMPLES.glob("*.wav"))[0]
    with tempfile.TemporaryDirectory(prefix="duplex-trio-doctor-") as folder:
        done = _python(
            *("-m", "duplex_trio", "talk", str(recording), "--deploy", deploy, "--json", "--out", folder)
        )
    title = "A spoken turn"
    if done.returncode:
        yield Finding(title, "problem", _last_line(done.stderr or done.stdout), "duplex-trio talk")
        return
    exchange = json.loads(done.stdout)["exchanges"][0]
    answer = textwrap.shorten(exchange["answer"]["text"], 80, placeholder=" ...")
    said = f"heard {exchange['transcript']!r}, answered {answer!r}"
    wait_ms = exchange["wait_ms"]
    yield Finding(title, "ok", said if wait_ms is None else f"{said} after {wait_ms / 1000:.1f} s")


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command: Sequence[str] = (sys.executable, *arguments)
    try:
        return subprocess.run(  # noqa: S603 (this Python with our own modules)
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no end after {PATIENCE_S:.0f} s")


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "without a word"
