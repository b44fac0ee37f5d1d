"""What is known of a key besides its type, default and check: kept with the attribute that holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs
from attrs import Attribute

FILE_KEY, DOC, READS, TAKEN, SECRET = "file_key", "doc", "reads", "taken", "secret"

Taken = Literal["always", "engine", "never"]
"""Who takes a key. `always`: whatever carries the stage, or every pipeline. `engine`: a stage that runs a vLLM
engine, or says that it takes it. `never`: nobody here; it is read so that files of other servers load, and reported.
"""


def called(key: str) -> Mapping[str, Any]:
    """Metadata of an attribute that files call differently."""
    return {FILE_KEY: key}


def about(
    doc: str, *, taken: Taken = "always", reads: Callable[[Any], Any] | None = None, secret: bool = False
) -> Mapping[str, Any]:
    """Metadata of a key.

    Args:
        doc: what it does, in a line.
        taken: who takes it.
        reads: makes the spellings that a file may use one, before the type is looked at.
        secret: its values are never shown.
    """
    return {DOC: doc, TAKEN: taken, READS: reads, SECRET: secret}


def file_key(attribute: Attribute[Any]) -> str:
    """The key that sets an attribute in a deployment file."""
    return str(attribute.metadata.get(FILE_KEY, attribute.name))


def default_of(attribute: Attribute[Any]) -> Any:
    """The value of an attribute that is left out; `NOTHING` for one that has to be there."""
    default: Any = attribute.default
    return default.factory() if hasattr(default, "factory") else default


def engine_keys(cls: type[Any]) -> frozenset[str]:
    """The keys of a class that a vLLM engine takes."""
    return frozenset(file_key(one) for one in attrs.fields(cls) if one.metadata.get(TAKEN) == "engine")
