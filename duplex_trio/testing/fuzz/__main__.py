"""The command line of the fuzzers: `python -m duplex_trio.testing.fuzz structure|frames|websocket|http|coverage`."""

from __future__ import annotations

import argparse
import logging
import secrets
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import structlog
import trio

from duplex_trio.testing.fuzz.coverage import fuzz
from duplex_trio.testing.fuzz.wire.frames import differing
from duplex_trio.testing.fuzz.wire.run import STREAMS, Storm
from duplex_trio.testing.server_process import server_process

START_TIMEOUT_S = 300.0
DEPLOYMENT = """
base_config: scripted
duplex_session: {max_sessions: 100, disconnect_grace_s: 0.2, send_timeout_s: 120}
"""
"""Sessions that were left give their places back soon; a client on a busy machine that reads late is not lost."""


def main(argv: Sequence[str] | None = None) -> int:
    """Fuzz as the arguments say; 0 if nothing broke, else what broke is raised."""
    parser = argparse.ArgumentParser(prog="python -m duplex_trio.testing.fuzz", description=__doc__)
    parser.add_argument("what", choices=["structure", "frames", "coverage", *STREAMS], help="what is fuzzed")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="begin with this one; without, any")
    parser.add_argument(
        "--serve", default="", help='more arguments of `duplex-trio serve`, such as "--ws asgi"'
    )
    args = parser.parse_args(argv)
    seed = secrets.randbelow(1 << 31) if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    if args.what == "structure":
        tried = _fuzz_structure(args.seconds, seed)
        print(f"{tried} programs: nothing broke")
        return 0
    if args.what == "frames":
        print(f"{_compare_frames(args.seconds, seed)} streams of frames: both paths read the same")
        return 0
    if args.what == "coverage":
        fuzz(args.seconds, max(1, seed))  # ends the process
    with _server(shlex.split(args.serve)) as (port, pid):
        storm = Storm(port, pid, STREAMS[args.what], seed)
        trio.run(partial(storm.throw, sys.maxsize, seconds=args.seconds))
    print(f"{storm.thrown} connections: nothing broke; answered: {dict(sorted(storm.answers.items()))}")
    return 0


def _fuzz_structure(seconds: float, seed: int) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    from duplex_trio.testing.fuzz.structure import try_for  # needs hypothesis

    return try_for(seconds, seed, tell=lambda line: print(line, flush=True))


def _compare_frames(seconds: float, seed: int) -> int:
    end_s = time.monotonic() + seconds
    for number in count():
        difference = differing(seed + number)
        assert difference is None, difference
        if time.monotonic() >= end_s:
            return number + 1
    raise AssertionError("unreachable")


@contextmanager
def _server(arguments: Sequence[str]) -> Iterator[tuple[int, int]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzz.yaml"
        path.write_text(DEPLOYMENT)
        with server_process("--deploy", str(path), *arguments, start_timeout_s=START_TIMEOUT_S) as server:
            yield server.port, server.pid


if __name__ == "__main__":
    sys.exit(main())
