"""Reading the commands that people are told to type."""

from __future__ import annotations

import re
import shlex

from tests.docs.blocks import Block

LANGUAGES = ("console", "sh", "bash", "shell")

_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")
_ENDS = {"&&", "||", "|", ";", "&"}
_LEADING = {"sudo", "then", "do", "time", "nohup", "exec"}


def commands_of(block: Block) -> list[list[str]]:
    """The simple commands of a block: comments, prompts, assignments and redirections are left out."""
    text = re.sub(r"\\\n\s*", " ", block.text)
    found: list[list[str]] = []
    for line in text.splitlines():
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="&|;<>")
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = _without_comment(list(lexer))
        found += _simple(words)
    return found


def _without_comment(words: list[str]) -> list[str]:
    at = next((index for index, word in enumerate(words) if word.startswith("#")), len(words))
    return words[:at]


def _simple(words: list[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    redirected = False
    for word in words:
        if redirected:
            redirected = False
        elif word in _ENDS:
            commands.append([])
        elif word and set(word) <= set("<>&"):
            redirected = True
        elif commands[-1] or not (_ASSIGNMENT.match(word) or word in _LEADING):
            # A program of an environment, by its place, is that program.
            commands[-1].append(word if commands[-1] else re.sub(r"^/\S*/bin/", "", word))
    return [command for command in commands if command]
