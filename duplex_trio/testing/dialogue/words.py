"""What a reply or a transcript is expected to say, and how that is told apart from what was said."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

QUOTED_MAX = 90
"""Characters of a text that are shown."""

Wanted = str | re.Pattern[str] | Callable[[str], bool] | None


@frozen(kw_only=True)
class Words:
    """An expectation of words. Without any, every words will do. White space does not count.

    Attributes:
        exactly: all that is said.
        containing: a part of it, whatever the case of its letters.
        matching: a pattern that is found in it, or a function that says whether it will do.
    """

    exactly: str | None = None
    containing: str | None = None
    matching: re.Pattern[str] | Callable[[str], bool] | None = None

    @classmethod
    def of(cls, wanted: Wanted, containing: str | None) -> Words:
        """Take the arguments of a step.

        Raises:
            ValueError: both are given.
            TypeError: `wanted` or `containing` is nothing of the kind.
        """
        if not isinstance(containing, str | None):
            raise TypeError(
                f"containing is a text, not {containing!r}; a pattern or a function goes in without a name"
            )
        if wanted is not None and containing is not None:
            raise ValueError("say what all of it is, or what it contains")
        if wanted is None or isinstance(wanted, str):
            return cls(exactly=None if wanted is None else plain(wanted), containing=containing)
        if isinstance(wanted, re.Pattern) or callable(wanted):
            return cls(matching=wanted)
        raise TypeError(f"a text, a pattern or a function is wanted, not {wanted!r}")

    def met_by(self, said: str) -> bool:
        """Whether what was said so far is what was expected."""
        text = plain(said)
        if self.exactly is not None:
            return text == self.exactly
        if self.containing is not None:
            return self.containing.casefold() in text.casefold()
        if isinstance(self.matching, re.Pattern):
            return self.matching.search(text) is not None
        return bool(text) and (self.matching is None or self.matching(text))

    @property
    def arguments(self) -> str:
        """As they are written in a step."""
        if self.exactly is not None:
            return quoted(self.exactly)
        if self.containing is not None:
            return f"containing={quoted(self.containing)}"
        if isinstance(self.matching, re.Pattern):
            return f"re.compile({self.matching.pattern!r})"
        return "" if self.matching is None else getattr(self.matching, "__name__", "...")

    def __str__(self) -> str:
        if self.exactly is not None:
            return quoted(self.exactly)
        if self.containing is not None:
            return f"something with {quoted(self.containing)} in it"
        if isinstance(self.matching, re.Pattern):
            return f"something that matches {self.matching.pattern!r}"
        return "something" if self.matching is None else f"something for which {self.arguments} holds"


def plain(text: str) -> str:
    """A text whose white space is single spaces between words."""
    return " ".join(text.split())


def quoted(text: str, limit: int = QUOTED_MAX) -> str:
    """A text in quotation marks, as long as a line can bear."""
    return f'"{clipped(plain(text), limit)}"'


def clipped(text: str, limit: int) -> str:
    """As much of a text as `limit` characters can show."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def given(arguments: Mapping[str, Any]) -> str:
    """Arguments as they are written in a call."""
    return ", ".join(
        f"{name}={quoted(value) if isinstance(value, str) else repr(value)}"
        for name, value in arguments.items()
    )
