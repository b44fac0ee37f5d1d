"""The way to a scripted engine: streams in memory that hold nothing back, so that whoever sends waits until the other
side reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import httpx
import trio
import trio.testing

from duplex_trio.testing.memory.http import http_transport

if TYPE_CHECKING:
    from duplex_trio.testing.http_faults.run import FaultEngine

KEEPALIVE_S = 4.0
"""How long a connection may be idle."""


def engine_transport(engine: FaultEngine, start_soon: Callable[..., None]) -> httpx.AsyncHTTPTransport:
    """A transport whose every connection leads to a scripted engine.

    Args:
        engine: the engine.
        start_soon: starts what serves a connection.
    """

    async def connect(_host: str, _port: int, _tls: bool) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        if engine.deaf:
            await trio.sleep_forever()
        if not engine.up:
            raise ConnectionRefusedError("connection refused")
        ours, theirs = trio.testing.lockstep_stream_pair()
        start_soon(engine.serve, theirs)
        return ours

    return http_transport(connect, keepalive_s=KEEPALIVE_S)
