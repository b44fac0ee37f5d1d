"""The errors of this package: a deployment that cannot be used, said in lines a person can act on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attrs import frozen


class KeyFaultError(ValueError):
    """One key has a value it may not have. `rule` says what is allowed ("must be greater than 0")."""

    def __init__(self, key: str, rule: str, value: object) -> None:
        super().__init__(f"{key} {rule}, not {brief(value)}")
        self.key = key
        self.rule = rule
        self.value = value


@frozen(order=True)
class Place:
    """Where something is written: a file, and where in it, counted from 1; 0 is the file as a whole."""

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@frozen
class DeployFault:
    """One thing wrong with a deployment.

    Attributes:
        path: leads to the key (`stages[1].model`), in the file that holds it; empty means the file.
        message: the key, what is allowed, and what is there.
        place: where that is written, if it is known.
    """

    path: str
    message: str
    place: Place | None = None

    def __str__(self) -> str:
        return self.message

    @property
    def located(self) -> str:
        """The message with the place before it."""
        return self.message if self.place is None else f"{self.place}: {self.message}"


@frozen(kw_only=True)
class Finding:
    """What a pipeline or a machine says about one key of a deployment that is well-formed by itself.

    Attributes:
        key: the key, such as `model` or `engine_args.threads`; empty for the stage or deployment as a whole.
        message: what is the matter, a clause that goes on where the key's path ends ("must be ...").
        stage_id: the stage that has the key; None for one of the top level.
        level: a `fault` keeps the deployment from being served; a `note` says what somebody should know.
        own: told only of a key that stands in the very file that is asked for: who extends a deployment need not
            take away what has no effect on theirs.
    """

    key: str
    message: str
    stage_id: int | None = None
    level: Literal["fault", "note"] = "fault"
    own: bool = False

    def __str__(self) -> str:
        stage = None if self.stage_id is None else f"stage {self.stage_id}"
        where = ": ".join(part for part in (stage, self.key) if part)
        return f"{where} {self.message}" if where else self.message


class DeployError(ValueError):
    """A deployment is missing, unreadable or wrong. `source` names it; `faults` lists all that was found."""

    def __init__(self, source: str, faults: Sequence[DeployFault]) -> None:
        located = [
            fault if fault.place else DeployFault(fault.path, fault.message, Place(source))
            for fault in faults
        ]
        super().__init__("; ".join(fault.located for fault in located))
        self.source = source
        self.faults = tuple(located)


VALUE_CHARS_MAX = 200
"""Of a value in a message: enough to find it by, and nobody's terminal is flooded."""


def brief(value: object) -> str:
    """A value as messages show it, in the words of a file where it has some of its own."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a whole number of thousands of digits, a deep nest
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= VALUE_CHARS_MAX else text[: VALUE_CHARS_MAX - 3] + "..."
