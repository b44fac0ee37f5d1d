"""The `duplex-trio serve` command: from options to a running server."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import structlog
import trio
from rich.console import Console
from rich.markup import escape

from duplex_trio.cli.compose import (
    DEFAULT_DEPLOY,
    NO_VIDEO,
    make_omni,
    make_video,
    plan_serving,
    plan_video,
    read_deploy,
)
from duplex_trio.cli.errors import CommandError, UsageError
from duplex_trio.cli.log import LEVELS, configure_logging
from duplex_trio.deploy import PLATFORMS, DeployConfig
from duplex_trio.entrypoints.omni_base import WarmUpError
from duplex_trio.entrypoints.start_up import StartPlan
from duplex_trio.models.errors import ModelReferenceError
from duplex_trio.serving.address import AddressUnavailableError, ServerAddress
from duplex_trio.serving.auth import is_loopback
from duplex_trio.serving.guards import GuardsUnavailableError
from duplex_trio.serving.options import TRANSPORTS, ServeOptions
from duplex_trio.serving.port import TlsUnavailableError
from duplex_trio.serving.run import run_server
from duplex_trio.serving.service_manager import service_manager
from duplex_trio.stages.errors import StageLoadError
from duplex_trio.tracing import NO_TRACER, Tracer
from duplex_trio.tracing.setup import TracingUnavailableError, open_tracer

log = structlog.get_logger("duplex_trio.serve")

API_KEY_VARIABLE = "DUPLEX_TRIO_API_KEY"
_EXPLAINED = (
    AddressUnavailableError,
    CommandError,
    GuardsUnavailableError,
    ModelReferenceError,
    StageLoadError,
    TlsUnavailableError,
    WarmUpError,
)


def add_parser(subparsers: Any) -> None:
    """Add `serve` to the command line."""
    parser = subparsers.add_parser(
        "serve",
        help="serve speech sessions and steered video over WebSocket, and chat completions",
        description="Serve speech sessions over WebSocket, OpenAI's Realtime protocol and ours, chat completions, and "
        "video that is steered by prompts while it runs.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=_number(int, 0, 65535), default=8765, help="0 takes a free one (%(default)s)"
    )
    _add_model_options(parser)
    parser.add_argument(
        "--max-sessions", type=_number(int, 1), help="sessions at once (default: the deployment's)"
    )
    parser.add_argument(
        "--max-chats", type=_number(int, 1), help="chat completions at once (default: the deployment's)"
    )
    parser.add_argument("--instructions", metavar="TEXT", help="instructions of sessions that bring none")
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        action="append",
        default=[],
        type=_api_key,
        help=f"let only clients with a key in; may be repeated, also from {API_KEY_VARIABLE} (comma-separated)",
    )
    parser.add_argument(
        "--allow-origin",
        metavar="ORIGIN",
        action="append",
        default=[],
        type=_origin,
        help="let browser pages from scheme://host[:port] in, or * for all; may be repeated",
    )
    parser.add_argument(
        "--servers",
        metavar="N",
        type=_number(int, 1),
        default=1,
        help="server processes behind the address that clients use; sessions need it to be one (default: %(default)s)",
    )
    parser.add_argument(
        "--drain-timeout",
        metavar="SECONDS",
        type=_number(float, 0),
        default=10.0,
        help="how long sessions and chats get to end after a signal (default: %(default)s)",
    )
    parser.add_argument(
        "--ws",
        choices=TRANSPORTS,
        default="native",
        help="what carries WebSockets: our own reader and writer, or the HTTP server's (default: %(default)s)",
    )
    parser.add_argument(
        "--certfile", metavar="FILE", help="PEM certificate chain; with it HTTPS and WSS only"
    )
    parser.add_argument("--keyfile", metavar="FILE", help="PEM private key of the certificate, not encrypted")
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="default: %(default)s")
    parser.add_argument("--log-json", action="store_true", help="write the log as JSON")
    parser.add_argument(
        "--log-transcripts", action="store_true", help="write what people say or ask for into the log"
    )
    parser.add_argument(
        "--otel",
        action=argparse.BooleanOptionalAction,
        help="send OpenTelemetry traces, as the OTEL_ variables say (default: if OTEL_EXPORTER_OTLP_ENDPOINT is set)",
    )
    parser.set_defaults(run=run)


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--deploy",
        metavar="NAME|FILE",
        default=DEFAULT_DEPLOY,
        help="deployment to serve (default: %(default)s)",
    )
    parser.add_argument(
        "--platform",
        choices=PLATFORMS,
        help="whose section of its `platforms` to apply (default: this machine's)",
    )
    for role, what in (("llm", "language model"), ("asr", "speech recognition"), ("tts", "speech synthesis")):
        parser.add_argument(
            f"--{role}", metavar="REF", help=f"{what}: a packaged name, a folder, a file or a hub id"
        )
    parser.add_argument(
        "--video-model",
        metavar=f"NAME|FILE|{NO_VIDEO}",
        help="deployment of video to serve beside it, such as scene or glyph-flow (default: the deployment's)",
    )
    parser.add_argument(
        "--model-name", metavar="NAME", type=_model_name, help="name to serve the model under"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop; 0.

    Raises:
        CommandError: a deployment is faulty, the address is in use, or the model does not start.
        ModelReferenceError: a model is not there.
    """
    configure_logging(args.log_level, as_json=args.log_json)
    models = {"llm": args.llm, "asr": args.asr, "tts": args.tts}
    deploy = read_deploy(
        args.deploy,
        models=models,
        max_sessions=args.max_sessions,
        max_chats=args.max_chats,
        platform=args.platform,
    )
    plan = plan_serving(deploy, servers=args.servers)
    _refuse_options_of_sessions(args, plan)
    video = plan_video(args.video_model, plan, platform=args.platform)
    if (args.certfile is None) != (args.keyfile is None):
        raise UsageError("--certfile and --keyfile come together")
    options = serve_options(args, deploy)
    if not is_loopback(options.host) and not options.api_keys:
        log.warning(
            "server.open_to_everybody",
            host=options.host,
            advice="anyone who reaches it may use it; set --api-key",
        )
    factory = partial(make_omni, plan, instructions=args.instructions)
    video_factory = None if video is None else partial(make_video, video)
    announcement = _Announcement(
        Console(),
        sessions=plan.session_mode == "duplex",
        video=video is not None or plan.session_mode == "video",
    )
    try:
        trio.run(partial(run_server, factory, options, video_factory=video_factory, task_status=announcement))
    except _EXPLAINED as error:
        raise CommandError(str(error)) from error
    except BaseExceptionGroup as group:
        known, other = group.split(_EXPLAINED)
        if other is not None or known is None:
            raise
        leaves = _leaves(known)
        if isinstance(leaves[0], CommandError | ModelReferenceError):
            raise leaves[0] from None
        raise CommandError("; ".join(dict.fromkeys(str(error) for error in leaves))) from group
    return 0


def _refuse_options_of_sessions(args: argparse.Namespace, plan: StartPlan) -> None:
    if plan.session_mode == "duplex":
        return
    mode = plan.session_mode
    for option, value in (("--max-sessions", args.max_sessions), ("--instructions", args.instructions)):
        if value is not None:
            raise UsageError(
                f"{option} is about sessions, and this deployment has none (session_mode: {mode})"
            )
    if mode == "video" and args.max_chats is not None:
        raise UsageError(f"--max-chats is about chats, and this deployment has none (session_mode: {mode})")


def serve_options(args: argparse.Namespace, deploy: DeployConfig) -> ServeOptions:
    """Options of the server from the command line, the environment and the deployment."""
    lengths = [stage.max_model_len for stage in deploy.stages if stage.max_model_len is not None]
    return ServeOptions(
        host=args.host,
        port=args.port,
        ws=args.ws,
        certfile=args.certfile,
        keyfile=args.keyfile,
        api_keys=tuple(dict.fromkeys([*args.api_key, *_keys_from_environment()])),
        allowed_origins=tuple(args.allow_origin),
        drain_timeout_s=args.drain_timeout,
        model_name=args.model_name,
        max_model_len=min(lengths, default=None),
        log_transcripts=args.log_transcripts,
        handle_signals=True,
        tune_process=True,
        tracer=_tracer(args),
        manager=service_manager(os.environ),
    )


def _tracer(args: argparse.Namespace) -> Tracer:
    try:
        return open_tracer(args.otel, os.environ, transcripts=args.log_transcripts)
    except TracingUnavailableError as error:
        if args.otel:
            raise CommandError(f"--otel: {error}") from error
        # Said for all programs of a machine, perhaps; none of them has to fail for it.
        log.warning("tracing.unavailable", reason=str(error))
        return NO_TRACER


class _Announcement:
    """Tells the person at the terminal where the server is, once it is there."""

    def __init__(self, console: Console, *, sessions: bool, video: bool) -> None:
        self._console = console
        self._sessions = sessions
        self._video = video

    def started(self, value: ServerAddress | None = None) -> None:
        """Print the addresses."""
        assert value is not None
        websocket = [("Talk at", value.talk_page_url), ("WebSocket", value.ws_url)] if self._sessions else []
        video = [("Video at", value.video_page_url), ("Video", value.video_ws_url)] if self._video else []
        for name, url in (*websocket, *video, ("HTTP", value.http_url)):
            self._console.print(f"{name:<10} [bold]{escape(url)}[/bold]", soft_wrap=True)
        self._console.print("Ready. Stop with Ctrl-C.")
        self._console.file.flush()


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    leaves: list[BaseException] = []
    for error in group.exceptions:
        leaves += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return leaves


def _number(kind: type[int] | type[float], low: float, high: float | None = None) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None
        if not value >= low or (high is not None and value > high) or value == float("inf"):
            most = "" if high is None else f" and at most {high:g}"
            raise argparse.ArgumentTypeError(f"must be at least {low:g}{most}, not {text}")
        return value

    return parse


def _keys_from_environment() -> list[str]:
    value = os.environ.get(API_KEY_VARIABLE, "")
    keys = [key for key in re.split(r"[,\s]+", value) if key]
    if value and not keys:  # whoever set it did not mean to let everybody in
        raise CommandError(f"{API_KEY_VARIABLE} is set, but holds no key")
    return keys


def _api_key(text: str) -> str:
    if not text.strip() or text != text.strip():
        raise argparse.ArgumentTypeError("a key must not be empty or have spaces around it")
    return text


def _model_name(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError("a name has letters that can be seen")
    return text


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if text in ("*", "null") or (
        parts.scheme and parts.netloc and f"{parts.scheme}://{parts.netloc}" == text
    ):
        return text
    raise argparse.ArgumentTypeError(f"must be scheme://host[:port] without a path, or *, not {text!r}")
