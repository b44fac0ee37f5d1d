"""Links, anchors, and the files and names of Python that the pages name lead somewhere."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, prose_of

page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
BASES = (ROOT, ROOT / "duplex_trio", ROOT / "docs", ROOT / "examples", ROOT / "tests")
READERS_OWN = {
    "deploy.yaml", "my_model.yaml", "NAME.yaml", "test_agent.py", "conftest.py", "worker.py", "plugin.py",
    "pipeline.py", "processor.py", "pyproject.toml", "x.yaml",
}  # fmt: skip
"""Names of files that a reader is told to make."""


def anchors(path: Path) -> set[str]:
    """What GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ +(.*?) *$", prose_of(path), flags=re.MULTILINE)
    bare = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in bare} | set(
        re.findall(r'<a (?:id|name)="([^"]+)"', path.read_text())
    )


@page
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            wrong.append(link)
    assert not wrong


@page
def test_files_that_are_named_are_there(page: Path) -> None:
    names = re.findall(r"`([\w./-]+\.(?:py|yaml|toml|md|js|json|service))`", prose_of(page))
    folders = {path.parent for path in ROOT.glob("examples/**/*.py")} if "examples" in str(page) else set()
    wrong = [
        name
        for name in names
        if name not in READERS_OWN
        and not any((base / name).exists() for base in (*BASES, page.parent, *folders))
    ]
    assert not wrong


@page
def test_names_of_python_that_are_named_are_there(page: Path) -> None:
    """Those that are given in full: `duplex_trio.testing.conformance.conformance_checks(...)`."""
    for name in re.findall(r"`(duplex_trio(?:\.\w+)+)(?:\([^`]*\))?`", prose_of(page)):
        if name.rpartition(".")[2] not in ("py", "json", "service", "yaml"):
            pkgutil.resolve_name(name)


def test_every_page_is_in_the_index() -> None:
    """docs/README.md lists each page of the folder."""
    index = (ROOT / "docs" / "README.md").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name == "README.md" or f"]({path.name}" in index, path.name
