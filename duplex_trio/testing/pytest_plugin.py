"""Fixtures for pytest, found by its entry point: a scripted model, a session, a server, a client, on a mock clock.

They need pytest-trio, and tests that are Trio's: `trio_mode = true` in pytest's configuration, or the marker
`@pytest.mark.trio`. Nothing is imported and nothing happens before a test asks for one of them.

Each stands on the ones before it, and a test or a `conftest.py` may replace any of them by one of its own name:
`duplex_pipeline` by a model of yours, `duplex_config` by the settings of a session.

When a test that uses `duplex_session` or `duplex_client` fails, the report has a section with the timeline of its
conversation.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from trio.testing import MockClock

    from duplex_trio.clients.config import SessionConfig
    from duplex_trio.entrypoints.duplex_omni import DuplexOmni
    from duplex_trio.models.scripted.script import Script
    from duplex_trio.pipelines.pipeline import Pipeline
    from duplex_trio.testing.breakable import BreakableClient
    from duplex_trio.testing.memory.run import MemoryServer
    from duplex_trio.testing.returning import ReturningTalker

SECTION = "duplex conversation"
_ACCOUNTS = pytest.StashKey[list[Any]]()
"""What happened in the sessions of a test, the latest conversation last."""


@pytest.fixture
def duplex_script() -> Script:
    """What the scripted model hears and says, to be filled: `duplex_script.replies = {"hello": "hello yourself"}`.

    Until then the model says back what it hears. See `duplex_trio.testing.Script`.
    """
    from duplex_trio.testing import Script

    return Script()


@pytest.fixture
def duplex_pipeline(duplex_script: Script) -> Pipeline:
    """The model: the scripted one with `duplex_script`. Replace it by your own."""
    from duplex_trio.testing import ScriptedPipeline

    return ScriptedPipeline(script=duplex_script)


@pytest.fixture
def duplex_config() -> SessionConfig | None:
    """The settings of `duplex_session` and `duplex_client`, a `SessionConfig`; None leaves them to the model."""
    return None


@pytest.fixture
def duplex_clock(request: pytest.FixtureRequest) -> MockClock:
    """The clock of a test that uses any of these: it jumps to the next thing that happens, so that waiting takes no
    time and times are exact.

    `trio.current_time()` tells it. A test that asks for `mock_clock` or `autojump_clock` itself runs on that.
    """
    import trio
    from trio.testing import MockClock

    ours = MockClock(autojump_threshold=0)

    def run(function: Any, *, clock: trio.abc.Clock | None = None, **options: Any) -> Any:
        return trio.run(function, clock=ours if clock is None else clock, **options)

    # pytest-trio gives a test the clocks that are among its own arguments, and not those behind them.
    request.node.add_marker(pytest.mark.trio(run=run), append=False)
    return ours


@pytest.fixture
async def duplex_omni(duplex_clock: MockClock, duplex_pipeline: Pipeline) -> AsyncIterator[DuplexOmni]:
    """An engine with `duplex_pipeline` that runs on a mock clock: waiting takes no time.

    Every step of the model takes 20 ms of that clock.
    """
    from duplex_trio.testing import scripted_omni

    async with scripted_omni(pipeline=duplex_pipeline) as omni:
        yield omni


@pytest.fixture
async def duplex_session(
    request: pytest.FixtureRequest, duplex_omni: DuplexOmni, duplex_config: SessionConfig | None
) -> AsyncIterator[ReturningTalker]:
    """A session with `duplex_omni`, without a server: `await script().say("hello").play(duplex_session)`.

    At the end of the test it is closed, and must have kept the rules of every session.
    """
    from duplex_trio.testing import open_returning
    from duplex_trio.testing.dialogue.caller import script_of
    from duplex_trio.testing.dialogue.run import watched
    from duplex_trio.testing.run import close_talkers

    patch = None if duplex_config is None else duplex_config.to_session_payload(None)
    session = await open_returning(duplex_omni, patch=patch)
    session.script = script_of(duplex_omni)
    request.node.stash[_ACCOUNTS] = session.accounts
    async with watched(session):
        yield session
    await close_talkers(session)


@pytest.fixture
async def duplex_server(duplex_omni: DuplexOmni) -> AsyncIterator[MemoryServer]:
    """The whole server in memory with `duplex_omni`: `DuplexClient(duplex_server.url, connect=duplex_server.connect)`.

    `duplex_server.http_client()` is an HTTP client for its other routes.
    """
    from duplex_trio.testing import serve_in_memory

    async with serve_in_memory(duplex_omni) as server:
        yield server


@pytest.fixture
async def duplex_client(
    request: pytest.FixtureRequest,
    duplex_omni: DuplexOmni,
    duplex_server: MemoryServer,
    duplex_config: SessionConfig | None,
) -> AsyncIterator[BreakableClient]:
    """A `DuplexClient` of `duplex_server`, whose network can be cut: `client.cut()` and `client.mend()`.

    `await script().say("hello").drop().wait(5).resume().expects_reply().play(duplex_client)`
    """
    from duplex_trio.testing import BreakableClient
    from duplex_trio.testing.dialogue.caller import script_of
    from duplex_trio.testing.dialogue.run import watched

    client = BreakableClient(
        duplex_server.url,
        connect=duplex_server.connect,
        config=duplex_config,
        script=script_of(duplex_omni),
    )
    request.node.stash[_ACCOUNTS] = client.accounts
    async with client, watched(client):
        yield client


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show a conversation that went wrong as it is, without the task tree around it; any other failure with it."""
    told = _told(call.excinfo)
    if told is not None:
        # pytest-trio raises a group of one, in which a text with lines of its own is hard to read.
        call.excinfo = pytest.ExceptionInfo.from_exception(told)
    report = yield
    accounts = item.stash.get(_ACCOUNTS, [])
    if call.when == "call" and report.failed and told is None and accounts:
        from duplex_trio.testing.dialogue.timeline import whole_timeline

        report.sections.append((SECTION, whole_timeline(accounts[-1])))
    return report


def _told(found: pytest.ExceptionInfo[BaseException] | None) -> BaseException | None:
    """The failed conversation among what was raised, if it is alone."""
    errors = sys.modules.get("duplex_trio.testing.dialogue.errors")
    if found is None or errors is None:
        return None
    leaves = list(_leaves(found.value))
    return leaves[0] if len(leaves) == 1 and isinstance(leaves[0], errors.ConversationError) else None


def _leaves(error: BaseException) -> Iterator[Any]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
