"""How sessions end, and what everybody who waits is told, over either way to an engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.clients import (
    DuplexClientBase,
    DuplexClientError,
    DuplexConnectionError,
    DuplexProtocolError,
    DuplexSessionClosedError,
    InlineDuplexClient,
    SessionConfig,
)
from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.testing import scripted_omni
from duplex_trio.testing.odd_models import BreakingPipeline

Run = Callable[..., Any]
SILENT = {"heartbeat_interval_s": 1e6}
TONE = b"".join(int(9000 * (-1) ** (i // 40)).to_bytes(2, "little", signed=True) for i in range(16_000))


async def ask(client: DuplexClientBase, text: str = "hello") -> None:
    await client.create_item(text)
    await client.create_response()


async def all_that_wait(client: DuplexClientBase, found: dict[str, Any]) -> None:
    """Read, wait, and take answers until the session is over; what each of them is told goes into `found`."""

    async def read() -> None:
        found["types"] = []
        async for event in client.events():
            found["types"].append(event.type)

    async def wait() -> None:
        await client.wait_for("never")

    async def answers() -> None:
        found["answers"] = []
        async for response in client.responses():
            found["answers"].append(response)

    async def note(name: str, activity: Callable[[], Any]) -> None:
        try:
            await activity()
        except DuplexClientError as error:
            found[name] = error
        else:
            found[name] = None

    async with trio.open_nursery() as nursery:
        for name, activity in (("read", read), ("wait", wait), ("take", answers)):
            nursery.start_soon(note, name, activity)


async def end_of(client: DuplexClientBase, how: Callable[[], Any]) -> dict[str, Any]:
    """Let a session end in some way while it speaks; returns what everybody was told."""
    found: dict[str, Any] = {}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(all_that_wait, client, found)
        await wait_all_tasks_blocked()
        await ask(client)
        await client.wait_for("response.output_audio.delta")
        await how()
    with pytest.raises(DuplexClientError) as caught:
        await client.commit()
    found["send"] = caught.value
    return found


LONG = Script(otherwise=lambda _: "word " * 30)


@pytest.mark.parametrize("reason", ["client_close", "bye"])
async def test_the_client_ends_it(run_engine: Run, autojump_clock: MockClock, reason: str) -> None:
    """The answer in progress ends first; everything else is told the reason."""
    async with run_engine(LONG) as engine, engine.client() as client:

        async def close() -> None:
            await client.send({"type": "session.close", "reason": reason})

        found = await end_of(client, close)
        assert found["types"][-1] == "session.closed"
        assert found["types"].count("response.done") == 1
        assert (found["read"], found["take"]) == (None, None)
        assert isinstance(found["wait"], DuplexSessionClosedError)
        assert (found["wait"].reason, found["send"].reason) == (reason, reason)
        assert [response.status for response in found["answers"]] == ["cancelled"]


async def test_close_waits_until_it_is_over(run_engine: Run, autojump_clock: MockClock) -> None:
    async with run_engine(LONG) as engine, engine.client() as client:
        found = await end_of(client, client.close)
        assert client.closed
        assert found["types"][-1] == "session.closed"
        await client.close()


async def test_the_server_ends_it(run_engine: Run, autojump_clock: MockClock) -> None:
    async with run_engine(LONG) as engine, engine.client() as client:

        async def close() -> None:
            engine.omni.close_session(client.session_id, "kicked_out")

        found = await end_of(client, close)
        assert found["read"] is None
        assert found["send"].reason == "kicked_out"


async def test_a_drain_ends_it_when_its_time_is_over(run_engine: Run, autojump_clock: MockClock) -> None:
    async with run_engine(LONG) as engine, engine.client(**SILENT) as client:
        begin_s = trio.current_time()

        async def drain() -> None:
            await engine.omni.duplex_engine.drain(2)

        found = await end_of(client, drain)
        assert trio.current_time() - begin_s == pytest.approx(2, abs=1)
        assert found["types"][-1] == "session.closed"
        assert found["send"].reason == "server_shutdown"


async def test_an_idle_session_expires(run_engine: Run, autojump_clock: MockClock) -> None:
    limits = SessionLimits(idle_ttl_s=10.0)
    async with run_engine(limits=limits) as engine, engine.client(**SILENT) as client:
        begin_s = trio.current_time()
        found: dict[str, Any] = {}
        await all_that_wait(client, found)
        assert trio.current_time() - begin_s == pytest.approx(10, abs=0.1)
        assert found["types"][-1] == "session.expired"
        for told in ("read", "take", "wait"):
            assert isinstance(found[told], DuplexSessionClosedError)
            assert found[told].reason == "idle_ttl_expired"
        with pytest.raises(DuplexSessionClosedError, match="idle_ttl_expired"):
            await client.commit()


async def test_heartbeats_keep_it(run_engine: Run, autojump_clock: MockClock) -> None:
    limits = SessionLimits(idle_ttl_s=10.0)
    async with run_engine(limits=limits) as engine, engine.client(**SILENT) as client:
        for _ in range(5):
            await trio.sleep(8)
            await client.heartbeat()
        assert client.connected


async def test_a_session_that_breaks_says_so(run_engine: Run, autojump_clock: MockClock) -> None:
    """Nobody goes on waiting; the engine and the other sessions go on."""
    async with run_engine(LONG) as engine, engine.client() as other, engine.client() as client:
        handle = engine.omni.get_session(client.session_id)

        async def break_it() -> None:
            handle._core.state.timeline = None
            await client.append_audio(TONE)

        found = await end_of(client, break_it)
        assert "error" in found["types"]
        assert found["types"][-1] == "session.closed"
        assert isinstance(found["wait"], DuplexProtocolError)
        assert found["wait"].code == "internal_error"
        assert found["send"].reason == "internal_error"
        with other.events() as events:
            await ask(other)
            await events.wait_for("response.done")


async def test_a_session_that_cannot_even_say_goodbye(
    run_engine: Run, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end itself is told, as a socket that is closed with the session's code."""
    async with run_engine(LONG) as engine, engine.client() as client:
        handle = engine.omni.get_session(client.session_id)
        engine_lost: dict[str, Any] = {}

        def unwritable(*_: Any, **__: Any) -> None:
            raise TypeError("cannot be written")

        async def break_it() -> None:
            monkeypatch.setattr(handle._core.delivery, "deliver", unwritable)
            monkeypatch.setattr(handle._core.egress, "_deliver", unwritable)

        engine_lost = await end_of(client, break_it)
        for told in ("read", "wait", "take", "send"):
            assert isinstance(engine_lost[told], DuplexConnectionError)
            # Over a socket it is asked for the session once more, and it is gone.
            assert (engine_lost[told].close_code, engine_lost[told].code) in [
                (1011, None),
                (None, "session_resume_expired"),
            ]


def hoarse() -> Pipeline:
    return ScriptedPipeline(
        script=Script(otherwise=lambda _: "alpha bravo charlie. " * 4 + "kilo lima.", fail_speaking="kilo")
    )


async def speak(client: DuplexClientBase) -> None:
    await client.stream_pcm(TONE + TONE + bytes(128_000), chunk_ms=100)


@pytest.mark.parametrize(
    ("pipeline", "say", "reason"), [(hoarse, ask, None), (BreakingPipeline, speak, "request_cleanup")]
)
async def test_an_answer_that_fails(
    run_engine: Run,
    autojump_clock: MockClock,
    pipeline: Callable[[], Any],
    say: Callable[[Any], Any],
    reason: str | None,
) -> None:
    """The error comes first and the failed answer behind it; where the model has lost the session, that is over."""
    async with run_engine(pipeline=pipeline()) as engine, engine.client(**SILENT) as client:
        types: list[str] = []
        ended: str | None = None
        with client.events() as told, trio.move_on_after(20):
            with suppress(DuplexSessionClosedError):
                await say(client)
            try:
                async for event in told:
                    types.append(event.type)
            except DuplexSessionClosedError as error:
                ended = error.reason
        assert types.index("error") < types.index("response.done")
        assert ended == reason


async def test_who_waits_to_send_is_released_by_the_end(run_engine: Run, autojump_clock: MockClock) -> None:
    """Its command was not taken."""
    async with run_engine() as engine, engine.client() as client:
        handle = engine.omni.get_session(client.session_id)
        ended: list[DuplexClientError] = []

        async def send_forever() -> None:
            try:
                while True:
                    await client.create_item("x")
            except DuplexClientError as error:
                ended.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(send_forever)
            await trio.lowlevel.checkpoint()
            handle.close("enough")
        assert [str(error) for error in ended] == ["the session is closed (enough)"] * 3


async def test_an_engine_that_is_stopped_under_its_clients(autojump_clock: MockClock) -> None:
    """They are told as by a server that goes away."""
    found: dict[str, Any] = {}
    entered = trio.Event()
    engines = trio.CancelScope()

    async def serve(*, task_status: trio.TaskStatus[Any]) -> None:
        with engines:
            async with scripted_omni(LONG) as omni:
                task_status.started(omni)
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        omni = await nursery.start(serve)
        async with InlineDuplexClient(omni) as client:

            async def stop() -> None:
                entered.set()
                engines.cancel()

            found = await end_of(client, stop)
        assert entered.is_set()
        assert found["types"][-1] == "session.closed"
        assert found["send"].reason == "server_shutdown"
        with pytest.raises(DuplexProtocolError, match="takes no new sessions"):
            async with InlineDuplexClient(omni):
                pytest.fail("the session must not open")


async def test_an_error_of_the_opening_is_not_lost(
    run_engine: Run, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal by the model's own hook comes as it is."""

    async with run_engine() as engine:

        async def refuse(*_: Any, **__: Any) -> Any:
            raise RealtimeError("resource_exhausted", "not today", retryable=True)

        monkeypatch.setattr(engine.omni.duplex_engine.manager, "_new_state", refuse)
        with pytest.raises(DuplexProtocolError, match="not today"):
            async with engine.client(config=SessionConfig()):
                pytest.fail("the session must not open")
