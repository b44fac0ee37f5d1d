"""The `duplex-trio bench` command: measure, print tables, write JSON."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import orjson
import trio
from rich.console import Console, Group

from duplex_trio.benchmarks import QUICK, EngineBenchSettings, EngineReport, bench_engine, bench_wire
from duplex_trio.benchmarks.table import tables, wire_tables
from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.log import configure_logging
from duplex_trio.serving.run import SWITCH_INTERVAL_S

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
    report = _measure(settings)
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


def _print(shown: Group, path: Path | None) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(shown, highlight=False)
    if path is not None:
        console.print(f"All figures are in {path}.", markup=False, highlight=False, soft_wrap=True)


def _measure(settings: EngineBenchSettings) -> EngineReport:
    progress = Console(stderr=True)
    with _as_in_a_server():
        if not progress.is_terminal:
            return trio.run(partial(bench_engine, settings, tell=partial(print, file=sys.stderr, flush=True)))
        with progress.status("starting") as status:
            # Drawn in a thread of its own, now and then, so that it takes next to no time from what is measured.
            return trio.run(partial(bench_engine, settings, tell=status.update))


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
