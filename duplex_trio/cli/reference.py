"""The documentation's page about the command line, made from its parsers: `python -m duplex_trio.cli.reference`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from duplex_trio.cli.main import whole_parser

_INTRODUCTION = """\
# The command line

This page is made from the command line's own parsers; `duplex-trio COMMAND --help` says the same.

A command ends with 0 when it is done, 1 when it failed and its last line says why, 2 when the command line is wrong,
130 when it was interrupted. There are no colours where the output is no terminal or `NO_COLOR` is set.
`DUPLEX_TRIO_API_KEY` is the key of servers and clients, `DUPLEX_TRIO_CACHE` the folder of the models. When something
does not work, `duplex-trio doctor` says what, and what to do.
"""


def reference() -> str:
    """The page, as Markdown."""
    return "\n".join([_INTRODUCTION, *_sections(whole_parser(), 2)])


def _sections(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        summaries = {choice.dest: choice.help for choice in action._choices_actions}
        for name, command in action.choices.items():
            yield f"{'#' * level} `{command.prog}`\n"
            yield f"{_paragraph(command.description or _sentence(summaries.get(name)))}\n"
            yield from _table(command)
            yield from _sections(command, level + 1)


def _table(parser: argparse.ArgumentParser) -> Iterator[str]:
    rows = [action for action in parser._actions if _is_told(action)]
    if rows:
        yield "| argument | what |\n|---|---|"
        for action in rows:
            told = (action.help or "") % {**vars(action), "prog": parser.prog} if action.help else ""
            yield f"| {_usage(action)} | {_cell(told)} |"
        yield ""


def _is_told(action: argparse.Action) -> bool:
    return not isinstance(action, argparse._HelpAction | argparse._SubParsersAction) and (
        action.help != argparse.SUPPRESS
    )


def _usage(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else _value(action)
    if not action.option_strings:
        return f"`{_cell(value)}`" + (" ..." if action.nargs in ("*", "+") else "")
    names = ", ".join(f"`{name}`" for name in action.option_strings)
    return f"{names} `{_cell(value)}`" if value else names


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar:
        return action.metavar
    if action.choices:
        return ",".join(map(str, action.choices))
    return action.dest.upper()


def _paragraph(text: str) -> str:
    return " ".join(text.split())


def _sentence(text: str | None) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _cell(text: str) -> str:
    return _paragraph(text).replace("|", "\\|")


if __name__ == "__main__":
    print(reference(), end="")
