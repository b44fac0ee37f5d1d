"""References to environment variables in the values of a file: `${NAME}` and `${NAME:-default}`.

A value that is written without quotes is read as YAML reads it once its variables are in place, so that
`max_sessions: ${SESSIONS:-8}` is a number. `$${` stands for `${` itself. Keys take no references.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from duplex_trio.deploy.tree import Entry

_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{[^}]*\}?")


class VariableError(ValueError):
    """A reference that has no value; the message goes on after the key's path."""


def refers(entry: Entry) -> bool:
    """Whether a value has a reference, so that what it is comes from outside the file."""
    return isinstance(entry.content, str) and "${" in entry.content.replace("$${", "")


def substituted(entry: Entry, environment: Mapping[str, str]) -> Any:
    """The value with its variables in place; any value without a reference as it is.

    Raises:
        VariableError: a variable is not set and has no default, or a reference is malformed.
    """
    if not isinstance(entry.content, str) or "${" not in entry.content:
        return entry.content
    text = _REFERENCE.sub(lambda match: _value(match, environment), entry.content)
    if not entry.plain or not refers(entry):
        return text
    loader: Any = yaml.SafeLoader("")
    try:
        tag = loader.resolve(yaml.ScalarNode, text, (True, False))
        return loader.construct_object(yaml.ScalarNode(tag, text))
    except (yaml.YAMLError, ValueError, OverflowError):
        return text
    finally:
        loader.dispose()


def _value(match: re.Match[str], environment: Mapping[str, str]) -> str:
    whole, name, default = match.group(0), match.group(1), match.group(2)
    if whole == "$${":
        return "${"
    if name is None:
        raise VariableError(
            f"must be ${{NAME}} or ${{NAME:-default}} ($${{ for the sign itself), not {whole!r}"
        )
    value = environment.get(name)
    if value:
        return value
    if default is not None:
        return default
    if value is None:
        raise VariableError(f"needs the environment variable {name}, which is not set")
    return value
