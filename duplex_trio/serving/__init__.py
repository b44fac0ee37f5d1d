"""Transport: HTTP and WebSocket in front of sessions. Holds no session state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_trio.lazy import lazy_names

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

# Options need no server.
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
