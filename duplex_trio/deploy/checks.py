"""What values of keys may be. A check raises `KeyFaultError` with the attribute's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import Attribute, frozen

from duplex_trio.deploy.errors import KeyFaultError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")


@frozen
class Check:
    """A rule for one value, which may be None where the key may be null; an attrs validator.

    Attributes:
        rule: what goes on after the key's name: "must be greater than 0".
        holds: whether a value keeps to it. May raise nothing for a value of the key's type.
    """

    rule: str
    holds: Callable[[Any], bool]

    def __call__(self, instance: object, attribute: Attribute[Any], value: object) -> None:
        """Raise `KeyFaultError` for a value that breaks the rule."""
        if value is not None and not self.holds(value):
            raise KeyFaultError(attribute.name, self.rule, value)


# NaN compares false with everything, so each of these is worded to refuse it.
positive = Check("must be greater than 0", lambda value: value > 0)
fraction = Check("must be greater than 0 and at most 1", lambda value: 0 < value <= 1)
not_empty = Check("must not be empty", lambda value: bool(value.strip()))


def at_least(minimum: float) -> Check:
    """Not less than `minimum`."""
    return Check(f"must be at least {minimum:g}", lambda value: value >= minimum)


def _is_api_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        return False
    plain = not parts.query and not parts.fragment and "@" not in parts.netloc and value.isprintable()
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and port != 0
        and plain
        and " " not in value
    )


api_url = Check(
    "must be http:// or https://, a host and a path, such as http://10.0.0.7:8000/v1, without user, query or fragment",
    _is_api_url,
)
variable = Check("must be the name of an environment variable", lambda value: bool(_VARIABLE.match(value)))
variables = Check(
    "must map names of environment variables to text",
    lambda value: all(_VARIABLE.match(name) and "\0" not in text for name, text in value.items()),
)
headers = Check(
    "must map names of HTTP headers to printable text",
    lambda value: all(
        _HEADER.match(name) and text.isprintable() and text.isascii() for name, text in value.items()
    ),
)


def _counts_media(value: Mapping[str, Any]) -> bool:
    return all(
        isinstance(most, Mapping) or (isinstance(most, int) and not isinstance(most, bool) and most >= 0)
        for most in value.values()
    )


media_counts = Check("must map kinds of media to how many there may be (0 or more)", _counts_media)
mappings = Check(
    "must map kinds of media to mappings",
    lambda value: all(isinstance(inner, Mapping) for inner in value.values()),
)


def texts(value: Any) -> Any:
    """A mapping with its numbers as text, as in `PORT: 8000`; anything else is left to be refused."""
    if not isinstance(value, Mapping):
        return value
    return {
        key: str(inner) if isinstance(inner, int | float) and not isinstance(inner, bool) else inner
        for key, inner in value.items()
    }
