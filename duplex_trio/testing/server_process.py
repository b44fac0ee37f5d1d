"""`duplex-trio serve` in a process of its own, as a user runs it, for tests that want the whole server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue

from attrs import frozen

from duplex_trio.stages.process.spawn import CHILD

STOP_TIMEOUT_S = 60.0
LINES_SHOWN_MAX = 60


@frozen
class ServedPort:
    """Where a server is.

    Attributes:
        port: on 127.0.0.1.
        pid: of its process; 0 for what only leads to one.
        printed: the lines it has printed so far, its log among them.
    """

    port: int
    pid: int = 0
    printed: Sequence[str] = ()

    @property
    def http_base(self) -> str:
        """What OpenAI's SDKs take as their base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def ws_base(self) -> str:
        """What OpenAI's Python SDK takes as `websocket_base_url`."""
        return f"ws://127.0.0.1:{self.port}/v1"

    @property
    def ws_url(self) -> str:
        """The realtime route."""
        return f"{self.ws_base}/realtime"

    @property
    def alive(self) -> bool:
        """Whether its process is there."""
        return Path(f"/proc/{self.pid}/statm").read_text().split()[0] != "0"

    def stage_processes(self) -> list[int]:
        """The processes of its stages, as the kernel knows them (Linux)."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        found: list[int] = []
        for pid in children:
            with suppress(OSError):  # it may end while it is looked at
                if CHILD in Path(f"/proc/{pid}/cmdline").read_text():
                    found.append(int(pid))
        return found

    def resident_bytes(self) -> int:
        """The memory its process holds, from the kernel (Linux)."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def metrics(self) -> dict[str, float]:
        """The samples of `/metrics`, by name with labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}


@contextmanager
def server_process(*arguments: str, start_timeout_s: float) -> Iterator[ServedPort]:
    """Run `duplex-trio serve` on a free loopback port; at the end of the block it is asked to stop.

    Args:
        arguments: more arguments of the command.
        start_timeout_s: how long it may take until it says where it is.

    Raises:
        AssertionError: it did not start in time, or did not stop cleanly; with what it printed.
    """
    command = [sys.executable, "-m", "duplex_trio", "serve", "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603 (our own command)
    lines: Queue[str | None] = Queue()
    printed: list[str] = []
    reader = threading.Thread(target=_read, args=(process, lines, printed), daemon=True)
    reader.start()
    try:
        yield ServedPort(_port(lines, printed, start_timeout_s), process.pid, printed)
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=STOP_TIMEOUT_S)
        reader.join(timeout=10)
        assert code == 0, f"it ended with {code}:\n" + "".join(printed[-LINES_SHOWN_MAX:])
    finally:
        process.kill()
        process.wait()
        reader.join(timeout=10)
        assert process.stdout is not None
        process.stdout.close()


def _read(process: subprocess.Popen[str], lines: Queue[str | None], printed: list[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        printed.append(line)
        lines.put(line)
    lines.put(None)


def _port(lines: Queue[str | None], printed: list[str], timeout_s: float) -> int:
    while True:
        try:
            line = lines.get(timeout=timeout_s)
        except Empty:
            line = None
        assert line is not None, "the server did not start:\n" + "".join(printed)
        found = re.search(r"HTTP +http://127\.0\.0\.1:(\d+)", line)
        if found is not None:
            return int(found[1])
