"""One server with the real models for all tests that want it: it is started as a user starts it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from queue import Queue

import pytest
from attrs import frozen

START_TIMEOUT_S = 240.0


@frozen
class RealServer:
    """Where the server with the real models is."""

    port: int

    @property
    def ws_base(self) -> str:
        """What the OpenAI SDK takes as `websocket_base_url`."""
        return f"ws://127.0.0.1:{self.port}/v1"

    @property
    def ws_url(self) -> str:
        """The realtime route."""
        return f"{self.ws_base}/realtime"

    def metrics(self) -> dict[str, float]:
        """The samples of `/metrics`, by name with labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}


@pytest.fixture(scope="session")
def real_server() -> Iterator[RealServer]:
    command = [sys.executable, "-m", "duplex_trio", "serve", "--port", "0", "--max-sessions", "6"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines: Queue[str | None] = Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    seen: list[str] = []
    try:
        while True:
            line = lines.get(timeout=START_TIMEOUT_S)
            assert line is not None, "the server ended:\n" + "".join(seen)
            seen.append(line)
            found = re.search(r"ws://127\.0\.0\.1:(\d+)/", line)
            if found is not None:
                break
        yield RealServer(int(found[1]))
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(timeout=60)
            while not lines.empty():
                seen.append(lines.get() or "")
            assert code == 0, "".join(seen[-60:])
        finally:
            process.kill()
            process.wait()
            reader.join(timeout=10)
            process.stdout.close()
