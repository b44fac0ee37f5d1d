"""What an error says, for people. Without Trio, which the process of a stage may not have."""

from __future__ import annotations


def said(error: BaseException) -> str:
    """What an error says, with its kind where that alone would not tell people anything."""
    text = str(error).strip()
    return in_one_line(error) if not text or isinstance(error, LookupError | AssertionError) else text


def in_one_line(error: BaseException) -> str:
    """Which error it is and what it says."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text.strip() else type(error).__name__
