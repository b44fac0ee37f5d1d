"""Where the server listens: taking the address before the models are loaded, and the URLs that lead to it."""

from __future__ import annotations

import ipaddress
import socket

import trio
from attrs import frozen

from duplex_trio.serving.paths import REALTIME_PATH, TALK_PAGE_PATH, VIDEO_PAGE_PATH, VIDEO_PATH


class AddressUnavailableError(Exception):
    """The address cannot be listened on. The message is for people."""


@frozen
class ServerAddress:
    """A listening server. `host` is the one bound; the URLs lead to it from this machine."""

    host: str
    port: int
    tls: bool = False

    @property
    def http_url(self) -> str:
        """Base of the HTTP routes, without a slash at its end."""
        return f"{'https' if self.tls else 'http'}://{self._authority}"

    @property
    def ws_url(self) -> str:
        """The realtime WebSocket."""
        return f"{'wss' if self.tls else 'ws'}://{self._authority}{REALTIME_PATH}"

    @property
    def video_ws_url(self) -> str:
        """The WebSocket of steered video."""
        return f"{'wss' if self.tls else 'ws'}://{self._authority}{VIDEO_PATH}"

    @property
    def talk_page_url(self) -> str:
        """The page where people talk with the model, where it has sessions."""
        return f"{self.http_url}{TALK_PAGE_PATH}"

    @property
    def video_page_url(self) -> str:
        """The page that shows video, where some is served."""
        return f"{self.http_url}{VIDEO_PAGE_PATH}"

    @property
    def _authority(self) -> str:
        host = self.host
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return f"{host}:{self.port}"
        if address.is_unspecified:  # "everywhere" is no place to connect to
            host = "127.0.0.1" if address.version == 4 else "::1"
        return f"[{host}]:{self.port}" if address.version == 6 else f"{host}:{self.port}"


async def bind(host: str, port: int) -> socket.socket:
    """Take an address without listening on it yet. Port 0 takes any free one.

    Raises:
        AddressUnavailableError: the name is unknown, the port is in use, or it may not be used.
    """
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, proto, _, address = found[0]
        listener = socket.socket(family, kind, proto)
    except OSError as error:
        raise _unavailable(host, port, error) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise _unavailable(host, port, error) from error
    return listener


def _unavailable(host: str, port: int, error: OSError) -> AddressUnavailableError:
    return AddressUnavailableError(f"cannot listen on {host}:{port}: {error.strerror or error}")
