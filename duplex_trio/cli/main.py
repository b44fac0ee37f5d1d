"""The `duplex-trio` command: choose a subcommand, load only that one, and end without a traceback where it
can.

Each subcommand is a module with `add_parser(subparsers)`, which sets `run` as a default, and `run(args) ->
int`. They are imported when they are asked for, so `duplex-trio --help` is quick and `duplex-trio install`
needs no engine.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Iterator, Sequence

from attrs import frozen

from duplex_trio.cli.errors import INTERRUPTED, CommandError
from duplex_trio.models.errors import ModelReferenceError

_EXPECTED_ERRORS = (CommandError, ModelReferenceError)


@frozen
class _Command:
    module: str
    summary: str


_COMMANDS = {
    "bench": _Command("duplex_trio.cli.bench", "measure the engine"),
    "deploy": _Command("duplex_trio.cli.deploy.command", "list, check and show deployments"),
    "install": _Command("duplex_trio.cli.install.command", "set up the speech engine and the models"),
    "models": _Command("duplex_trio.cli.models", "list the models and where they are"),
    "serve": _Command("duplex_trio.cli.serve", "serve speech sessions over WebSocket"),
    "talk": _Command("duplex_trio.cli.talk.command", "hold a spoken conversation with the model"),
    "video": _Command("duplex_trio.cli.video.command", "make a video that prompts steer"),
}


class _ShowVersion(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        try:
            version = importlib.metadata.version("duplex-trio")
        except importlib.metadata.PackageNotFoundError:
            version = "(run from its source folder, not installed)"
        print(f"duplex-trio {version}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name); returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    args = build_parser(arguments).parse_args(arguments)
    try:
        status: int = args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail(["Interrupted."], INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone, as in `duplex-trio models | head -1`; keep the interpreter's exit
        # quiet too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except _EXPECTED_ERRORS as error:
        return _fail(_messages(error), _status(error))
    except BaseExceptionGroup as group:
        leaves = list(_leaves(group))
        if all(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
            return _fail(["Interrupted."], INTERRUPTED)
        if not all(isinstance(leaf, _EXPECTED_ERRORS) for leaf in leaves):
            raise
        return _fail([line for leaf in leaves for line in _messages(leaf)], _status(leaves[0]))
    return status


def build_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for these arguments: it knows every command by name, but only the one that is named in full."""
    parser = argparse.ArgumentParser(
        prog="duplex-trio", description="Full-duplex speech models: a server, its engine, and a demo."
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="print the version and exit")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    wanted = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, command in _COMMANDS.items():
        if name == wanted:
            importlib.import_module(command.module).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=command.summary)
    return parser


def _messages(error: BaseException) -> list[str]:
    details = error.details if isinstance(error, CommandError) else ""
    return [f"duplex-trio: {error}", *([details] if details else [])]


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _status(error: BaseException) -> int:
    return error.status if isinstance(error, CommandError) else 1


def _fail(lines: list[str], status: int) -> int:
    for line in lines:
        print(line, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
