"""Modules whose contents cannot be looked at, kept out of the way of who looks at all of them.

While it is set up, vLLM goes through every module of the process and asks each value for its `__dict__`. A library
that cffi has opened answers that with an error of its own where the system lacks one of its functions, as the one of
`sounddevice` does on Linux.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def opaque_modules_hidden() -> Iterator[None]:
    """Take such modules out of `sys.modules` for the block; who holds them does not notice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is deprecated and only looked at
        hidden = {name: module for name, module in list(sys.modules.items()) if _is_opaque(module)}
    for name in hidden:
        del sys.modules[name]
    try:
        yield
    finally:
        sys.modules.update(hidden)


def _is_opaque(module: ModuleType | None) -> bool:
    for value in list(getattr(module, "__dict__", {}).values()):
        try:
            hasattr(value, "__dict__")
        except Exception:  # whatever it is, who looks through all modules would stumble over it
            return True
    return False
