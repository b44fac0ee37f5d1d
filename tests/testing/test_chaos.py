"""The network that breaks does what its plan says."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from duplex_trio.testing.chaos import ChaosPlan, ChaosProxy, Fault, How


class _Planned(ChaosPlan):
    """One fault for every connection."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(seed=0, cuts_max=1)
        self.fault = fault

    def next_fault(self) -> Fault:
        return self.fault


def test_a_seed_decides_everything() -> None:
    first, second, other = ([plan.next_fault() for _ in range(200)] for plan in map(_plan, (1, 1, 2)))
    assert first == second != other
    assert {fault.how for fault in first} == set(How)
    assert {fault.upward for fault in first} == {True, False}
    assert any(fault.delay_s for fault in first)


def _plan(seed: int) -> ChaosPlan:
    return ChaosPlan(seed=seed, cuts_max=200)


async def _echo(stream: trio.SocketStream, heard: bytearray) -> None:
    """What a server does that says back what it hears; its end is the connection's."""
    try:
        while data := await stream.receive_some(100):
            heard += data
            await stream.send_all(data)
    except trio.BrokenResourceError:
        pass


async def _received(stream: trio.SocketStream) -> bytes | None:
    """Everything until the end of the stream, or None if it does not end."""
    data = b""
    with trio.move_on_after(0.15):
        try:
            while piece := await stream.receive_some(100):
                data += piece
        except trio.BrokenResourceError:
            pass
        return data
    return None


@pytest.mark.parametrize("upward", [True, False])
@pytest.mark.parametrize("how", How)
async def test_a_connection_breaks_after_so_many_bytes(nursery: trio.Nursery, how: How, upward: bool) -> None:
    """The next one does not: all that was to break has broken."""
    heard = [bytearray(), bytearray()]
    ended = [trio.Event(), trio.Event()]
    served = iter((0, 1))

    async def serve(stream: trio.SocketStream) -> None:
        number = next(served)
        await _echo(stream, heard[number])
        ended[number].set()

    listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
    plan = _Planned(Fault(how, upward, after_bytes=5, late_s=0.05))
    proxy = ChaosProxy(listeners[0].socket.getsockname()[1], plan)
    port = await nursery.start(proxy.run)
    async with await trio.open_tcp_stream("127.0.0.1", port) as client:
        await client.send_all(b"0123456789")
        said = await _received(client)
        client_told = how not in (How.SWALLOW, How.SWALLOW_CLIENT)
        assert (said is not None) is client_told
        if said is not None:
            assert b"01234".startswith(said)
        if how not in (How.SWALLOW, How.SWALLOW_SERVER):
            await ended[0].wait()
        wanted = b"01234" if upward and how is not How.SWALLOW_SERVER else b"0123456789"
        while heard[0] != wanted:  # noqa: ASYNC110  the bytes come from another task
            assert wanted.startswith(heard[0])
            await trio.sleep(0.005)
        assert ended[0].is_set() is (how not in (How.SWALLOW, How.SWALLOW_SERVER))
    assert plan.over
    async with await trio.open_tcp_stream("127.0.0.1", port) as client:
        await client.send_all(b"0123456789" * 10)
        said = b""
        while len(said) < 100:
            said += await client.receive_some(100)
        assert said == b"0123456789" * 10
    assert proxy.connections == 2
    nursery.cancel_scope.cancel()
