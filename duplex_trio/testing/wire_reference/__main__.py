"""`python -m duplex_trio.testing.wire_reference`: compare the pages with the classes, or write them anew."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from duplex_trio.testing.wire_reference.pages import PAGES, render_page


def main(argv: Sequence[str] | None = None) -> int:
    """Print the difference, or write; returns 1 where there was one that was not written."""
    parser = argparse.ArgumentParser(prog="python -m duplex_trio.testing.wire_reference", description=__doc__)
    parser.add_argument(
        "--docs", type=Path, default=Path("docs"), help="the folder of the pages (%(default)s)"
    )
    parser.add_argument("--write", action="store_true", help="write what differs")
    args = parser.parse_args(argv)
    status = 0
    for name in PAGES:
        path = args.docs / name
        old = path.read_text() if path.exists() else ""
        new = render_page(name)
        if old == new:
            continue
        if args.write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(new)
            print(f"wrote {path}")
        else:
            status = 1
            lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), str(path), "the classes")
            sys.stdout.writelines(lines)
    return status


if __name__ == "__main__":
    sys.exit(main())
