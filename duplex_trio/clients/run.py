"""The tasks of a client.

```
client                       run_client    the body of `async with DuplexClient(...)`
├─ socket                    run_socket    one connection: trio-websocket's reader
├─ reader                    websocket     messages to `DuplexClientBase.dispatch`
├─ writer                    websocket     whole messages, one at a time, whoever is cancelled
├─ heartbeat                 websocket
└─ acknowledger              websocket
```

A body that raises gets its own exception back, not a group of one. The tasks themselves raise nothing on
purpose: how a session ends is told to its subscribers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
import trio_websocket

from duplex_trio.clients.errors import DuplexConnectionError
from duplex_trio.clients.transport import (
    FRAME_BYTES_MAX,
    RECEIVE_BYTES,
    Address,
    Connect,
    OpeningStream,
    connection_error,
)

if TYPE_CHECKING:
    from duplex_trio.clients.base import DuplexClientBase

GOODBYE_TIMEOUT_S = 1.0
"""How long leaving may take when nobody waits for it: a body that raised or was cancelled."""


@asynccontextmanager
async def run_client(client: DuplexClientBase) -> AsyncIterator[None]:
    """Open a session, carry it through the body and close it.

    Raises:
        DuplexConnectionError: the server cannot be reached, refuses, or does not answer in time.
        DuplexProtocolError: the server refuses the session.
    """
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            await _open(client, nursery)
            yield
            await client.close()
        except trio.Cancelled:
            raise
        except BaseException as error:
            # Raised again below, outside of the nursery, which would wrap it.
            failure = error
        finally:
            with trio.move_on_after(GOODBYE_TIMEOUT_S, shield=True):
                await client.leave()
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _open(client: DuplexClientBase, nursery: trio.Nursery) -> None:
    with trio.move_on_after(client.handshake_timeout_s) as patience:
        await client.open_transport(nursery)
        await client.shake_hands()
    if patience.cancelled_caught:
        raise DuplexConnectionError(f"the session was not open within {client.handshake_timeout_s:g} s")


async def run_socket(
    url: str,
    headers: Sequence[tuple[bytes, bytes]],
    connect: Connect,
    *,
    task_status: trio.TaskStatus[trio_websocket.WebSocketConnection] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Carry one WebSocket until it is closed; `task_status.started` gives it after the handshake.

    Raises:
        DuplexConnectionError: it could not be opened.
    """
    address = Address.of(url)
    try:
        stream = await connect(address.host, address.port, address.tls)
    except OSError as error:
        raise connection_error(url, error) from error
    opening = OpeningStream(stream)
    try:
        async with trio.open_nursery() as nursery:
            socket = await trio_websocket.wrap_client_stream(
                nursery,
                opening,
                address.host_header,
                address.resource,
                extra_headers=list(headers),
                max_message_size=FRAME_BYTES_MAX,
                receive_buffer_size=RECEIVE_BYTES,
            )
            opening.done = True
            task_status.started(socket)
    except BaseExceptionGroup as group:
        raise connection_error(url, group) from None
    finally:
        await trio.aclose_forcefully(stream)
