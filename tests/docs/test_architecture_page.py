"""docs/architecture.md shows the trees of the code, and these are the trees of the tasks that run."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
import trio
import trio.testing

import duplex_trio
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import ResponseOutputAudioDelta
from duplex_trio.testing import finish, open_talker, scripted_omni

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text()
TREES = re.findall(r"`([\w/]+/run\.py)`:\n\n```text\n(.*?)```", TEXT, flags=re.DOTALL)


def _docstring(file: str) -> str:
    return dedent(ast.get_docstring(ast.parse((ROOT / "duplex_trio" / file).read_text())) or "")


@pytest.mark.parametrize(("file", "tree"), TREES, ids=[file for file, _ in TREES])
def test_a_tree_is_that_of_its_file(file: str, tree: str) -> None:
    """Line by line."""
    there = [line.strip() for line in _docstring(file).splitlines()]
    shown = [line.strip() for line in tree.splitlines()]
    assert any(there[at : at + len(shown)] == shown for at in range(len(there)))


def test_the_trees_are_there() -> None:
    assert [file for file, _ in TREES] == ["serving/run.py", "engine/run.py", "session/run.py"]


def _tasks(task: trio.lowlevel.Task) -> Iterator[str]:
    yield task.name
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _tasks(child)


def _branches(tree: str) -> set[str]:
    """The names in a tree, without what is only a place in it."""
    return set(re.findall(r"[|`]- (\w+)", tree)) - {"tasks"}


async def test_a_session_has_the_tasks_of_its_tree(autojump_clock: trio.testing.MockClock) -> None:
    """While it answers. Who writes to a new attachment is there while it does; the appender has no task of its own."""
    del autojump_clock
    async with scripted_omni(Script(otherwise=lambda _: "one two three four five")) as omni:
        talker = await open_talker(omni)
        talker.write("hello")
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        root = trio.lowlevel.current_root_task()
        assert root is not None
        names = {name.partition("[")[0] for name in _tasks(root)}
        await finish(omni, talker)
    tree = dict(TREES)["session/run.py"]
    at_times = {"replay", "parting", "appender", "silence"}
    assert _branches(tree) - at_times <= names
    assert at_times <= _branches(tree)


def test_the_layers_are_those_of_the_contract() -> None:
    """In the same order; the way to start the program is no layer of the page."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    section = TEXT.partition("## Layers")[2].partition("\n## ")[0]
    shown = [
        " | ".join(re.findall(r"`(\w+)`", row))
        for row in re.findall(r"^\| (`.*?) \|", section, flags=re.MULTILINE)
    ]
    assert shown == [layer for layer in layers if layer != "__main__"]
    named = re.findall(r"^    (\w+) {2,}", duplex_trio.__doc__ or "", flags=re.MULTILINE)
    assert set(named) == {name for layer in shown for name in layer.split(" | ")}
