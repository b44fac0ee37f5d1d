"""How to serve: everything about the server that is not about the models."""

from __future__ import annotations

from typing import Literal, get_args

from attrs import field, frozen, validators

from duplex_trio.serving.service_manager import NO_SERVICE_MANAGER, ServiceManager
from duplex_trio.tracing import NO_TRACER, Tracer

Transport = Literal["native", "asgi"]
"""What carries WebSockets: our own reader and writer, or the HTTP server's."""
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)


@frozen(kw_only=True)
class ServeOptions:
    """Options of `run_server`. Times are seconds.

    Attributes:
        host: address or name to listen on.
        port: 0 takes any free port.
        ws: what carries WebSockets over HTTP/1.1; those over HTTP/2 are always the HTTP server's.
        certfile: with `keyfile`, PEM files: HTTPS and WSS only.
        keyfile: the private key of the certificate.
        api_keys: keys that are let in; none lets everybody in.
        allowed_origins: origins that browsers may come from; see `AccessPolicy`.
        drain_timeout_s: how long live sessions get after the first signal.
        config_timeout_s: how long a client that opens its session itself may wait with its first message.
        model_name: the name to serve the model under; None takes the model's own.
        max_model_len: tokens the language model takes, for clients that ask; None when unknown.
        log_transcripts: write what people said, and what they want to see, into the log.
        handle_signals: drain on SIGINT and SIGTERM, and end at once on the second. Needs the main thread.
        tune_process: settings of the interpreter that suit a server and concern the whole process.
        tracer: who traces sessions and videos; it is closed at the end.
        manager: who started the server and wants to know how it is.
    """

    host: str = "127.0.0.1"
    port: int = field(default=8765, validator=[validators.ge(0), validators.le(65535)])
    ws: Transport = field(default="native", validator=validators.in_(TRANSPORTS))
    certfile: str | None = None
    keyfile: str | None = None
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    allowed_origins: tuple[str, ...] = ()
    drain_timeout_s: float = field(default=10.0, validator=validators.ge(0))
    config_timeout_s: float = field(default=10.0, validator=validators.gt(0))
    model_name: str | None = None
    max_model_len: int | None = None
    log_transcripts: bool = False
    handle_signals: bool = False
    tune_process: bool = False
    tracer: Tracer = NO_TRACER
    manager: ServiceManager = NO_SERVICE_MANAGER

    def __attrs_post_init__(self) -> None:
        """Refuse half a certificate."""
        if (self.certfile is None) != (self.keyfile is None):
            raise ValueError("certfile and keyfile come together")

    @property
    def tls(self) -> bool:
        """Whether the server speaks TLS."""
        return self.certfile is not None
