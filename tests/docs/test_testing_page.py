"""docs/testing.md: its programs and tests are run with those of all pages; here is what it shows and names."""

from __future__ import annotations

import re

import pytest

from duplex_trio.testing import ConversationScript, pytest_plugin
from tests.docs.blocks import BLOCKS, ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text()
FAILURES = ROOT / "tests" / "testing" / "dialogue" / "failures"


def test_the_failure_is_what_a_failure_looks_like() -> None:
    (shown,) = [
        block.text for block in BLOCKS if block.page == "docs/testing.md" and block.language == "text"
    ]
    assert shown == (FAILURES / "another_reply.txt").read_text()


def test_every_step_is_in_the_tables() -> None:
    steps = {name for name in vars(ConversationScript) if not name.startswith("_")} - {"play", "steps"}
    rows = "".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    named = set(re.findall(r"`\.?(\w+)\(", rows))
    assert steps <= named


@pytest.mark.parametrize("name", sorted(name for name in vars(pytest_plugin) if name.startswith("duplex_")))
def test_every_fixture_is_in_the_table(name: str) -> None:
    assert f"\n| `{name}` |" in PAGE
