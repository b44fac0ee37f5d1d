"""The `duplex-trio bench` command: measure, print tables, write JSON."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import attrs
import orjson
import trio
from rich.console import Console, Group

from duplex_trio.benchmarks import QUICK, EngineBenchSettings, bench_engine, bench_wire
from duplex_trio.benchmarks.table import tables, wire_tables
from duplex_trio.benchmarks.video import QUICK_VIDEO, VideoBenchSettings, bench_video
from duplex_trio.benchmarks.video.table import video_tables
from duplex_trio.benchmarks.video.watching import WatchError
from duplex_trio.cli.deployments import open_deployment
from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.log import configure_logging
from duplex_trio.clients.video.errors import VideoClientError
from duplex_trio.deploy import DeployConfig
from duplex_trio.pipelines.deployment import session_mode
from duplex_trio.serving.run import SWITCH_INTERVAL_S

T = TypeVar("T")

_JSON = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
_WIDTH = 136
"""Columns of tables that do not go to a terminal."""
_ENGINE = (
    "Measure the engine with a scripted model in real threads, without sockets: the cost of appends, barge-in"
    " under load, memory of sessions, lateness of the loop, and requests left behind."
)

_WIRE = (
    "Measure both WebSocket paths of the server with a scripted model, each in a process of its own: the CPU time"
    " of messages, barge-in and resume over the wire, and memory of sessions. Needs Linux."
)
_VIDEO = (
    "Measure videos: frames a second of each model alone, with its encoder, and of a server in a process of its own"
    " over the socket; and how soon a new prompt is heard of and seen while a video plays. Needs Linux."
)


def add_parser(subparsers: Any) -> None:
    """Add `bench` to the command line."""
    parser = subparsers.add_parser("bench", help="measure the engine", description="Measure the engine.")
    benchmarks = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    engine = benchmarks.add_parser("engine", help="sessions with a scripted model", description=_ENGINE)
    engine.add_argument("--json", metavar="FILE", type=Path, help="write every figure into FILE")
    engine.add_argument(
        "--seconds",
        metavar="N",
        type=_seconds,
        help=f"length of each part that runs in real time (default: {EngineBenchSettings().seconds:g})",
    )
    engine.add_argument(
        "--sessions",
        metavar="N,N,...",
        type=_counts,
        help="how many sessions talk at once, one part for each (default:"
        f" {','.join(map(str, EngineBenchSettings().sessions))})",
    )
    engine.add_argument("--quick", action="store_true", help="a few of everything, to see that it works")
    engine.set_defaults(run=run)
    wire = benchmarks.add_parser("wire", help="the two WebSocket paths of the server", description=_WIRE)
    wire.add_argument("--json", metavar="FILE", type=Path, help="write every figure into FILE")
    wire.add_argument("--quick", action="store_true", help="a few of everything, to see that it works")
    wire.set_defaults(run=run_wire)
    video = benchmarks.add_parser("video", help="generated video, served and alone", description=_VIDEO)
    video.add_argument("--json", metavar="FILE", type=Path, help="write every figure into FILE")
    video.add_argument(
        "--model",
        metavar="NAME",
        action="append",
        help="a deployment of video, by name or file; may be repeated (default:"
        f" {' and '.join(VideoBenchSettings().models)})",
    )
    video.add_argument(
        "--sizes",
        metavar="N,N,...",
        type=_counts,
        help=f"pixels of a side (default: {','.join(map(str, VideoBenchSettings().sizes))})",
    )
    video.add_argument(
        "--sessions",
        metavar="N,N,...",
        type=_counts,
        help=f"videos at once (default: {','.join(map(str, VideoBenchSettings().sessions))})",
    )
    video.add_argument("--quick", action="store_true", help="a little of everything, to see that it works")
    video.set_defaults(run=run_video)


def run(args: argparse.Namespace) -> int:
    """Measure; 0, or 1 when stage requests were left behind.

    Raises:
        CommandError: the file cannot be written.
    """
    given = {"seconds": args.seconds, "sessions": args.sessions}
    settings = attrs.evolve(
        QUICK if args.quick else EngineBenchSettings(),
        **{name: value for name, value in given.items() if value is not None},
    )
    configure_logging("warning")
    if args.json is not None:
        _write(args.json, b"")  # before minutes are spent
    report = _in_a_server(partial(bench_engine, settings))
    if args.json is not None:
        _write(args.json, orjson.dumps(report.to_json(), option=_JSON) + b"\n")
    _print(tables(report), args.json)
    return 1 if report.leaks.total else 0


def run_wire(args: argparse.Namespace) -> int:
    """Measure the WebSocket paths; 0.

    Raises:
        CommandError: the file cannot be written.
    """
    if args.json is not None:
        _write(args.json, b"")
    tell = partial(print, file=sys.stderr, flush=True)
    report = trio.run(partial(bench_wire, QUICK if args.quick else EngineBenchSettings(), tell=tell))
    if args.json is not None:
        _write(args.json, orjson.dumps(report.to_json(), option=_JSON) + b"\n")
    _print(wire_tables(report), args.json)
    return 0


def run_video(args: argparse.Namespace) -> int:
    """Measure videos; 0.

    Raises:
        CommandError: a deployment is faulty or makes no video, a video did not come, or the file cannot be written.
    """
    given = {"models": _models(args.model), "sizes": args.sizes, "sessions": args.sessions}
    try:
        settings = attrs.evolve(
            QUICK_VIDEO if args.quick else VideoBenchSettings(),
            **{name: value for name, value in given.items() if value is not None},
        )
    except ValueError as error:
        raise CommandError(f"this cannot be measured: {error.args[0]}") from error
    configure_logging("warning")
    deploys = [(name, _video_deploy(name)) for name in settings.models]
    if args.json is not None:
        _write(args.json, b"")
    try:
        report = _in_a_server(partial(bench_video, settings, deploys))
    except* (VideoClientError, WatchError) as errors:
        raise CommandError(f"a video was not as it should be: {_first(errors)}") from errors
    if args.json is not None:
        _write(args.json, orjson.dumps(report.to_json(), option=_JSON) + b"\n")
    _print(video_tables(report), args.json)
    return 0


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _models(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _video_deploy(name: str) -> DeployConfig:
    document, pipeline = open_deployment(name)
    if session_mode(pipeline.config, document.config) != "video":
        raise CommandError(f"{name} makes no video")
    return document.config


def _print(shown: Group, path: Path | None) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(shown, highlight=False)
    if path is not None:
        console.print(f"All figures are in {path}.", markup=False, highlight=False, soft_wrap=True)


def _in_a_server(measure: Callable[..., Awaitable[T]]) -> T:
    """Run a benchmark in an interpreter like a server's, and show what is being measured."""
    progress = Console(stderr=True)
    with _as_in_a_server():
        if not progress.is_terminal:
            return trio.run(partial(measure, tell=partial(print, file=sys.stderr, flush=True)))
        with progress.status("starting") as status:
            # Drawn in a thread of its own, now and then, so that it takes next to no time from what is measured.
            return trio.run(partial(measure, tell=status.update))


@contextmanager
def _as_in_a_server() -> Iterator[None]:
    """The interpreter as `duplex-trio serve` sets it up."""
    interval_s = sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)
        gc.unfreeze()


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be more than 0, not {text}")
    return value


def _counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"not whole numbers with commas between: {text!r}") from None
    if min(counts) < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more each, not {text}")
    return counts
