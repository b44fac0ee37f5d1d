"""The errors of this package: a deployment that cannot be used, said in a line a person can act on."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen


class KeyFaultError(ValueError):
    """One key has a value it may not have. `rule` says what is allowed ("must be greater than 0")."""

    def __init__(self, key: str, rule: str, value: object) -> None:
        super().__init__(f"{key} {rule}, not {value!r}")
        self.key = key
        self.rule = rule
        self.value = value


@frozen
class DeployFault:
    """One thing wrong with a file. `path` leads to the key (`stages[1].model`); empty means the file."""

    path: str
    message: str

    def __str__(self) -> str:
        return self.message


class DeployError(ValueError):
    """A deployment file is missing, unreadable or wrong. `source` names it; `faults` lists what was found."""

    def __init__(self, source: str, faults: Sequence[DeployFault]) -> None:
        super().__init__(f"{source}: " + "; ".join(str(fault) for fault in faults))
        self.source = source
        self.faults = tuple(faults)
