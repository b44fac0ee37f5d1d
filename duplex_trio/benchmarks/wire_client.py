"""The client's end of a WebSocket that is measured."""

from __future__ import annotations

from duplex_trio.testing.raw_websocket import RawWebSocket, upgrade_request
from duplex_trio.testing.server_process import ServedPort


class WireError(Exception):
    """The server did something else than what was to be measured."""


async def open_socket(server: ServedPort, target: str) -> RawWebSocket:
    """Connect and upgrade.

    Raises:
        WireError: the server refuses.
    """
    client = await RawWebSocket.open(server.port)
    await client.send(upgrade_request(target))
    status, _ = await client.response_head()
    if status != 101:
        raise WireError(f"the upgrade was answered with {status}")
    return client
