"""The server as a tree of tasks; the nesting is the order of shutdown.

    run_server
    |- engine            loads the stages, warms up, holds the sessions or requests; ends last
    |- video engine      the same of a model of video, where one is served beside it
    |- heartbeat         signs of life for a service manager that wants them
    |- signals           first: drain; second: end all that lives now; third, or one while loading: cancel everything
    `- hypercorn         opened at once, serves when the engine is warm, closed when that has drained
       |- connection xN  native: run_native: pings, what a write left over, and in it
       |  |- session     run_connection: reader, and the watches over the session's end and a silent client
       |  `- video       video/run.py: the whole life of one video
       `- request xN     run_while_connected: the answer, and the watch over the client that waits for it

Sessions do not live below their connections but in the engine: a session may outlive its socket. A video does not.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import attrs
import hypercorn.trio
import structlog
import trio
from attrs import define, field

from duplex_trio.serving.address import ServerAddress, bind
from duplex_trio.serving.app import RealtimeApp
from duplex_trio.serving.asgi import Receive
from duplex_trio.serving.auth import AccessPolicy
from duplex_trio.serving.channel import UpgradeRequest
from duplex_trio.serving.chat import Work
from duplex_trio.serving.deployment import Deployment
from duplex_trio.serving.entrance import SocketEntrance
from duplex_trio.serving.http import HttpEndpoint
from duplex_trio.serving.http_config import ServerConfig, message_bytes_max
from duplex_trio.serving.listener import Serve
from duplex_trio.serving.native.channel import ChannelLimits, NativeChannel
from duplex_trio.serving.native.pipes import Pipe
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.port import open_door, prepare_port
from duplex_trio.serving.service import Runners, make_service
from duplex_trio.serving.service_manager import ServiceManager
from duplex_trio.tracing import NO_TRACER, Tracer

if TYPE_CHECKING:
    import socket

    from duplex_trio.engine import DuplexSessionHandle
    from duplex_trio.entrypoints.omni_base import AsyncOmniBase
    from duplex_trio.entrypoints.video_omni import VideoOmni
    from duplex_trio.serving.realtime import RealtimeConnection

log = structlog.get_logger("duplex_trio.serving")

SWITCH_INTERVAL_S = 0.001
"""A stage thread that runs Python otherwise adds 5 ms to every turn of the loop (performance.md 5)."""
LAST_WAIT_S = 5.0
"""How long the end may take once everything is cancelled, before the process ends whatever hangs in it."""
TRACES_WAIT_S = 3.0
"""How long a collector gets for the last spans; less than `LAST_WAIT_S`."""


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
    limits = attrs.evolve(limits, message_bytes_max=message_bytes_max(request.path, limits.message_bytes_max))
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


def make_app(omni: AsyncOmniBase, options: ServeOptions, *, video: VideoOmni | None = None) -> RealtimeApp:
    """Make the ASGI application for an engine of sessions (`DuplexOmni`) or of requests (`AsyncOmni`) that runs.

    `video` is an engine of video that runs beside it; `omni` may be one too, which is then served alone.

    For an engine made in code, behind any ASGI server on Trio:

        async with trio.open_nursery() as nursery:
            await nursery.start(omni.run)
            await hypercorn.trio.serve(make_app(omni, ServeOptions()), config)

    `run_server` does the same with our port, our WebSockets, and a drain at the end.
    """
    app = _loading_app(options)
    _open(app, omni, video or _as_video(omni), options)
    return app


def _loading_app(options: ServeOptions) -> RealtimeApp:
    deployment = Deployment(served_name=options.model_name, max_model_len=options.max_model_len)
    access = AccessPolicy(api_keys=options.api_keys, allowed_origins=options.allowed_origins)
    return RealtimeApp(
        deployment=deployment,
        sockets=SocketEntrance(deployment=deployment, access=access),
        http=HttpEndpoint(deployment=deployment, access=access),
    )


def _as_video(omni: AsyncOmniBase) -> VideoOmni | None:
    return cast("VideoOmni", omni) if omni.session_mode == "video" else None


def _open(app: RealtimeApp, omni: AsyncOmniBase, video: VideoOmni | None, options: ServeOptions) -> None:
    runners = Runners(connection=run_connection, while_connected=run_while_connected)
    omni.trace_with(options.tracer)  # from here on: warming up is no session of anybody's
    service = make_service(omni, app.deployment, options, runners)
    endpoint = None
    if video is not None:
        if video is omni and options.model_name is not None:
            video.serve_as(options.model_name)
        from duplex_trio.serving.video import VideoEndpoint  # where there is none, nothing of it is loaded

        endpoint = VideoEndpoint(
            omni=video,
            deployment=app.deployment,
            log_prompts=options.log_transcripts,
            tracer=options.tracer,
        )
    app.deployment.open(service, endpoint)


async def run_server(
    omni_factory: Callable[[], AsyncOmniBase],
    options: ServeOptions,
    *,
    video_factory: Callable[[], VideoOmni] | None = None,
    task_status: trio.TaskStatus[ServerAddress] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled, or, with `handle_signals`, until told to stop.

    The port answers from the first second. As long as the model is being loaded and warmed up, `/health` and the page
    of videos say so, and everything else is told to come again: nothing is served by a model that is cold (decision
    D16).

    Args:
        omni_factory: makes the engine, not yet started: a `DuplexOmni`, an `AsyncOmni`, or a `VideoOmni` that is
            served alone. Called in a thread, so that it may look for models; `lambda: omni` serves one that was made
            before.
        options: how to serve.
        video_factory: makes the engine of video that is served beside it.
        task_status: told the address when the model is ready.

    Raises:
        AddressUnavailableError: found before any model is looked for.
        GuardsUnavailableError: the installed hypercorn is not the one this was written for.
        TlsUnavailableError: the certificate and its key are no such thing.
        ExceptionGroup: around what the factory raises, or the engine while it starts.
    """
    config = prepare_port(options)
    signals = (
        trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) if options.handle_signals else nullcontext()
    )
    with signals as received, closing(await bind(options.host, options.port)) as listener:
        try:
            async with trio.open_nursery() as engine_nursery:
                stopping = _Stopping(everything=engine_nursery.cancel_scope)
                if received is not None:
                    engine_nursery.start_soon(_watch_signals, received, stopping, name="signals")
                if options.manager.ping_s is not None:
                    engine_nursery.start_soon(
                        _give_signs_of_life, options.manager, options.manager.ping_s, name="heartbeat"
                    )
                factories = (omni_factory, video_factory)
                await _serve_http(factories, options, config, listener, stopping, engine_nursery, task_status)
                engine_nursery.cancel_scope.cancel()
        finally:
            if options.tracer is not NO_TRACER:
                await _hand_over_traces(options.tracer)  # noqa: ASYNC102  bounds itself


async def _give_signs_of_life(manager: ServiceManager, period_s: float) -> None:
    while True:
        manager.alive()
        await trio.sleep(period_s)


async def _hand_over_traces(tracer: Tracer) -> None:
    """Send what is still kept, unless the collector takes too long; its thread ends with the process then."""
    with trio.move_on_after(TRACES_WAIT_S, shield=True) as patience:
        await trio.to_thread.run_sync(tracer.close, abandon_on_cancel=True)
    if patience.cancelled_caught:
        log.warning("tracing.lost", waited_s=TRACES_WAIT_S)


async def _serve_http(
    factories: tuple[Callable[[], AsyncOmniBase], Callable[[], VideoOmni] | None],
    options: ServeOptions,
    config: ServerConfig,
    listener: socket.socket,
    stopping: _Stopping,
    engine_nursery: trio.Nursery,
    task_status: trio.TaskStatus[ServerAddress],
) -> None:
    drained = trio.Event()
    address = ServerAddress(options.host, listener.getsockname()[1], options.tls)
    # hypercorn takes the socket over by its number, and closes it.
    config.bind = [f"fd://{listener.detach()}"]
    app = _loading_app(options)
    door = open_door(config, options, app.sockets.serve, run_native)
    async with trio.open_nursery() as nursery:
        serve = partial(
            hypercorn.trio.serve, cast(Any, app), config, mode="asgi", shutdown_trigger=drained.wait
        )
        await nursery.start(serve, name="hypercorn")
        log.info("server.loading", url=address.http_url)
        options.manager.loading()
        make_omni, make_video = factories
        omni = await trio.to_thread.run_sync(make_omni, abandon_on_cancel=True)
        app.deployment.omni, app.deployment.video_omni = omni, _as_video(omni)
        if make_video is not None:
            app.deployment.video_omni = await trio.to_thread.run_sync(make_video, abandon_on_cancel=True)
        video = app.deployment.video_omni
        engines = [omni] if video is None or video is omni else [omni, video]
        # One after the other: each takes all cores while it loads, and says by itself what is wrong with it.
        for engine in engines:
            await engine_nursery.start(engine.run, name="engine" if engine is omni else "video engine")
        if options.tune_process:
            tune_process()
        _open(app, omni, video, options)
        stopping.ready = True
        task_status.started(address)
        options.manager.ready(address.http_url)
        await stopping.asked.wait()
        app.deployment.begin_drain()
        options.manager.stopping()
        log.info("server.draining", timeout_s=options.drain_timeout_s)
        with stopping.patience:
            await _drain(engines, options.drain_timeout_s)
        await _drain(engines, 0.0)
        drained.set()
        if door is not None:
            door.stop_waiting()
    log.info("server.stopped")


async def _drain(engines: Sequence[AsyncOmniBase], timeout_s: float) -> None:
    """Let all engines take nothing new, and wait for the end of what is live."""
    async with trio.open_nursery() as nursery:
        for engine in engines:
            nursery.start_soon(engine.drain, timeout_s, name=f"drain[{engine.session_mode}]")


async def _watch_signals(signals: AsyncIterator[int], stopping: _Stopping) -> None:
    async for number in signals:
        log.info("server.signal", signal=signal.Signals(number).name)
        if not stopping.ready or stopping.patience.cancel_called:
            stopping.everything.cancel()
            _end_for_certain()
            return
        if stopping.asked.is_set():
            stopping.patience.cancel()
        stopping.asked.set()


def _end_for_certain() -> None:
    """A stage whose native code never returns cannot be cancelled; nobody has to come and kill the process."""

    def end() -> None:
        log.error("server.stuck", waited_s=LAST_WAIT_S)
        os._exit(1)

    timer = threading.Timer(LAST_WAIT_S, end)
    timer.daemon = True  # who ends in time does not wait for it
    timer.start()


def tune_process() -> None:
    """Set the interpreter up for a server whose models are loaded."""
    gc.collect()
    gc.freeze()  # what is loaded stays: a full collection over it stops the loop for a quarter of a second
    sys.setswitchinterval(SWITCH_INTERVAL_S)
