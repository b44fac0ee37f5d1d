"""Packages as an installer leaves them in a folder of `sys.path`: modules, and what they announce."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(
    folder: Path,
    name: str,
    *,
    files: Mapping[str, str],
    announces: Mapping[str, Mapping[str, str]],
    version: str = "1.0",
) -> None:
    """Put a package there.

    Args:
        folder: where; the caller puts it on `sys.path`.
        name: the distribution.
        files: texts by path.
        announces: entry points, their values by name, by group.
        version: the distribution's version.
    """
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    sections = (
        "\n".join([f"[{group}]", *(f"{key} = {value}" for key, value in points.items()), ""])
        for group, points in announces.items()
    )
    (info / "entry_points.txt").write_text("\n".join(sections))
