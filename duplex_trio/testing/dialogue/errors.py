"""What is raised when a conversation goes wrong."""

from __future__ import annotations

from duplex_trio.testing.dialogue.account import Account


class ConversationError(AssertionError):
    """A step of a conversation failed. The text says which, what came instead, and all that happened.

    Args:
        text: that.
        account: what happened, to be looked into.
    """

    def __init__(self, text: str, account: Account) -> None:
        super().__init__(text)
        self.account = account


ConversationError.__module__ = "duplex_trio.testing"
"""Where it is exported: pytest writes it at the end of every run."""
