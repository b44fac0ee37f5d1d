"""The proxy: a listener, and for each connection one task a direction.

    run
    `- connection xN
       |- up      from the client to the server
       `- down    from the server to the client

The first direction that has forwarded as many bytes as its connection's fault allows breaks both of them.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from functools import partial

import trio
from attrs import define, field

from duplex_trio.testing.chaos.plan import ChaosPlan, Fault, How

_CHUNK_BYTES = 4096
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing discards what is under way and resets the connection."""


class _Broken(Exception):
    """The connection's fault has come."""


@define(eq=False)
class _Flow:
    """One direction of a connection. `left` bytes are still forwarded, None is no bound; `rest` is what was
    received behind them."""

    source: trio.SocketStream
    target: trio.SocketStream
    left: int | None
    rest: bytes = b""


@define(eq=False)
class ChaosProxy:
    """Forwards connections to a server and breaks them as planned.

    Args:
        port: of the server, on this host.
        plan: what is to happen.

    Attributes:
        connections: how many there were.
    """

    port: int
    plan: ChaosPlan
    connections: int = field(default=0, init=False)

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; `task_status.started` gives the proxy's port."""
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, self._serve, 0, host="127.0.0.1"))
            task_status.started(listeners[0].socket.getsockname()[1])

    async def _serve(self, client: trio.SocketStream) -> None:
        self.connections += 1
        fault = None if self.plan.over else self.plan.next_fault()
        async with client, await trio.open_tcp_stream("127.0.0.1", self.port) as server:
            if fault is None:
                await self._carry(_Flow(client, server, None), _Flow(server, client, None))
            else:
                up, down = fault.upward, not fault.upward
                await self._carry(
                    _Flow(client, server, fault.after_bytes if up else None),
                    _Flow(server, client, fault.after_bytes if down else None),
                    fault,
                )

    async def _carry(self, up: _Flow, down: _Flow, fault: Fault | None = None) -> None:
        broken = False

        async def carry(flow: _Flow) -> None:
            nonlocal broken
            broken |= await self._forward(flow, fault)
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(carry, up)
            nursery.start_soon(carry, down)
        if broken and fault is not None:
            self.plan.cuts += 1
            await self._break(up, down, fault)

    async def _forward(self, flow: _Flow, fault: Fault | None) -> bool:
        """Forward one direction until its end, or until it is to break; returns whether that came."""
        try:
            while True:
                if flow.left == 0:
                    return True
                data = await flow.source.receive_some(_CHUNK_BYTES)
                if not data:
                    return False
                if flow.left is not None and len(data) >= flow.left:
                    assert fault is not None
                    await trio.sleep(fault.delay_s)
                    data, flow.rest = data[: flow.left], bytes(data[flow.left :])
                await flow.target.send_all(data)
                if flow.left is not None:
                    flow.left -= len(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False

    async def _break(self, up: _Flow, down: _Flow, fault: Fault) -> None:
        client, server = up.source, up.target
        match fault.how:
            case How.RESET:
                _reset(client)
                _reset(server)
            case How.END:
                await trio.lowlevel.checkpoint()
            case How.SWALLOW:
                await _swallow(client, server)
            case How.SWALLOW_CLIENT:
                _reset(server)
                await _swallow(client)
            case How.SWALLOW_SERVER:
                rest = up.rest + await _received(client)
                _reset(client)
                if fault.late_s is not None:
                    await trio.sleep(fault.late_s)
                    with suppress(trio.BrokenResourceError):
                        await server.send_all(rest)
                await _swallow(server)


async def _received(stream: trio.SocketStream) -> bytes:
    """What has come and was not taken yet."""
    with trio.move_on_after(0), suppress(trio.BrokenResourceError):
        return bytes(await stream.receive_some(_CHUNK_BYTES))
    return b""


async def _swallow(*streams: trio.SocketStream) -> None:
    """Take whatever comes and do nothing with it, until the other sides have gone."""

    async def swallow(stream: trio.SocketStream) -> None:
        try:
            while await stream.receive_some(_CHUNK_BYTES):
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async with trio.open_nursery() as nursery:
        for stream in streams:
            nursery.start_soon(swallow, stream)


def _reset(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    stream.socket.close()
