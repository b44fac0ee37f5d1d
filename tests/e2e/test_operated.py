"""The `serve` command as an operator runs it: told to a service manager, traced, drained by a signal."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from duplex_trio.testing.otlp_collector import OtlpCollector, otlp_collector
from duplex_trio.testing.serve_command import serve_command
from tests.operations.units import instructions

pytestmark = pytest.mark.e2e


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    with otlp_collector() as made:
        yield made


@pytest.fixture
def notify(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tmp_path / "notify"))
        made.setblocking(False)
        yield made


def told(listener: socket.socket) -> list[str]:
    found: list[str] = []
    while True:
        try:
            found += listener.recv(4096).decode().split("\n")
        except BlockingIOError:
            return found


async def test_a_service_is_ready_alive_and_stopping_and_its_spans_arrive(
    tmp_path: Path, notify: socket.socket, collector: OtlpCollector
) -> None:
    """The span of a session that the drain ends has the client's trace, and is there when the process has ended."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    environ = {
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
        "WATCHDOG_USEC": "600000",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_SERVICE_NAME": "desk",
    }
    async with serve_command(tmp_path, "--drain-timeout", "0.2", **environ) as command:
        said = told(notify)
        assert said[0] in ("STATUS=Loading the models.", "WATCHDOG=1")
        with trio.fail_after(10):
            while "READY=1" not in said or said[-1] != "WATCHDOG=1" or said.count("WATCHDOG=1") < 4:
                said += told(notify)
                await trio.sleep(0.02)
        socket_ = await command.open("/v1/realtime", headers={"traceparent": parent})
        command.signal()
        assert await command.exit_code() == 0
        await socket_.aclose()
        said += told(notify)
        log = command.log.read_text()
    assert "STOPPING=1" in said
    assert said.index("READY=1") < said.index("STOPPING=1")
    assert collector.names() == ["session scripted"]
    assert collector.services() == {"desk"}
    (span,) = collector.spans()
    assert span.trace_id.hex() in parent
    assert f"trace_id={span.trace_id.hex()}" in log


async def test_the_images_check_of_health_tells_a_server_from_none(tmp_path: Path) -> None:
    """What Docker runs every ten seconds, run against a server that is there and one that is not."""
    path = Path(__file__).parents[2] / "operations" / "docker" / "Dockerfile"
    (check,) = [one for one in instructions(path) if one.name == "HEALTHCHECK"]
    _, code, program = json.loads(check.text.partition("CMD ")[2])
    async with serve_command(tmp_path) as command:
        for port, healthy in ((command.port, True), (1, False)):
            asked = [sys.executable, code, program.replace("8765", str(port))]
            result = await trio.run_process(asked, check=False, capture_stderr=True)
            assert (result.returncode == 0) is healthy, result.stderr


async def test_a_collector_that_is_gone_delays_no_end(tmp_path: Path) -> None:
    """The process ends with 0 in spite of spans that nobody takes."""
    with socket.socket() as once:
        once.bind(("127.0.0.1", 0))
        port = once.getsockname()[1]
    options = ("--otel", "--drain-timeout", "0")
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
    async with serve_command(tmp_path, *options, **environ) as command:
        socket_ = await command.open("/v1/realtime")
        command.signal()
        with trio.fail_after(15):
            assert await command.exit_code() == 0
        await socket_.aclose()
