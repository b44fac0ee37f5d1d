"""What can befall a process: callables for a `ScriptWorker` to call in a step or while it loads. All can be pickled."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

import structlog

from duplex_trio.testing.gates import Gate


def die_by(number: int) -> None:
    """End this process by a signal."""
    os.kill(os.getpid(), number)
    signal.pause()


def complain_and_exit(code: int) -> None:
    """Say why to standard error, then leave at once."""
    print("the weights are torn", file=sys.stderr, flush=True)
    os._exit(code)


def write_garbage() -> None:
    """Send what is no message."""
    os.write(_connection(), b"HTTP/1.1 200 OK\r\n\r\n" * 20)


def shut_connection() -> None:
    """Close this process's half of the connection, and stay."""
    with socket.socket(fileno=os.dup(_connection())) as again:
        again.shutdown(socket.SHUT_WR)
    signal.pause()


def hold_interpreter() -> None:
    """Stay for ever in a native call that lets no other thread of Python run."""
    ctypes.PyDLL(None).pause()


def after(gate: Gate, fault: Callable[[], Any]) -> Any:
    """Open a gate, then do something else."""
    gate.set()
    return fault()


def print_lines(count: int) -> int:
    """Print some lines."""
    for number in range(count):
        print("line", number)
    sys.stdout.flush()
    return count


def log_warning() -> str:
    """Log something as the package does."""
    structlog.get_logger("duplex_trio.stages").warning("weights.odd", layer=3)
    return "logged"


def who_am_i() -> int:
    """The number of this process."""
    return os.getpid()


def variable(name: str) -> str | None:
    """A variable of the environment."""
    return os.environ.get(name)


def unpicklable() -> Any:
    """Something that cannot be sent."""
    return lambda: None


class ReadHereOnly:
    """Can be read in the process that made it, and in no other."""

    def __init__(self) -> None:
        self.home = os.getpid()

    def __setstate__(self, state: dict[str, int]) -> None:
        if state["home"] != os.getpid():
            raise ImportError("no module named elsewhere")
        self.home = state["home"]


def _connection() -> int:
    return int(sys.argv[1])
