"""The API pages are built without a warning, and what is public says what it is."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from duplex_trio.testing.api_pages import PUBLIC, main

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "duplex_trio").rglob("*.py"))
NAMES = [(module, name) for module in PUBLIC for name in import_module(module).__all__]


@pytest.mark.slow
def test_the_pages_are_built_without_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page for each public module, with an anchor for each public name."""
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "index.html")
    pages = {path.relative_to(tmp_path).with_suffix("").as_posix() for path in tmp_path.rglob("*.html")}
    assert pages == {*(name.replace(".", "/") for name in PUBLIC), "index"}
    for module, name in NAMES:
        if not name.startswith("__"):
            page = (tmp_path / f"{module.replace('.', '/')}.html").read_text()
            assert f'id="{name}"' in page, f"{module}.{name}"


@pytest.mark.parametrize("module", PUBLIC)
def test_what_is_public_has_docstrings(module: str) -> None:
    """Classes, their public methods and properties, functions; a method may inherit its words."""
    missing = []
    for name in import_module(module).__all__:
        thing = getattr(import_module(module), name)
        if not (inspect.isclass(thing) or inspect.isroutine(thing)):
            continue
        missing += [name] if not inspect.getdoc(thing) else []
        missing += [f"{name}.{member}" for member in _undocumented(thing)]
    assert not missing


def _undocumented(thing: Any) -> list[str]:
    if not inspect.isclass(thing):
        return []
    found = []
    for name, member in vars(thing).items():
        public = not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, property))
        if public and not inspect.getdoc(getattr(thing, name)):
            found.append(name)
    return found


@pytest.mark.parametrize("module", PUBLIC)
def test_what_is_public_says_what_it_raises(module: str) -> None:
    """Wherever a raise stands in the function itself."""
    silent = []
    for name in import_module(module).__all__:
        thing = getattr(import_module(module), name)
        members = vars(thing).items() if inspect.isclass(thing) else [("", thing)]
        for member, function in members:
            function = getattr(function, "__func__", function)
            if not member.startswith("_") and inspect.isfunction(function) and _raises_silently(function):
                silent.append(f"{name}.{member}")
    assert not silent


def _raises_silently(function: Any) -> bool:
    tree = ast.parse(dedent(inspect.getsource(function)))
    raised = [
        node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    ]
    names = {ast.unparse(call.func) for call in raised} - {
        "AttributeError",
        "StopIteration",
        "StopAsyncIteration",
    }
    return bool(names) and "raise" not in (inspect.getdoc(function) or "").lower()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_in_docstrings_are_names(path: Path) -> None:
    """Those that are given in full, in backticks: `duplex_trio.plugin.video`."""
    text = path.read_text()
    if "`duplex_trio." not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for name in re.findall(r"`(duplex_trio(?:\.\w+)+)(?:\([^`]*\))?`", ast.get_docstring(node) or ""):
                if name not in GROUPS:
                    pkgutil.resolve_name(name)


GROUPS = {"duplex_trio.deployments"}
"""Groups of entry points, which are called like modules."""


SHOWN_ANYWAY = {
    "duplex_trio.models.scripted.native": "stands for the reader's own pipeline",
    "duplex_trio.stages.inline": "carries the reader's own worker",
    "duplex_trio.testing.run": "as above",
}
"""Other modules that a page imports from, and why."""


def test_the_pages_import_what_is_public() -> None:
    """So that what they show stays."""
    wrong = []
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
            for module in re.findall(r"^from (duplex_trio[\w.]*) import", block, flags=re.MULTILINE):
                if module not in PUBLIC and module not in SHOWN_ANYWAY:
                    wrong.append(f"{page.name}: {module}")
    assert not wrong
