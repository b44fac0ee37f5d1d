"""The `duplex-trio completion` command: what a shell needs to complete the other ones.

The script is made by shtab from the parsers themselves, so that it knows what they know. What an argument takes is read
off its metavar: files, folders, and the names of deployments and packaged models as they are when the script is made.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import shtab

from duplex_trio.deploy import named_deployments
from duplex_trio.models.catalog import CATALOG

SHELLS = ("bash", "zsh", "fish")
_FILES = frozenset({"FILE", "WAV"})
_FOLDERS = frozenset({"DIR"})
_DESCRIPTION = """\
Print a script that lets a shell complete commands, options, deployments, models and files. It knows the
deployments that are installed now; print it again after another package brought some.
"""
_EPILOG = """\
bash    duplex-trio completion bash > ~/.local/share/bash-completion/completions/duplex-trio
zsh     duplex-trio completion zsh > ~/.zfunc/_duplex-trio      (with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc)
fish    duplex-trio completion fish > ~/.config/fish/completions/duplex-trio.fish

For one shell at once: eval "$(duplex-trio completion bash)"
"""


def add_parser(subparsers: Any) -> None:
    """Add `completion` to the command line."""
    parser = subparsers.add_parser(
        "completion",
        help="print a script that lets a shell complete commands",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script; 0."""
    from duplex_trio.cli.main import whole_parser

    print(script(whole_parser(), args.shell))
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The completion script of a command line for a shell, one of `SHELLS`."""
    deployments = sorted({one.name for one in named_deployments()})
    models: dict[str, list[str]] = {}
    for model in CATALOG:
        models.setdefault(model.kind, []).append(model.name)
    for action in _actions(parser):
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        parts = metavar.split("|")
        if metavar == "REF":
            _complete(action, models.get(action.dest, []))
        elif {"NAME", "FILE"} <= set(parts):
            _complete(action, sorted({*deployments, *(part for part in parts if part.islower())}))
        elif metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif metavar in _FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell, root_prefix="duplex_trio"))


def _complete(action: argparse.Action, names: Iterable[str]) -> None:
    """Let an argument be completed with names, or a file."""
    action.complete = _names_or_file(f"_duplex_trio_{action.dest}", list(names))  # type: ignore[attr-defined]


def _names_or_file(function: str, names: list[str]) -> Mapping[str, Any]:
    words = shlex.join(names)
    # shtab lets bash append a slash to a folder where the function's name says that it gives files.
    bash = f"{function}_file"
    return {
        "bash": bash,
        "zsh": f"{function}",
        "fish": f"({function})",
        "preamble": {
            "bash": f'{bash}() {{ compgen -W "{words}" -- "$1"; compgen -f -- "$1"; }}\n',
            "zsh": f"{function}() {{ compadd -- {words}; _files; }}\n",
            "fish": f"function {function}\n  printf '%s\\n' {words}\n  __fish_complete_path (commandline -ct)\nend\n",
        },
    }


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from _actions(one)
