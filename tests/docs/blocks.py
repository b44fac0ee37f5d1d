"""The pages of the documentation, cut into their fenced blocks, and those blocks that only people can judge.

A block is known by its page and its first line, so that what is written above it moves nothing.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

from attrs import frozen

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
    *sorted((ROOT / "operations").rglob("README.md")),
)

_FENCE = re.compile(r"^( *)```([\w.+-]*)[^\n]*\n(.*?)^\1```$", flags=re.DOTALL | re.MULTILINE)

_FILE = re.compile(
    r"`((?:examples|duplex_trio)/[\w./]+\.(?:py|yaml|toml))`|\]\((?:\.\./)*(examples/[\w./]+\.(?:py|yaml|toml))\)"
)


@frozen
class Block:
    """What stands between two fences.

    Attributes:
        page: its file, relative to the root.
        language: as it stands behind the fence.
        text: without its indentation, with the last line's end.
        line: the line number of its first fence.
        before: the page's text up to it.
        after: the page's text behind it.
    """

    page: str
    language: str
    text: str
    line: int
    before: str
    after: str

    @property
    def key(self) -> tuple[str, str]:
        """What the tables of the tests call it."""
        return self.page, self.text.split("\n", 1)[0].strip()

    def __str__(self) -> str:
        return f"{self.page}-{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(
            page=str(page.relative_to(ROOT)),
            language=match[2],
            text=dedent(match[3]),
            line=text.count("\n", 0, match.start()) + 1,
            before=text[: match.start()],
            after=text[match.end() :],
        )
        for match in _FENCE.finditer(text)
    ]


def prose_of(page: Path) -> str:
    """A page without its blocks."""
    return _FENCE.sub("", page.read_text())


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def named(language: str, *more: str) -> list[Block]:
    """The blocks in a language, save those that are shown out of another file or only for people."""
    return [
        block
        for block in BLOCKS
        if block.language in (language, *more) and block.key not in FOR_PEOPLE and shown_file(block) is None
    ]


def shown_file(block: Block) -> Path | None:
    """The file of the repository that holds the block word for word, if the page names it before or after it.

    A method may stand by itself, without the indentation that it has there.
    """
    names = _FILE.findall(block.before) + _FILE.findall(block.after)
    lines = _bare(block.text)
    for name in dict.fromkeys(first or second for first, second in reversed(names)):
        path = ROOT / name
        if path.is_file() and _holds(_bare(path.read_text()), lines):
            return path
    return None


def _bare(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def _holds(whole: list[str], part: list[str]) -> bool:
    return any(whole[at : at + len(part)] == part for at in range(len(whole) - len(part) + 1))


FOR_PEOPLE = {
    ("docs/operating.md", "map $http_upgrade $duplex_trio_connection {"): (
        "nginx's language; tests/operations/test_nginx.py compares it with the file, and runs that where nginx is"
    ),
    ("README.md", "you        Hello, what is a good breakfast?"): "what a model said once",
    ("docs/video.md", "client                                                        server"): (
        "a drawing of a conversation; its messages are looked up in tests/docs/test_messages.py"
    ),
    ("docs/processes.md", "python3.11 -m venv /opt/speech"): (
        "makes an environment in /opt; tests/stages/process runs stages in another environment"
    ),
}
"""Blocks that no test runs, and why."""
