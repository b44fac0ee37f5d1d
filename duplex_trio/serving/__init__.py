"""Transport: HTTP and WebSocket in front of sessions. Holds no session state."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duplex_trio.serving.options import ServeOptions
    from duplex_trio.serving.run import make_app, run_server

__all__ = [
    "ServeOptions",
    "make_app",
    "run_server",
]

_HOMES = {
    "duplex_trio.serving.options": ("ServeOptions",),
    "duplex_trio.serving.run": ("make_app", "run_server"),
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    # Loaded when they are asked for: options need no server.
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
