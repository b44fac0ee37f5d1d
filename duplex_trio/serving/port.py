"""Sets the port up: hypercorn's configuration, the protections, the choice between the two WebSocket paths, TLS.

Decided once, before any model is loaded, so that what cannot be is said at once.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from duplex_trio.serving.channel import UpgradeRequest
from duplex_trio.serving.guards import GuardsUnavailableError, install_guards
from duplex_trio.serving.http_config import ServerConfig
from duplex_trio.serving.listener import NativeDoor, Serve, install_hook
from duplex_trio.serving.native.channel import ChannelLimits
from duplex_trio.serving.native.pipes import Pipe
from duplex_trio.serving.options import ServeOptions

log = structlog.get_logger("duplex_trio.serving")


class TlsUnavailableError(Exception):
    """The certificate or its key cannot be used. The message is for people."""


def prepare_port(options: ServeOptions) -> ServerConfig:
    """Make the configuration of the server, and see to hypercorn.

    Raises:
        GuardsUnavailableError: hypercorn's streams cannot be guarded.
        TlsUnavailableError: TLS is asked for and cannot be had.
    """
    install_guards()
    config = ServerConfig()
    try:
        install_hook()
        config.native = options.ws == "native"
    except GuardsUnavailableError as error:
        log.warning(
            "server.native_websockets_unavailable",
            why=str(error),
            instead="WebSockets are served through ASGI, and one faulty connection may end the server",
        )
    if options.tls:
        config.certfile, config.keyfile = options.certfile, options.keyfile
        config.keyfile_password = ""  # otherwise a key that is encrypted is asked for at the terminal
        try:
            config.create_ssl_context()
        except (ssl.SSLError, OSError) as error:
            raise TlsUnavailableError(
                f"cannot use the certificate {options.certfile} with the key {options.keyfile}: {error}"
            ) from error
    return config


def open_door(
    config: ServerConfig,
    options: ServeOptions,
    serve: Serve,
    run_native: Callable[[ChannelLimits, Pipe, UpgradeRequest, Serve], Awaitable[None]],
) -> NativeDoor | None:
    """Let native WebSockets in, if they are to be had; `serve` serves them."""
    if config.native:
        config.door = NativeDoor(
            partial(run_native, channel_limits(config)),
            serve,
            head_timeout_s=options.config_timeout_s,
            tls_timeout_s=config.ssl_handshake_timeout,
        )
    return config.door


def channel_limits(config: ServerConfig) -> ChannelLimits:
    """What a native WebSocket puts up with: the same as one of hypercorn's."""
    assert config.websocket_ping_interval is not None
    return ChannelLimits(
        message_bytes_max=config.websocket_max_message_size,
        ping_interval_s=config.websocket_ping_interval,
        pings_unanswered_max=config.pings_unanswered_max,
        send_timeout_s=config.send_timeout_s,
        linger_quiet_s=config.linger_quiet_s,
        linger_max_s=config.linger_max_s,
    )
