"""What a service manager such as systemd is told of the server: that it is ready, that it stops, that it is alive.

The protocol is sd_notify(3): datagrams of `NAME=value` lines to the Unix socket that `NOTIFY_SOCKET` names. Nothing
here waits. What a slow manager has no room for is told with the next message; a sign of life is not told twice.
"""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping

import structlog

log = structlog.get_logger("duplex_trio.serving")

SOCKET_VARIABLE = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE = "WATCHDOG_USEC"
WATCHDOG_PID_VARIABLE = "WATCHDOG_PID"
PINGS_PER_PERIOD = 3
"""Signs of life in the time after which the manager gives the server up; sd_watchdog_enabled(3) advises two."""
_USEC = 1_000_000
_ALIVE = "WATCHDOG=1"


class ServiceManager(ABC):
    """Who started the server, and wants to know how it is.

    Attributes:
        ping_s: seconds between two signs of life that are wanted; None if none are.
    """

    ping_s: float | None = None

    @abstractmethod
    def loading(self) -> None:
        """The models are being loaded."""

    @abstractmethod
    def ready(self, address: str) -> None:
        """Everything is warm, and served at an address."""

    @abstractmethod
    def stopping(self) -> None:
        """The server takes nothing new, and ends when what is live has ended."""

    @abstractmethod
    def alive(self) -> None:
        """A sign of life, from the loop that serves."""


class _NoServiceManager(ServiceManager):
    def loading(self) -> None:
        pass

    def ready(self, address: str) -> None:
        pass

    def stopping(self) -> None:
        pass

    def alive(self) -> None:
        pass


NO_SERVICE_MANAGER: ServiceManager = _NoServiceManager()
"""Nobody wants to know."""


class Systemd(ServiceManager):
    """systemd, or whoever speaks its protocol.

    Args:
        path: its socket; one of the abstract name space begins with `@`.
        ping_s: seconds between two signs of life; None if none are wanted.
    """

    def __init__(self, path: str, ping_s: float | None = None) -> None:
        self.ping_s = ping_s
        self._path = "\0" + path[1:] if path.startswith("@") else path
        self._untold: list[str] = []

    def loading(self) -> None:
        """Say that the models are being loaded."""
        self._tell("STATUS=Loading the models.")

    def ready(self, address: str) -> None:
        """Say that the server serves."""
        self._tell("READY=1", f"STATUS=Serving {address}", _ALIVE)

    def stopping(self) -> None:
        """Say that the server drains."""
        self._tell("STOPPING=1", "STATUS=Draining: what is live may end.")

    def alive(self) -> None:
        """Give a sign of life."""
        self._tell(_ALIVE)

    def _tell(self, *lines: str) -> None:
        told = [*self._untold, *lines]
        # A socket for each message: there are few, and the server may end in many places.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            try:
                sender.sendto("\n".join(told).encode(), self._path)
            except OSError as error:
                # Whoever started the server may be gone or slow; that is no reason to serve nobody.
                log.debug("service_manager.not_told", error=str(error))
                self._untold = [line for line in told if line != _ALIVE]
            else:
                self._untold = []


def service_manager(environ: Mapping[str, str]) -> ServiceManager:
    """Who the environment says has started the server.

    The signs of life are asked of one process, by its id; of others none are.
    """
    path = environ.get(SOCKET_VARIABLE, "")
    if not path.startswith(("/", "@")) or len(path) < 2:
        return NO_SERVICE_MANAGER
    period, owner = environ.get(WATCHDOG_VARIABLE, ""), environ.get(WATCHDOG_PID_VARIABLE, "")
    watched = period.isdecimal() and int(period) > 0 and owner in ("", str(os.getpid()))
    return Systemd(path, int(period) / _USEC / PINGS_PER_PERIOD if watched else None)
