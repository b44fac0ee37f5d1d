"""The server as a tree of tasks; the nesting is the order of shutdown.

    run_server
    |- engine            loads the stages, warms up, holds the sessions; ends last
    |- signals           first: drain; second: close every session now; third: cancel everything
    `- hypercorn         opened when the engine is warm, closed when the sessions have drained
       |- connection xN  native: run_native: pings, what a write left over, and in it
       |  `- session     run_connection: reader, and the watches over the session's end and a silent client
       `- request xN     run_while_connected: the answer, and the watch over the client that waits for it

Sessions do not live below their connections but in the engine: a session may outlive its socket.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import hypercorn.trio
import structlog
import trio
from attrs import define, field

from duplex_trio.engine import DuplexSessionHandle
from duplex_trio.entrypoints.duplex_chat import DuplexChatCompletionsAdapter
from duplex_trio.serving.address import ServerAddress, bind
from duplex_trio.serving.app import RealtimeApp
from duplex_trio.serving.asgi import Receive
from duplex_trio.serving.attachments import DuplexSessionAttachmentRegistry
from duplex_trio.serving.auth import AccessPolicy
from duplex_trio.serving.channel import UpgradeRequest
from duplex_trio.serving.chat import ChatCompletions, Work
from duplex_trio.serving.endpoint import RealtimeEndpoint
from duplex_trio.serving.http import HttpEndpoint
from duplex_trio.serving.http_config import ServerConfig
from duplex_trio.serving.listener import Serve
from duplex_trio.serving.native.channel import ChannelLimits, NativeChannel
from duplex_trio.serving.native.pipes import Pipe
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.port import open_door, prepare_port
from duplex_trio.serving.realtime import RealtimeConnection
from duplex_trio.serving.routes import Deployment

if TYPE_CHECKING:
    import socket

    from duplex_trio.entrypoints.duplex_omni import DuplexOmni

log = structlog.get_logger("duplex_trio.serving")

SWITCH_INTERVAL_S = 0.001
"""A stage thread that runs Python otherwise adds 5 ms to every turn of the loop (performance.md 5)."""


@define(eq=False)
class _Stopping:
    """How the server is told to stop: politely, then with its goodbyes only, then at once."""

    everything: trio.CancelScope
    ready: bool = False
    asked: trio.Event = field(factory=trio.Event)
    patience: trio.CancelScope = field(factory=trio.CancelScope)


async def run_connection(connection: RealtimeConnection, handle: DuplexSessionHandle) -> None:
    """Serve an open session on its socket; the first of both to end ends the other's part here."""
    try:
        async with trio.open_nursery() as nursery:
            connection.attachment.cancel_when_closed(nursery.cancel_scope)
            nursery.start_soon(connection.close_with, handle, name=f"socket-end[{handle.session_id}]")
            nursery.start_soon(connection.watch_silence, handle, name=f"socket-idle[{handle.session_id}]")
            await connection.read(handle)
            nursery.cancel_scope.cancel()
    finally:
        connection.leave(handle)


async def run_native(limits: ChannelLimits, pipe: Pipe, request: UpgradeRequest, serve: Serve) -> None:
    """Run a WebSocket of our own until it has ended."""
    async with trio.open_nursery() as nursery:
        channel = NativeChannel(pipe, request, limits, partial(nursery.start_soon, name="socket-flush"))
        nursery.start_soon(channel.keep_alive, name="socket-pings")
        await channel.run(serve)
        nursery.cancel_scope.cancel()


async def run_while_connected(receive: Receive, work: Work) -> None:
    """Do the work of an HTTP request whose body has been read; cancel it when the client leaves."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, name="request-watch")
        await work()
        nursery.cancel_scope.cancel()


def make_app(omni: DuplexOmni, options: ServeOptions) -> RealtimeApp:
    """Make the ASGI application for a running engine."""
    deployment = Deployment(
        omni=omni,
        model_name=options.model_name or omni.model_name,
        created_s=int(time.time()),
        max_model_len=options.max_model_len,
    )
    access = AccessPolicy(api_keys=options.api_keys, allowed_origins=options.allowed_origins)
    realtime = RealtimeEndpoint(
        deployment=deployment,
        attachments=DuplexSessionAttachmentRegistry(omni),
        run_connection=run_connection,
        access=access,
        config_timeout_s=options.config_timeout_s,
        log_transcripts=options.log_transcripts,
    )
    chat = ChatCompletions(
        deployment=deployment,
        backend=DuplexChatCompletionsAdapter(omni),
        while_connected=run_while_connected,
    )
    http = HttpEndpoint(deployment=deployment, access=access, chat=chat)
    return RealtimeApp(deployment=deployment, realtime=realtime, http=http)


async def run_server(
    omni_factory: Callable[[], DuplexOmni],
    options: ServeOptions,
    *,
    task_status: trio.TaskStatus[ServerAddress] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled, or, with `handle_signals`, until told to stop.

    Args:
        omni_factory: makes the engine, not yet started.
        options: how to serve.
        task_status: told the address when the server accepts connections.

    Raises:
        AddressUnavailableError: found before any model is loaded.
        GuardsUnavailableError: the installed hypercorn is not the one this was written for.
        TlsUnavailableError: the certificate and its key are no such thing.
    """
    config = prepare_port(options)
    signals = (
        trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) if options.handle_signals else nullcontext()
    )
    with signals as received, closing(await bind(options.host, options.port)) as listener:
        async with trio.open_nursery() as engine_nursery:
            stopping = _Stopping(everything=engine_nursery.cancel_scope)
            if received is not None:
                engine_nursery.start_soon(_watch_signals, received, stopping, name="signals")
            omni = omni_factory()
            await engine_nursery.start(omni.run, name="engine")
            if options.tune_process:
                tune_process()
            stopping.ready = True
            await _serve_http(omni, options, config, listener, stopping, task_status)
            engine_nursery.cancel_scope.cancel()


async def _serve_http(
    omni: DuplexOmni,
    options: ServeOptions,
    config: ServerConfig,
    listener: socket.socket,
    stopping: _Stopping,
    task_status: trio.TaskStatus[ServerAddress],
) -> None:
    drained = trio.Event()
    host, port = options.host, listener.getsockname()[1]
    # hypercorn takes the socket over by its number, and closes it.
    config.bind = [f"fd://{listener.detach()}"]
    app = make_app(omni, options)
    door = open_door(config, options, app.realtime.serve, run_native)
    async with trio.open_nursery() as nursery:
        serve = partial(
            hypercorn.trio.serve, cast(Any, app), config, mode="asgi", shutdown_trigger=drained.wait
        )
        await nursery.start(serve, name="hypercorn")
        task_status.started(ServerAddress(host, port, options.tls))
        await stopping.asked.wait()
        app.deployment.begin_drain()
        log.info("server.draining", timeout_s=options.drain_timeout_s)
        with stopping.patience:
            await omni.drain(options.drain_timeout_s)
        await omni.drain(0.0)
        drained.set()
        if door is not None:
            door.stop_waiting()
    log.info("server.stopped")


async def _watch_signals(signals: AsyncIterator[int], stopping: _Stopping) -> None:
    async for number in signals:
        log.info("server.signal", signal=signal.Signals(number).name)
        if not stopping.ready or stopping.patience.cancel_called:
            stopping.everything.cancel()
            return
        if stopping.asked.is_set():
            stopping.patience.cancel()
        stopping.asked.set()


def tune_process() -> None:
    """Set the interpreter up for a server whose models are loaded."""
    gc.collect()
    gc.freeze()  # what is loaded stays: a full collection over it stops the loop for a quarter of a second
    sys.setswitchinterval(SWITCH_INTERVAL_S)
