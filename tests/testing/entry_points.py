"""The package as an environment has it in which it was installed just now."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def declared_entry_points(folder: Path) -> Path:
    """Make a folder for `PYTHONPATH` that gives pytest the entry points which pyproject.toml declares now.

    An environment keeps those of the day when it was made.
    """
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    info = folder / "site" / "duplex_trio_declared-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: duplex-trio-declared\nVersion: 0\n")
    lines = "".join(f"{name} = {place}\n" for name, place in declared.items())
    (info / "entry_points.txt").write_text(f"[pytest11]\n{lines}")
    return info.parent
