"""docs/video-models.md shows the example as it is, and names every member of the seam."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import pytest

from duplex_trio.plugin.video.plugin import VideoModelPlugin, VideoModelSession

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "video-models.md"
TEXT = PAGE.read_text()
EXAMPLE = (ROOT / "examples" / "video_models" / "world_model.py").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_each_block_is_in_the_example(block: str) -> None:
    """Word for word; a method may stand by itself."""
    assert block in EXAMPLE or indent(block, "    ") in EXAMPLE


def test_there_are_blocks() -> None:
    assert len(BLOCKS) == 5


def test_every_member_of_the_seam_is_named() -> None:
    shown = set(re.findall(r"^\| `(plugin|session)\.(\w+)", TEXT, flags=re.MULTILINE))
    members = {
        (kind, name)
        for kind, seam in (("plugin", VideoModelPlugin), ("session", VideoModelSession))
        for name in vars(seam)
        if not name.startswith("_")
    }
    assert shown | {("plugin", "close")} == members
