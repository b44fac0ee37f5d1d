"""Rules about the shape of the code that no other tool checks."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "duplex_trio"
SOURCES = sorted(PACKAGE.rglob("*.py"))
LINES_MAX = 400

source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@source
def test_a_file_is_small_enough_to_do_one_thing(path: Path) -> None:
    """No file has more lines than can be read in one go."""
    assert len(path.read_text().splitlines()) <= LINES_MAX


@source
def test_nurseries_are_opened_in_run_files_only(path: Path) -> None:
    """The task tree can be read off the files called run.py."""
    opened = [
        node.lineno
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute) and node.attr == "open_nursery"
    ]
    assert not opened or path.name == "run.py", f"nurseries opened at lines {opened}"


@source
def test_a_file_says_what_it_is_for(path: Path) -> None:
    """Each file opens with a docstring."""
    assert ast.get_docstring(_tree(path))


@source
def test_seams_are_abcs(path: Path) -> None:
    """`typing.Protocol` is not used."""
    names = {node.id for node in ast.walk(_tree(path)) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(_tree(path)) if isinstance(node, ast.Attribute)}
    assert "Protocol" not in names | attributes


@source
def test_nothing_is_swallowed(path: Path) -> None:
    """There is no bare `except`, and one for `BaseException` is not left without doing something about it."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"bare except at line {node.lineno}"
            names = {n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)}
            idle = all(isinstance(statement, ast.Pass) for statement in node.body)
            assert not (idle and names & {"Exception", "BaseException"}), f"swallowed at line {node.lineno}"


@pytest.mark.parametrize("module", ["duplex_trio.protocol.dialects", "duplex_trio.plugin.plugin"])
def test_the_pure_layers_are_light(module: str) -> None:
    """Importing the protocol or the plugin contract loads neither an event loop nor a model runtime."""
    heavy = ("trio", "torch", "vllm", "hypercorn", "onnxruntime", "ctranslate2")
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert printed.stdout.strip() == "[]"


def test_serving_loads_no_model_runtime() -> None:
    """The command line, the server and the client can be imported where no engine is installed."""
    heavy = ("torch", "vllm", "onnxruntime", "ctranslate2", "hibari")
    code = (
        "import sys, duplex_trio.cli.main, duplex_trio.cli.serve, duplex_trio.clients; "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert printed.stdout.strip() == "[]"


def test_continuous_integration_runs_the_readmes_command() -> None:
    """What CI runs is what the README tells people to run."""
    readme = (ROOT / "README.md").read_text()
    script = (ROOT / ".ci" / "run").read_text()
    command = next(line for line in script.splitlines() if "pytest" in line)
    assert command.strip() in readme
