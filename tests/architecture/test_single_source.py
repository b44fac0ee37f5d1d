"""The wire has one source: names of messages are written in `protocol` and nowhere else, and so is their JSON."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from duplex_trio.protocol.duplex import COMMAND_CLASSES, EVENT_CLASSES, TYPE_ALIASES
from duplex_trio.protocol.video import VIDEO_COMMAND_CLASSES, VIDEO_EVENT_CLASSES

PACKAGE = Path(__file__).parents[2] / "duplex_trio"
NAMES = frozenset(
    name
    for name in (
        *(cls.type for cls in EVENT_CLASSES),
        *COMMAND_CLASSES,
        *TYPE_ALIASES,
        *VIDEO_EVENT_CLASSES,
        *VIDEO_COMMAND_CLASSES,
    )
    # Words without a dot mean other things elsewhere, such as reasons.
    if "." in name
)
WRITES_JSON = {
    "cli/": "results of commands",
    "models/": "files and prompts",
    "stages/process/": "versions and log lines of a process",
    "stages/remote/": "requests to an engine elsewhere",
    "serving/routes.py": "answers to HTTP requests",
    "serving/responses.py": "answers that many routes share",
    "serving/health.py": "the answer to who asks how the server is",
    "serving/upgrade.py": "answers to upgrades that fail",
    "serving/chat.py": "answers of the chat API",
    "serving/event_stream.py": "answers of the chat API, piece by piece",
}
"""Who else writes JSON, and of what: nothing of it goes over a WebSocket. A new place belongs in here."""


def _docstrings(tree: ast.Module) -> set[int]:
    return {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in node.body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }


def _logged(tree: ast.Module) -> set[int]:
    """Names of log lines, which happen to be those of what they tell about."""
    return {
        id(call.args[0])
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and "log." in ast.unparse(call.func) and call.args
    }


def _sources() -> Iterator[tuple[str, ast.Module]]:
    """All modules but the protocol, and but those that speak as foreign clients do, in JSON of their own."""
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if not place.startswith(("protocol/", "testing/", "benchmarks/")):
            yield place, ast.parse(path.read_text())


def _wire_names(tree: ast.Module) -> Iterator[str]:
    ignored = _docstrings(tree) | _logged(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in NAMES and id(node) not in ignored:
            yield f"line {node.lineno}: {node.value}"


def test_names_of_messages_are_written_in_the_protocol() -> None:
    """Everybody else says `SessionClosed.type`."""
    found = {place: list(_wire_names(tree)) for place, tree in _sources()}
    assert {place: names for place, names in found.items() if names} == {}


def test_json_of_messages_is_written_in_the_protocol() -> None:
    """Everybody else renders events, and encodes commands."""
    found = {
        place: [
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and node.attr in ("dump", "dumps")
            and "json" in ast.unparse(node.value)
        ]
        for place, tree in _sources()
    }
    written = {place for place, lines in found.items() if lines}
    assert {place for place in written if not place.startswith(tuple(WRITES_JSON))} == set()


def test_the_converter_is_made_in_one_place() -> None:
    """Commands and events of all dialects are converted by it; the dialects add their names to it."""
    makers = [
        path.relative_to(PACKAGE).as_posix()
        for path in sorted(PACKAGE.rglob("*.py"))
        if any(
            isinstance(node, ast.ImportFrom) and node.module == "cattrs.preconf.orjson"
            for node in ast.walk(ast.parse(path.read_text()))
        )
    ]
    # The other one reads events as a client of our own would; the server has no such direction.
    assert makers == [
        "protocol/dialects.py",
        "protocol/duplex/structure.py",
        "protocol/video/codec.py",
        "testing/event_reader.py",
    ]


def test_the_scan_finds_what_it_looks_for() -> None:
    """A name in code is found, one in a docstring or a log line is not."""
    tree = ast.parse('"""response.done"""\nlog.info("response.done")\nsend({"type": "response.done"})\n')
    assert list(_wire_names(tree)) == ["line 3: response.done"]
