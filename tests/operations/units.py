"""Reads unit files of systemd, and instructions of Dockerfiles, as far as these tests need them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from attrs import frozen


@frozen
class Setting:
    """One line of a unit file."""

    section: str
    name: str
    value: str


def settings(path: Path) -> list[Setting]:
    """All settings of a unit file, in order; a name may come more than once."""
    found, section = [], ""
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section = line.strip("[]")
        else:
            name, _, value = line.partition("=")
            found.append(Setting(section, name, value))
    return found


@frozen
class Instruction:
    """One instruction of a Dockerfile."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """What it is made of: a JSON list as it is, else as a shell would cut it."""
        return (
            [str(word) for word in json.loads(self.text)]
            if self.text.startswith("[")
            else shlex.split(self.text)
        )

    @property
    def commands(self) -> list[list[str]]:
        """The commands of a RUN, as a shell would cut them."""
        return [shlex.split(command) for command in re.split(r"\s*&&\s*", self.text)]


def instructions(path: Path) -> list[Instruction]:
    """All instructions of a Dockerfile, in order, with continued lines joined."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    parts = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [Instruction(name, text) for name, text in parts]
