"""docs/wire.md and docs/wire/ say what the classes say."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import attrs
import orjson
import pytest

from duplex_trio.protocol.dialects import Dialect, event_types
from duplex_trio.protocol.duplex import (
    COMMAND_CLASSES,
    ERROR_CLASSES,
    EVENT_CLASSES,
    TYPE_ALIASES,
    decode_command,
)
from duplex_trio.serving import paths
from duplex_trio.testing.wire_reference.__main__ import main
from duplex_trio.testing.wire_reference.codes import CLOSE_CODES, MEANINGS
from duplex_trio.testing.wire_reference.commands import ERRORS, EXAMPLES
from duplex_trio.testing.wire_reference.fields import fields_of, meanings_of, objects_in
from duplex_trio.testing.wire_reference.orders import SHOWN, order_of
from duplex_trio.testing.wire_reference.pages import PAGES, render_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ALL_CLASSES = [*EVENT_CLASSES, *COMMAND_CLASSES.values()]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_that_of_the_classes(name: str, request: pytest.FixtureRequest) -> None:
    """`python -m duplex_trio.testing.wire_reference --write` writes it anew, and so does `--renew-golden`."""
    if request.config.getoption("--renew-golden"):
        (DOCS / name).write_text(render_page(name))
    assert (DOCS / name).read_text() == render_page(name)


def test_the_command_tells_what_would_change_and_changes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--docs", str(DOCS)]) == 0
    assert main(["--docs", str(tmp_path)]) == 1
    assert "+### session.update\n" in capsys.readouterr().out
    assert main(["--docs", str(tmp_path), "--write"]) == 0
    assert main(["--docs", str(tmp_path)]) == 0


@pytest.mark.parametrize("cls", [*ALL_CLASSES, *objects_in(ALL_CLASSES)], ids=lambda cls: cls.__name__)
def test_every_field_says_what_it_means(cls: type) -> None:
    """In the section `Attributes` of its class, and of nothing that is not there."""
    known = {row.name for row in fields_of(cls)} | {attribute.name for attribute in attrs.fields(cls)}
    for base in cls.__mro__:
        if "Attributes:" in (base.__doc__ or ""):
            assert set(meanings_of(base)) <= known, base


def test_everything_is_there() -> None:
    events, commands = (DOCS / "wire" / "events.md").read_text(), (DOCS / "wire" / "commands.md").read_text()
    assert re.findall(r"^### (\S+)$", events, flags=re.MULTILINE) == [cls.type for cls in EVENT_CLASSES]
    assert re.findall(r"^### (\S+)$", commands, flags=re.MULTILINE) == list(COMMAND_CLASSES)
    assert all(f"`{alias}`" in commands for alias in TYPE_ALIASES)
    for name in event_types(Dialect.BETA).keys() - event_types(Dialect.DUPLEX).keys():
        assert f"`{name}`" in events


@pytest.mark.parametrize("kind", list(EXAMPLES))
def test_the_examples_are_read_as_what_they_are(kind: str) -> None:
    assert decode_command(orjson.dumps({"type": kind, **EXAMPLES[kind]})).type == kind


@cache
def _strings() -> frozenset[str]:
    """All texts in the package's code, save the two tables of codes."""
    tables = ("protocol/realtime/errors.py", "wire_reference/codes.py", "wire_reference/commands.py")
    paths = [path for path in (ROOT / "duplex_trio").rglob("*.py") if not str(path).endswith(tables)]
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    return frozenset(
        node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@pytest.mark.slow
def test_the_codes_that_are_told_of_are_those_that_are_said() -> None:
    """The others of the protocol are in no line of the package."""
    assert set(MEANINGS) <= ERROR_CLASSES.keys()
    assert set(MEANINGS) == {code for code in ERROR_CLASSES if code in _strings()}
    assert {code for codes in ERRORS.values() for code in codes} <= MEANINGS.keys()


def test_the_close_codes_are_those_that_are_sent() -> None:
    """1009 is sent by the readers of frames, the others by name or number."""
    code = "".join(
        path.read_text()
        for folder in ("session", "serving", "entrypoints", "engine")
        for path in (ROOT / "duplex_trio" / folder).rglob("*.py")
        if "video" not in path.name
    )
    sent = {int(number) for number in re.findall(r"(?:code=|close\(|return )(10\d\d)\b", code)}
    assert sent | {1009} == set(CLOSE_CODES)


@pytest.mark.parametrize("name", list(SHOWN))
def test_a_conversation_goes_the_same_way_every_time(name: str) -> None:
    assert order_of(name) == order_of(name)


def test_every_route_is_told_of() -> None:
    """Those that mean something beyond the table of routes, and the small ones."""
    text = (DOCS / "wire.md").read_text()
    known = {value for name, value in vars(paths).items() if name.endswith("_PATH")}
    assert known | {"/v1/models", "/metrics"} <= set(re.findall(r"`(?:GET |POST )?(/[\w/]*)", text))
