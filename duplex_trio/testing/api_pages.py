"""The API pages: `python -m duplex_trio.testing.api_pages site` writes them with pdoc; any warning is an error.

What they are made of is what is public: `PUBLIC`, and of each of these what its `__all__` names.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

PUBLIC = (
    "duplex_trio",
    "duplex_trio.clients",
    "duplex_trio.deploy",
    "duplex_trio.plugin",
    "duplex_trio.plugin.video",
    "duplex_trio.protocol.dialects",
    "duplex_trio.protocol.duplex",
    "duplex_trio.protocol.duplex.audio",
    "duplex_trio.serving",
    "duplex_trio.testing",
    "duplex_trio.testing.conformance",
    "duplex_trio.tracing",
)
"""The modules that people may import; names in others may change at any time."""


def build(folder: Path) -> None:
    """Write the pages into `folder`, `index.html` first.

    Raises:
        Warning: something is wrong with a docstring, an annotation or an import.
    """
    import pdoc
    import pdoc.render

    pdoc.render.configure(docformat="google", footer_text="duplex_trio", search=True, show_source=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in PUBLIC:
            module = import_module(name)
            for member in module.__all__:  # pdoc sees what is there, not what is loaded when it is asked for
                vars(module).setdefault(member, getattr(module, member))
        pdoc.pdoc(*PUBLIC, _all_but(PUBLIC), output_directory=folder)


def _all_but(names: Sequence[str]) -> str:
    """What tells pdoc to leave out every module but these."""
    return f"!(?!(?:{'|'.join(map(re.escape, names))})$)"


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m duplex_trio.testing.api_pages", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the pages go")
    args = parser.parse_args(argv)
    build(args.folder)
    print(f"{args.folder / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
