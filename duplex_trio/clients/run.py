"""The tasks of a client.

```
client                       run_client    the body of `async with DuplexClient(...)`, or another client
├─ playback                  acknowledger  what a listener has heard, to the server; nothing without a cursor
└─ session                   run_session   one connection after another
   ├─ (trio-websocket's)                   frames
   ├─ reader                 websocket     messages to `DuplexClientBase.dispatch`; its end is the connection's
   ├─ writer                 websocket     whole messages, one at a time, whoever is cancelled
   ├─ heartbeat              websocket     ends the connection when nothing comes back
   └─ acknowledger           websocket     tells the server what has come
```

Below a client in the same process there is, in place of that session, `watch` (`inline`), which sees the
session's end; its events come from the engine's own tasks.

A body that is cancelled does not take the tasks with it: they have a second to say goodbye, so that a server
does not wait for a client that has left for good.

A body that raises gets its own exception back, not a group of one. The tasks themselves raise nothing on
purpose: how a session ends is told to its subscribers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio
import trio_websocket

from duplex_trio.clients.errors import DuplexConnectionError
from duplex_trio.clients.transport import (
    FRAME_BYTES_MAX,
    RECEIVE_BYTES,
    Address,
    OpeningStream,
    connection_error,
)

if TYPE_CHECKING:
    from duplex_trio.clients.base import DuplexClientBase
    from duplex_trio.clients.websocket import DuplexClient

GOODBYE_TIMEOUT_S = 1.0
"""How long leaving may take when nobody waits for it: a body that raised or was cancelled."""


@asynccontextmanager
async def connected(
    begin: Callable[[trio.Nursery], Awaitable[None]],
    end: Callable[[], Awaitable[None]],
    leave: Callable[[], Awaitable[None]],
) -> AsyncIterator[None]:
    """Carry a connection through the body of an `async with`; what the body raises comes out as it is.

    Args:
        begin: opens the connection, whose tasks live in the nursery.
        end: says goodbye, after a body that has come to its end.
        leave: closes it in any case, in `GOODBYE_TIMEOUT_S`.
    """
    failure: BaseException | None = None
    async with trio.open_nursery() as carrier:
        nursery = await carrier.start(_carry)
        # Not before it has started: who is cancelled meanwhile would wait for it forever.
        nursery.cancel_scope.shield = True
        try:
            await begin(nursery)
            yield
            await end()
        except trio.Cancelled:
            raise
        except BaseException as error:
            # Raised again below, outside of the nursery, which would wrap it.
            failure = error
        finally:
            try:
                with trio.move_on_after(GOODBYE_TIMEOUT_S, shield=True):
                    await leave()
            finally:
                # Nobody else can cancel what is shielded.
                nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _carry(*, task_status: trio.TaskStatus[trio.Nursery] = trio.TASK_STATUS_IGNORED) -> None:
    """Keep a nursery that can be shielded from who cancels the body: its tasks have to say goodbye."""
    async with trio.open_nursery() as nursery:
        task_status.started(nursery)
        await trio.sleep_forever()


def run_client(client: DuplexClientBase) -> AbstractAsyncContextManager[None]:
    """Open a session, carry it through the body and close it.

    Raises:
        DuplexConnectionError: the server cannot be reached, refuses, or does not answer in time.
        DuplexProtocolError: the server refuses the session.
    """
    return connected(partial(_open, client), client.close, client.leave)


async def _open(client: DuplexClientBase, nursery: trio.Nursery) -> None:
    with trio.move_on_after(client.handshake_timeout_s) as patience:
        await client.open_transport(nursery)
        await client.shake_hands()
    if patience.cancelled_caught:
        raise DuplexConnectionError(f"the session was not open within {client.handshake_timeout_s:g} s")
    nursery.start_soon(client.acknowledge_playback, name="playback")


async def run_session(
    client: DuplexClient, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Carry a session over one connection after another until it is over.

    Raises:
        DuplexConnectionError: the first connection could not be made.
    """
    error = await _run_connection(client, task_status)
    while client.lose(error):
        await client.pause()
        with client.attempt_scope() as patience:
            try:
                error = await _run_connection(client)
            except DuplexConnectionError as failed:
                error = failed
        if patience.cancelled_caught:
            error = DuplexConnectionError(
                f"the session was not there within {client.reconnect.attempt_timeout_s:g} s"
            )


async def _run_connection(
    client: DuplexClient, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> DuplexConnectionError:
    """Carry one WebSocket until it ends, and return why it did; `task_status.started` says that it is open.

    Raises:
        DuplexConnectionError: it could not be opened.
    """
    address = Address.of(client.url)
    try:
        stream = await client.connect(address.host, address.port, address.tls)
    except (OSError, UnicodeError) as error:
        raise connection_error(client.url, error) from error
    opening = OpeningStream(stream)
    ends: list[DuplexConnectionError] = []

    async def until_lost(watch: Callable[[], Awaitable[DuplexConnectionError]]) -> None:
        ends.append(await watch())
        nursery.cancel_scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            socket = await trio_websocket.wrap_client_stream(
                nursery,
                opening,
                address.host_header,
                address.resource,
                extra_headers=client.headers,
                max_message_size=FRAME_BYTES_MAX,
                receive_buffer_size=RECEIVE_BYTES,
            )
            opening.done = True
            client.attach(socket)
            nursery.start_soon(until_lost, partial(client.read, socket), name="reader")
            nursery.start_soon(client.write, socket, name="writer")
            nursery.start_soon(until_lost, client.beat, name="heartbeat")
            nursery.start_soon(client.acknowledge, name="acknowledger")
            task_status.started()
    except BaseExceptionGroup as group:
        raise connection_error(client.url, group) from None
    finally:
        await trio.aclose_forcefully(stream)
    return ends[0]
