"""Names of a package that are loaded when they are asked for, so that importing the package costs nothing of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]], *, elsewhere: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """What a package calls `__getattr__` and `__dir__`.

    Args:
        package: its name.
        homes: names by the module that has them.
        elsewhere: what its module calls a name, where that is something else.
    """
    places = {name: home for home, names in homes.items() for name in names}
    own = elsewhere or {}

    def get(name: str) -> Any:
        home = places.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home), own.get(name, name))

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places})

    return get, listed
