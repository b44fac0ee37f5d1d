"""Errors that end a command with a message instead of a traceback."""

from __future__ import annotations

WRONG_USAGE = 2  # as argparse ends
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class CommandError(Exception):
    """An expected failure of a command.

    `details` is further text for the terminal, such as a tool's last output; `status` is the exit status.
    """

    def __init__(self, message: str, details: str = "", status: int = 1) -> None:
        super().__init__(message)
        self.details = details
        self.status = status


class UsageError(CommandError):
    """The command line is wrong: options that do not go together, or a value that none of them can be."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=WRONG_USAGE)
