"""Protections that hypercorn 0.18 needs before it may face a network, put in place by one call.

Owns the replacement of hypercorn's connection and stream classes by ours, for servers that run with
`ServerConfig`, and the guarded TCP connection: a fault stays inside its connection, and a write can be
cancelled and ends in time. The stream classes are `guarded_streams`.

The names replaced are internal to hypercorn, which is why it is pinned; `install_guards` refuses to run
when one of them is missing.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from typing import Any

import structlog
import trio
from hypercorn.events import Closed, Event, RawData
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import WSStream
from hypercorn.trio.tcp_server import TCPServer

from duplex_trio.serving.guarded_streams import GuardedHTTPStream, GuardedWSStream
from duplex_trio.serving.http_config import ServerConfig

log = structlog.get_logger("duplex_trio.http")

PINNED = ">=0.18,<0.19"


class GuardsUnavailableError(RuntimeError):
    """The installed hypercorn does not have the internals that the guards replace."""


class GuardedTCPServer(TCPServer):
    """One TCP connection, whose faults end it alone."""

    config: ServerConfig

    async def run(self) -> None:
        """Serve the connection until it ends."""
        try:
            await super().run()
        except* Exception as group:  # the border to foreign code: any fault ends this peer only
            log.warning("http.connection_failed", error=repr(group.exceptions[0]))

    async def protocol_send(self, event: Event) -> None:
        """Write one piece, or pass on what is not a piece.

        hypercorn shields the write, so that a peer which does not read holds its sender for ever. Here the
        write may be cancelled; as a frame may then be cut in half, the connection ends with it.
        """
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        whole = False
        async with self.send_lock:
            try:
                with trio.move_on_after(self.config.send_timeout_s):
                    await self.stream.send_all(event.data)
                    whole = True
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            finally:
                if not whole:
                    with trio.CancelScope(shield=True):
                        await trio.aclose_forcefully(self.stream)
        if not whole:
            await self.protocol.handle(Closed())


def _choosing(stock: type[Any], guarded: type[Any]) -> Callable[..., Any]:
    """Make a factory that takes the guarded class for our servers, the stock one for others.

    The second argument of all these classes is the server's configuration.
    """

    def make(*args: Any) -> Any:
        return (guarded if isinstance(args[1], ServerConfig) else stock)(*args)

    make.guards = stock  # type: ignore[attr-defined]  # marks the name as replaced
    return make


_REPLACED: tuple[tuple[str, str, type[Any], type[Any]], ...] = (
    ("hypercorn.trio.run", "TCPServer", TCPServer, GuardedTCPServer),
    ("hypercorn.protocol.h11", "WSStream", WSStream, GuardedWSStream),
    ("hypercorn.protocol.h11", "HTTPStream", HTTPStream, GuardedHTTPStream),
    ("hypercorn.protocol.h2", "WSStream", WSStream, GuardedWSStream),
    ("hypercorn.protocol.h2", "HTTPStream", HTTPStream, GuardedHTTPStream),
)

_NEEDED: tuple[tuple[type[Any], tuple[str, ...]], ...] = (
    (TCPServer, ("run", "protocol_send")),
    (HTTPStream, ("handle", "app_send")),
    (
        WSStream,
        (
            "handle",
            "app_send",
            "_accept",
            "_handle_events",
            "_send_pings",
            "_send_wsproto_event",
            "_send_error_response",
        ),
    ),
)


def install_guards() -> None:
    """Replace hypercorn's connection and stream classes for servers that run with `ServerConfig`.

    May be called any number of times.

    Raises:
        GuardsUnavailableError: hypercorn is not the version this was written for.
    """
    for cls, methods in _NEEDED:
        for method in methods:
            if not callable(getattr(cls, method, None)):
                raise _unavailable(f"{cls.__name__}.{method}")
    for module_name, name, stock, guarded in _REPLACED:
        module = importlib.import_module(module_name)
        present = getattr(module, name, None)
        if getattr(present, "guards", None) is stock:
            continue
        if present is not stock:
            raise _unavailable(f"{module_name}.{name}")
        setattr(module, name, _choosing(stock, guarded))


def _unavailable(what: str) -> GuardsUnavailableError:
    version = importlib.metadata.version("hypercorn")
    return GuardsUnavailableError(
        f"hypercorn {version} has no {what} as expected; this server's protections need hypercorn {PINNED}"
    )
