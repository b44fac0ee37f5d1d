"""Errors that end a command with a message instead of a traceback."""

from __future__ import annotations


class CommandError(Exception):
    """An expected failure of a command. `details` is further text for the terminal, such as a tool's last output."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details
