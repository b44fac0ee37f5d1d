"""Opening and closing a session, and being refused one, over either way to an engine."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.clients import (
    AudioFormat,
    DuplexClientBase,
    DuplexConnectionError,
    DuplexProtocolError,
    DuplexSessionClosedError,
    SessionConfig,
)
from duplex_trio.clients.events import ErrorEvent

Run = Callable[..., Any]
NESTED = functools.reduce(lambda inner, _: {"deeper": inner}, range(120), {})


async def test_a_session_is_opened_with_the_config_and_closed(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    config = SessionConfig(instructions="be brief", metadata={"who": "me"})
    async with run_engine() as engine:
        client = engine.client(model="m", config=config)
        assert not client.connected
        async with client as entered:
            assert entered is client
            assert client.connected
            assert client.session_id is not None
            info = client.session_info
            assert (info["id"], info["model"], info["instructions"]) == (client.session_id, "m", "be brief")
            assert info["metadata"] == {"who": "me"}
            assert engine.omni.statistics().sessions == 1
            events = client.events()
        assert client.closed
        assert not client.connected
        assert [event.type async for event in events][-1] == "session.closed"
        with pytest.raises(DuplexSessionClosedError, match="client_close"):
            await client.commit()
        await client.close()
        assert [event async for event in client.events()] == []


async def test_the_engines_own_name_is_the_models_by_default(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    async with run_engine() as engine, engine.client() as client:
        assert client.session_info["model"] == engine.omni.model_name


async def test_a_client_is_one_session(run_engine: Run, autojump_clock: MockClock) -> None:
    async with run_engine() as engine:
        client = engine.client()
        with pytest.raises(RuntimeError, match="open the client first"):
            await client.commit()
        async with client:
            pass
        with pytest.raises(RuntimeError, match="one session"):
            async with client:
                pass


async def refused(client: DuplexClientBase) -> tuple[DuplexProtocolError, DuplexClientBase]:
    """Why a session does not open, and what else a subscriber is told."""
    told = client.events()
    with pytest.raises(DuplexProtocolError) as caught:
        async with client:
            pytest.fail("the session must not open")
    event = await anext(told)
    assert isinstance(event, ErrorEvent)
    assert event.raw == caught.value.raw
    assert client.closed
    return caught.value, client


@pytest.mark.parametrize(
    ("config", "code", "param"),
    [
        ({"turn_detection": {"type": "magic"}}, "unsupported_turn_detection", "session.turn_detection.type"),
        ({"modalities": ["smell"]}, "invalid_value", "session.modalities"),
        ({"input_audio": AudioFormat("pcm16", 7)}, "bad_event", "session.sample_rate_hz"),
        ({"output_audio": AudioFormat("mp3")}, "unsupported_audio_format", "session.output_audio_format"),
        ({"auto_response": True}, "invalid_duplex_runtime_config", "session.extra_body.auto_response"),
        ({"temperature": 99}, "invalid_value", "session.temperature"),
        ({"extra_body": NESTED}, "bad_event", None),
    ],
)
async def test_a_refused_session_is_a_protocol_error(
    run_both: Run, autojump_clock: MockClock, config: Any, code: str, param: str | None
) -> None:
    """It names the code, the field and the client's own event, whichever way it came."""
    found = []
    for way in run_both():
        async with way as engine:
            error, client = await refused(engine.client(config=SessionConfig(**config)))
            assert (error.event_id or "").startswith("evt_")
            found.append((error.code, error.param, error.message))
            with pytest.raises((DuplexSessionClosedError, DuplexConnectionError)):
                await client.commit()
    assert found[0] == found[1]
    assert found[0][:2] == (code, param)


async def test_a_full_engine_refuses_and_takes_the_next_one_when_there_is_room(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    async with run_engine(max_sessions=1) as engine:
        async with engine.client():
            error, _ = await refused(engine.client())
            assert error.code == "resource_exhausted"
        await engine.settle()
        async with engine.client():
            pass


async def test_an_engine_that_is_on_its_way_out_refuses(run_engine: Run, autojump_clock: MockClock) -> None:
    async with run_engine() as engine:
        await engine.omni.duplex_engine.drain(0)
        error, _ = await refused(engine.client())
        assert error.code == "resource_exhausted"


async def test_the_body_gets_its_own_exception_back_and_the_engine_its_slot(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    async with run_engine(max_sessions=1) as engine:
        with pytest.raises(KeyError, match="mine"):  # noqa: PT012  the client hands on what its block raises
            async with engine.client() as client:
                events = client.events()
                raise KeyError("mine")
        await engine.settle()
        assert client.closed
        assert "session.expired" not in [event.type async for event in events]


async def test_leaving_a_cancelled_body_takes_a_second_at_most(
    run_engine: Run, autojump_clock: MockClock
) -> None:
    async with run_engine() as engine:
        with trio.CancelScope() as scope:
            async with engine.client() as client:
                await client.create_item("hello")
                await client.create_response()
                scope.cancel()
                begin_s = trio.current_time()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        assert trio.current_time() - begin_s <= 1.1
        await engine.settle()


async def test_an_opening_that_takes_too_long_is_given_up(
    run_engine: Run, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opened it is told so, or was cancelled, and nothing of the session is left."""
    async with run_engine(max_sessions=1) as engine:
        open_session = engine.omni.open_session

        async def open_late(**options: Any) -> Any:
            await trio.sleep(5)
            return await open_session(**options)

        monkeypatch.setattr(engine.omni, "open_session", open_late)
        with pytest.raises(DuplexConnectionError, match="not open within 1 s"):
            async with engine.client(handshake_timeout_s=1):
                pytest.fail("the session must not open")
        with trio.move_on_after(1) as patience:
            async with engine.client():
                pytest.fail("the session must not open")
        assert patience.cancelled_caught
        monkeypatch.undo()
        await engine.settle()
        async with engine.client() as client:
            assert client.connected


@pytest.mark.parametrize("handshake_timeout_s", [0, -1])
async def test_a_handshake_needs_time(
    run_engine: Run, autojump_clock: MockClock, handshake_timeout_s: float
) -> None:
    async with run_engine() as engine:
        with pytest.raises(ValueError, match="handshake_timeout_s must be positive"):
            engine.client(handshake_timeout_s=handshake_timeout_s)
