"""What systemd is told, over a real socket: when the server is ready, and that it is alive."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.serving import run
from duplex_trio.serving.address import ServerAddress
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.service_manager import NO_SERVICE_MANAGER, Systemd, service_manager


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tmp_path / "notify"))
        made.settimeout(10)
        yield made


def told(listener: socket.socket) -> list[str]:
    """Everything that has arrived, message by message."""
    found = []
    listener.setblocking(False)
    while True:
        try:
            found.append(listener.recv(4096).decode())
        except BlockingIOError:
            return found


def test_nobody_is_told_without_a_socket() -> None:
    assert service_manager({}) is NO_SERVICE_MANAGER
    assert service_manager({"NOTIFY_SOCKET": "vsock:2:1234"}) is NO_SERVICE_MANAGER
    assert service_manager({"NOTIFY_SOCKET": "@"}) is NO_SERVICE_MANAGER


@pytest.mark.parametrize(
    ("usec", "pid", "ping_s"),
    [
        ("30000000", None, 10.0),
        ("30000000", "own", 10.0),
        ("30000000", "1", None),
        ("0", None, None),
        ("soon", None, None),
        ("", None, None),
    ],
)
def test_signs_of_life_come_three_in_a_period(usec: str, pid: str | None, ping_s: float | None) -> None:
    """And from the process that they are asked of, no other one."""
    environ = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": usec}
    if pid is not None:
        environ["WATCHDOG_PID"] = str(os.getpid()) if pid == "own" else pid
    manager = service_manager(environ)
    assert manager.ping_s == ping_s
    assert isinstance(manager, Systemd)


def test_an_abstract_socket_is_reached() -> None:
    name = f"duplex-trio-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        service_manager({"NOTIFY_SOCKET": f"@{name}"}).stopping()
        assert told(listener) == ["STOPPING=1\nSTATUS=Draining: what is live may end."]


def test_a_manager_that_does_not_listen_is_no_fault(tmp_path: Path, listener: socket.socket) -> None:
    """Whether it is gone, or so slow that its socket is full."""
    Systemd(str(tmp_path / "gone")).ready("here")
    manager = Systemd(str(tmp_path / "notify"))
    for _ in range(10_000):
        manager.alive()


def test_what_a_slow_manager_had_no_room_for_is_told_later(tmp_path: Path, listener: socket.socket) -> None:
    """That the server is ready must not get lost behind signs of life, which are not repeated themselves."""
    manager = Systemd(str(tmp_path / "notify"))
    for _ in range(2000):
        manager.alive()
    manager.ready("here")
    assert set(told(listener)) == {"WATCHDOG=1"}
    manager.alive()
    assert told(listener) == ["READY=1\nSTATUS=Serving here\nWATCHDOG=1"]
    manager.alive()
    assert told(listener) == ["WATCHDOG=1"]


async def test_the_loop_gives_the_signs_of_life(
    tmp_path: Path, listener: socket.socket, autojump_clock: MockClock
) -> None:
    """As long as it turns; a loop that is stuck gives none."""
    manager = Systemd(str(tmp_path / "notify"), ping_s=0.5)
    with trio.move_on_after(1.75):
        await run._give_signs_of_life(manager, 0.5)
    assert told(listener) == ["WATCHDOG=1"] * 4


async def test_a_server_is_ready_once_it_is_warm(tmp_path: Path, listener: socket.socket) -> None:
    """Loading, ready with its address, stopping as the drain begins."""
    options = ServeOptions(port=0, manager=Systemd(str(tmp_path / "notify")), drain_timeout_s=0.0)
    async with trio.open_nursery() as nursery:
        address: ServerAddress = await nursery.start(
            partial(run.run_server, lambda: DuplexOmni(ScriptedPipeline()), options)
        )
        seen = told(listener)
        nursery.cancel_scope.cancel()
    assert seen == ["STATUS=Loading the models.", f"READY=1\nSTATUS=Serving {address.http_url}\nWATCHDOG=1"]
