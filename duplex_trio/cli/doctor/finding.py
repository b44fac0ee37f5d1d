"""What a check says, and the fence around each check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from attrs import asdict, frozen

State = Literal["ok", "note", "warning", "problem"]
"""`note` is good to know; a `warning` makes some use impossible or slow, a `problem` most of it."""


@frozen
class Finding:
    """One line of the result.

    Attributes:
        title: what was looked at.
        state: how it is.
        said: what was found.
        remedy: what to do about it, a command where one does it.
    """

    title: str
    state: State
    said: str
    remedy: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON."""
        return asdict(self)


def fenced(title: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """What a check finds. What it did not foresee is a finding too, and keeps nobody from the others."""
    try:
        yield from check()
    except Exception as error:  # whatever is broken on a machine, its owner is to hear of all of it
        yield unforeseen(title, error)


def unforeseen(title: str, error: Exception) -> Finding:
    """The finding of a check that failed."""
    said = f"the check itself failed: {type(error).__name__}: {error}"
    return Finding(title, "problem", said, "this should not happen: please report it with this line")
