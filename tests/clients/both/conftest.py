"""One engine and clients of it, over either way to it: in the same program, or through the real server in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import attrs
import pytest
import structlog
from trio.testing import wait_all_tasks_blocked

from duplex_trio.clients import DuplexClient, DuplexClientBase, InlineDuplexClient
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.script import Script
from duplex_trio.testing import MemoryServer, scripted_omni, serve_in_memory

WAYS = ("inline", "websocket")


@attrs.frozen
class Engine:
    """A running engine, and how clients come to it."""

    omni: DuplexOmni
    server: MemoryServer | None

    def client(self, **options: Any) -> DuplexClientBase:
        """A client that is not open yet."""
        if self.server is None:
            options.pop("heartbeat_interval_s", None)
            return InlineDuplexClient(self.omni, **options)
        return DuplexClient(self.server.url, connect=self.server.connect, **options)

    async def settle(self) -> None:
        """Wait until clients that have left are gone for the server too, and see that they left nothing."""
        if self.server is not None:
            await self.server.closed()
            # A session whose client has gone ends in the same moment, behind its connection.
            await wait_all_tasks_blocked()
        statistics = self.omni.statistics()
        assert (statistics.sessions, statistics.live_requests) == (0, 0)


@asynccontextmanager
async def running(way: str, script: Script | None = None, **options: Any) -> AsyncIterator[Engine]:
    """Run an engine until the block ends; nothing of its clients may be left by then."""
    async with scripted_omni(script, **options) as omni:
        if way == "inline":
            yield (engine := Engine(omni, None))
            await engine.settle()
        else:
            async with serve_in_memory(omni) as server:
                yield (engine := Engine(omni, server))
                await engine.settle()


@pytest.fixture(autouse=True)
def brief_log() -> None:
    """Faults are provoked in here, and their tracebacks take seconds to draw."""
    structlog.configure(processors=[structlog.processors.KeyValueRenderer()])


Run = Callable[..., AbstractAsyncContextManager[Engine]]


@pytest.fixture(params=WAYS)
def run_engine(request: pytest.FixtureRequest) -> Run:
    """`async with run_engine(script, **options_of_scripted_omni) as engine: ... engine.client(**options)`."""

    def run(script: Script | None = None, **options: Any) -> AbstractAsyncContextManager[Engine]:
        return running(request.param, script, **options)

    return run


@pytest.fixture
def run_both() -> Callable[..., list[AbstractAsyncContextManager[Engine]]]:
    """The same, both ways at once, for tests that compare them."""

    def run(*arguments: Any, **options: Any) -> list[AbstractAsyncContextManager[Engine]]:
        return [running(way, *arguments, **options) for way in WAYS]

    return run
