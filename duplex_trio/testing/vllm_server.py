"""vLLM's own server in a process of its own, as `vllm serve` runs it.

It needs some packages that the engine alone does not; the test requirements of this project have them.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NEEDED = ("vllm", "watchfiles", "prometheus_fastapi_instrumentator", "model_hosting_container_standards")
"""Modules without which it does not start."""


def missing_packages() -> list[str]:
    """Which of `NEEDED` are not there."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


@contextmanager
def vllm_server(
    model: Path, name: str, *arguments: str, log: Path, start_timeout_s: float, port: int | None = None
) -> Iterator[VllmServer]:
    """Serve a model on a loopback port until the block ends.

    Args:
        model: its folder.
        name: what the server calls it.
        arguments: more arguments of `vllm serve`.
        log: takes what it prints.
        start_timeout_s: how long it may take until it answers.
        port: a certain port; a free one by default.

    Raises:
        AssertionError: it did not start in time; with the end of what it printed.
    """
    server = VllmServer(port or _free_port())
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
        "--served-model-name", name, "--host", "127.0.0.1", "--port", str(server.port), "--enforce-eager", *arguments,
    ]  # fmt: skip
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with log.open("wb") as printed:
        process = subprocess.Popen(  # noqa: S603  our own command
            command, stdout=printed, stderr=subprocess.STDOUT, env=os.environ | quiet, start_new_session=True
        )
    server.process = process
    try:
        deadline_s = time.monotonic() + start_timeout_s
        while not server.answers():
            ended = process.poll() is not None or time.monotonic() > deadline_s
            assert not ended, "vLLM's server did not start:\n" + log.read_text(errors="replace")[-4000:]
            time.sleep(0.5)
        yield server
    finally:
        server.kill()


class VllmServer:
    """A running server.

    Args:
        port: on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        """Where its API begins."""
        return f"http://127.0.0.1:{self.port}/v1"

    def answers(self) -> bool:
        """Whether it is ready."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def running_requests(self) -> int:
        """Requests that it is working on."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        found = [
            line
            for line in lines
            if line.startswith(("vllm:num_requests_running", "vllm:num_requests_waiting{"))
        ]
        return sum(int(float(line.rpartition(" ")[2])) for line in found)

    def kill(self) -> None:
        """End it and its engine at once."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
