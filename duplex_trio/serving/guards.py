"""Protections that hypercorn 0.18 needs before it may face a network.

Owns the replacement of hypercorn's classes by ours, for servers that run with `ServerConfig`, and the guarded
TCP connection: a fault stays inside its connection, and a write can be cancelled and ends in time. The stream
classes are `guarded_streams`; who gets the connection is `listener`'s.

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

    async def _read_data(self) -> None:
        """Read to the end; hypercorn would then wait for a peer that has left as long as for one that is idle."""
        await super()._read_data()
        await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        """Write one piece, or pass on what is not a piece.

        hypercorn shields the write, so that a peer which does not read holds its sender for ever. Here the
        write may be cancelled; as a frame may then be cut in half, the connection ends with it. It is tried
        before anything else can run, so that only a peer that does not read pays for a cancellation.
        """
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        whole = False
        try:
            self.send_lock.acquire_nowait()
        except trio.WouldBlock:
            await self.send_lock.acquire()
        try:
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
        finally:
            self.send_lock.release()
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


_STREAMS: tuple[tuple[str, str, type[Any], type[Any], tuple[str, ...]], ...] = tuple(
    (module, stock.__name__, stock, guarded, needed)
    for module in ("hypercorn.protocol.h11", "hypercorn.protocol.h2")
    for stock, guarded, needed in (
        (HTTPStream, GuardedHTTPStream, ("handle", "app_send")),
        (
            WSStream,
            GuardedWSStream,
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
)


def install_guards() -> None:
    """Replace hypercorn's stream classes for servers that run with `ServerConfig`.

    May be called any number of times. The class for a TCP connection is `listener`'s to replace.

    Raises:
        GuardsUnavailableError: hypercorn is not the version this was written for.
    """
    for replacement in _STREAMS:
        replace(*replacement)


def replace(
    module_name: str, name: str, stock: type[Any], guarded: type[Any], needed: tuple[str, ...]
) -> None:
    """Replace a class in a module of hypercorn, for servers that run with `ServerConfig`, unless it is already.

    Args:
        module_name: where it is looked up.
        name: its name there.
        stock: what must be there.
        guarded: takes its place.
        needed: methods of `stock` that `guarded` relies on.

    Raises:
        GuardsUnavailableError: something else is there, or a method is missing.
    """
    for method in needed:
        if not callable(getattr(stock, method, None)):
            raise _unavailable(f"{stock.__name__}.{method}")
    module = importlib.import_module(module_name)
    present = getattr(module, name, None)
    if getattr(present, "guards", None) is stock:
        return
    if present is not stock:
        raise _unavailable(f"{module_name}.{name}")
    setattr(module, name, _choosing(stock, guarded))


def _unavailable(what: str) -> GuardsUnavailableError:
    version = importlib.metadata.version("hypercorn")
    return GuardsUnavailableError(
        f"hypercorn {version} has no {what} as expected; this server's protections need hypercorn {PINNED}"
    )
