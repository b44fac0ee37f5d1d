"""A client of HTTP/2 that does what a test tells it to, for WebSockets over it (RFC 8441)."""

from __future__ import annotations

from typing import Any

import trio
from attrs import Factory, define
from h2.config import H2Configuration
from h2.connection import H2Connection

from duplex_trio.testing.raw_websocket import RawWebSocket


@define
class Http2Client:
    """As much of an HTTP/2 client as it takes to open a WebSocket on a stream, or to break a request."""

    raw: RawWebSocket
    connection: H2Connection = Factory(
        lambda: H2Connection(H2Configuration(client_side=True, validate_outbound_headers=False))
    )

    async def start(self) -> None:
        """Say that HTTP/2 is spoken."""
        self.connection.initiate_connection()
        await self.flush()

    async def flush(self) -> None:
        """Send what the connection has to say."""
        await self.raw.send(self.connection.data_to_send())

    async def until(self, kind: type[Any]) -> Any:
        """Read until an event of this kind."""
        with trio.fail_after(30):
            while True:
                data = await self.raw.stream.receive_some(65536)
                assert data, "the server closed"
                for event in self.connection.receive_data(bytes(data)):
                    if isinstance(event, kind):
                        return event
                await self.flush()
