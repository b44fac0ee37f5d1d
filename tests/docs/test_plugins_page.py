"""docs/plugins.md shows the example package as it is, and names every rule and key that there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from duplex_trio.pipelines.topology import RULES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "plugins.md").read_text()
PARROT = ROOT / "examples" / "parrot"


def shown() -> list[tuple[str, str]]:
    """Each block of code with the file that was named last before it."""
    found, file = [], ""
    for match in re.finditer(
        r"`((?:examples|duplex_trio)/[\w./]+\.\w+)`|^```(?:python|toml|yaml)\n(.*?)^```",
        TEXT,
        flags=re.DOTALL | re.MULTILINE,
    ):
        if match[1]:
            file = match[1]
        else:
            found.append((file, match[2]))
    return found


@pytest.mark.parametrize(
    ("file", "block"), shown(), ids=[f"{file}-{n}" for n, (file, _) in enumerate(shown())]
)
def test_each_block_is_in_the_file_that_is_named(file: str, block: str) -> None:
    """Word for word; a method may stand by itself."""
    text = (ROOT / file).read_text()
    assert block in text or indent(block, "    ") in text


def test_there_are_blocks() -> None:
    assert len(shown()) == 10


def test_the_table_of_rules_is_complete() -> None:
    assert re.findall(r"^\| `(\w+)` \|", TEXT, flags=re.MULTILINE) == list(RULES)


@pytest.mark.slow
def test_the_example_passes_its_own_tests() -> None:
    """As its author runs them."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    path = os.pathsep.join([str(PARROT), str(ROOT)])
    done = subprocess.run(
        command,
        cwd=PARROT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 30
