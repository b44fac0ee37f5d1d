"""docs/command-line.md says what the parsers say.

After a change on purpose: `python -m pytest tests/cli/test_reference.py --renew-golden`.
"""

import re
from pathlib import Path

import pytest

from duplex_trio.cli.main import whole_parser
from duplex_trio.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


@pytest.fixture(autouse=True)
def usual_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some defaults are read from it."""
    monkeypatch.delenv("DUPLEX_TRIO_API_KEY", raising=False)
    monkeypatch.delenv("DUPLEX_TRIO_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/you")


def test_the_page_is_what_the_parsers_say(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--renew-golden"):
        PAGE.write_text(reference())
    assert PAGE.read_text() == reference()


def test_every_command_and_every_option_has_its_help() -> None:
    page = reference()
    for name in ("talk", "serve", "video", "doctor", "completion", "deploy check", "bench engine"):
        assert f"`duplex-trio {name}`" in page
    assert "| |" not in page.replace(" |\n| ", "")
    assert whole_parser().format_help().startswith("usage: duplex-trio")


def test_no_cell_is_cut_by_a_bar_within_it() -> None:
    rows = [line for line in reference().splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
