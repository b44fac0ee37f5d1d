"""Each block of the documentation is run, read or looked up by some test, or is listed with a reason."""

from __future__ import annotations

import pytest

from tests.docs.blocks import BLOCKS, FOR_PEOPLE, Block, shown_file
from tests.docs.commands import LANGUAGES as COMMAND_LANGUAGES

RUN = {"python", "yaml", "json", *COMMAND_LANGUAGES}
"""The languages that tests of this folder take whole."""
COMPARED = {
    "docs/wire.md": "tests/docs/test_wire_pages.py",
    "docs/architecture.md": "tests/docs/test_architecture_page.py",
    "docs/testing.md": "tests/docs/test_testing_page.py",
}
"""Pages whose blocks of text are compared with what they are made of, and where."""


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_is_accounted_for(block: Block) -> None:
    assert block.language, "say what it is: ```console, ```python, ..."
    assert (
        block.language in RUN
        or block.page in COMPARED
        or block.key in FOR_PEOPLE
        or shown_file(block) is not None
    ), block.key


def test_what_is_listed_is_there() -> None:
    assert set(FOR_PEOPLE) <= {block.key for block in BLOCKS}
    assert all(FOR_PEOPLE.values())
