"""The client for programs without Trio: blocking calls, plain iterators, the same errors, and ends of every kind."""

from __future__ import annotations

import asyncio
import base64
import inspect
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio

from duplex_trio.clients import (
    DuplexClient,
    DuplexClientBase,
    DuplexConnectionError,
    DuplexProtocolError,
    DuplexSessionClosedError,
    InlineDuplexClient,
    ResponseHandle,
    SessionConfig,
    SyncDuplexClient,
)
from duplex_trio.clients.sync import SyncResponse
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script, tool_call
from duplex_trio.testing.server_process import ServedPort, server_process

SILENCE = b"\0\0" * 320


class Engine:
    """An engine in the client's own thread, and what was left of it."""

    def __init__(self, script: Script | None = None) -> None:
        self.omni = DuplexOmni(ScriptedPipeline(script=script), max_sessions=1, warm_up=False)
        self.left: tuple[int, int] | None = None

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[DuplexClientBase]:
        async with self.omni.running():
            try:
                async with InlineDuplexClient(self.omni) as client:
                    yield client
            finally:
                statistics = self.omni.statistics()
                self.left = (statistics.sessions, statistics.live_requests)


@pytest.fixture
def engine() -> Engine:
    return Engine(Script(replies={"hello": "one two three"}, word_ms=20))


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name == "duplex-client"}


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert threads() == set()


def test_a_turn_is_held_with_blocking_calls(engine: Engine) -> None:
    with SyncDuplexClient.carrying(engine) as client:
        assert client.session_id
        assert client.session_info["model"] == "scripted"
        responses = client.responses()
        client.create_item("hello")
        client.create_response()
        response = next(responses)
        sound = b"".join(response.audio())
        assert response.wait(timeout_s=20).type == "response.done"
        assert (response.transcript, response.decision, response.status) == (
            "one two three",
            "speak",
            "completed",
        )
        assert (response.encoding, response.sample_rate_hz) == ("pcm16", 24_000)
        assert len(sound) == 3 * 20 * 48
        assert response.finished
        assert not response.cut
        assert response.played_ms == 60
        assert response.item_id
        assert response.created_event
        assert response.created_event.response_id == response.response_id
        assert response.done_event is response.wait()
        assert client.connected
        assert client.config == SessionConfig()
        assert (client.model, client.playback) == (None, None)
    assert client.closed
    assert engine.left == (0, 0)


def test_events_are_a_plain_iterator(engine: Engine) -> None:
    with SyncDuplexClient.carrying(engine) as client, client.events() as events:
        client.create_item("hello")
        client.create_response(output_modalities=["text"])
        said = ""
        for event in events:
            if event.type == "response.output_text.delta":
                said += event.raw["delta"]
            if event.type == "response.done":
                break
        assert said == "one two three"
        client.update(instructions="Be brief.")
        assert events.wait_for("session.updated", timeout_s=20)
        assert client.session_info["instructions"] == "Be brief."


def test_a_function_is_called_and_answered() -> None:
    script = Script(
        replies={"hello": tool_call("look_up", city="Paris"), "sunny": "It is sunny."}, word_ms=20
    )
    with SyncDuplexClient.carrying(Engine(script)) as client:
        tool = {"type": "function", "name": "look_up", "parameters": {"type": "object"}}
        client.update(tools=[tool])
        responses = client.responses()
        client.create_item("hello")
        client.create_response()
        called = next(responses)
        called.wait(timeout_s=20)
        (call,) = called.function_calls
        client.send_function_output(call.call_id, "sunny")
        client.create_response()
        answer = next(responses)
        answer.wait(timeout_s=20)
        assert answer.transcript == "It is sunny."


def test_two_threads_use_one_client(engine: Engine) -> None:
    """One speaks in real time while the other reads."""
    with SyncDuplexClient.carrying(engine) as client:
        seen: list[str] = []
        events = client.events()

        def read() -> None:
            for event in events:
                seen.append(event.type)

        reader = threading.Thread(target=read)
        reader.start()
        assert client.stream_pcm(SILENCE * 10, chunk_ms=20) == 10
        client.heartbeat()
        client.close()
        reader.join(timeout=20)
        assert not reader.is_alive()
        assert seen[-1] == "session.closed"


def test_errors_are_the_same_and_the_session_stays(engine: Engine) -> None:
    with SyncDuplexClient.carrying(engine) as client:
        with client.events() as events:
            client.retrieve_item("nothing")
            with pytest.raises(DuplexProtocolError) as raised:
                events.wait_for("conversation.item.retrieved", timeout_s=20)
        assert raised.value.code == "item_retrieve_invalid_item_id"
        with pytest.raises(ValueError, match="no whole samples"):
            client.append_audio(b"\0")
        with pytest.raises(TimeoutError, match=r"not within 0\.05 s"):
            client.wait_for("response.done", timeout_s=0.05)
        client.heartbeat()


def test_an_exception_in_the_block_comes_out_and_the_session_is_closed(engine: Engine) -> None:
    def body() -> None:
        with SyncDuplexClient.carrying(engine) as client:
            client.create_item("hello")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    assert engine.left == (0, 0)


def test_what_is_called_too_early_or_too_late_is_said(engine: Engine) -> None:
    client = SyncDuplexClient.carrying(engine)
    with pytest.raises(RuntimeError, match="open the client first"):
        client.send({"type": "session.heartbeat"})
    with client:
        responses = client.responses()
    with pytest.raises(DuplexSessionClosedError):
        client.heartbeat()
    with pytest.raises((DuplexSessionClosedError, StopIteration)):
        next(responses)
    client.close()
    with pytest.raises(RuntimeError, match="a client is one session"), client:
        pass


def test_close_ends_the_session_before_the_block_does(engine: Engine) -> None:
    with SyncDuplexClient.carrying(engine) as client:
        events = client.events()
        client.close()
        assert [event.type for event in events][-1] == "session.closed"
        assert client.closed
        with pytest.raises(DuplexSessionClosedError):
            client.heartbeat()


def test_a_server_that_is_not_there_is_a_connection_error() -> None:
    with pytest.raises(DuplexConnectionError, match="cannot connect"), SyncDuplexClient("ws://127.0.0.1:1"):
        pass


def test_what_the_options_cannot_be_is_said_at_once() -> None:
    with pytest.raises(ValueError, match="not a ws, wss, http or https URL"):
        SyncDuplexClient("ftp://host")


def test_ctrl_c_ends_what_is_waited_for_and_the_session(engine: Engine) -> None:
    def interrupt() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def body() -> None:
        with SyncDuplexClient.carrying(engine) as client:
            threading.Timer(0.2, interrupt).start()
            client.wait_for("response.done")

    with pytest.raises(KeyboardInterrupt):
        body()
    assert engine.left == (0, 0)


async def test_it_works_where_another_trio_runs_in_this_thread(engine: Engine) -> None:
    """A blocking call inside of Trio belongs into a thread."""

    def talk() -> str:
        with SyncDuplexClient.carrying(engine) as client:
            client.create_item("hello")
            client.create_response()
            response = next(client.responses())
            response.wait(timeout_s=20)
            return response.transcript

    assert await trio.to_thread.run_sync(talk) == "one two three"


def test_it_works_inside_of_asyncio(engine: Engine) -> None:
    """As in a notebook, whose cells run in its event loop."""

    async def cell() -> str:
        with SyncDuplexClient.carrying(engine) as client:
            responses = client.responses()
            client.create_item("hello")
            client.create_response()
            response = next(responses)
            response.wait(timeout_s=20)
            return response.transcript

    assert asyncio.run(cell()) == "one two three"


def public(thing: object, *internal: str) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")} - {*internal}


def test_all_of_the_other_client_and_its_answers_is_there() -> None:
    called_by_tasks = ("acknowledge_playback", "shake_hands", "open_transport", "leave", "dispatch", "end")
    client = DuplexClient("ws://host")
    own = ("url", "reconnect", "heartbeat_interval_s", "handshake_timeout_s", "headers", "connect")
    for name in public(DuplexClientBase, *called_by_tasks) | public(client, *own, *public(DuplexClient)):
        mine = getattr(SyncDuplexClient, name)
        assert mine.__doc__, name
    assert public(ResponseHandle("r"), "next_piece", "take", "listened", "end") <= public(SyncResponse)
    mine, other = SyncDuplexClient.events, DuplexClientBase.events
    assert list(inspect.signature(mine).parameters) == list(inspect.signature(other).parameters)


@pytest.fixture(scope="module")
def server() -> Iterator[ServedPort]:
    with server_process("--deploy", "scripted", start_timeout_s=60) as running:
        yield running


@pytest.mark.e2e
@pytest.mark.slow
def test_a_script_talks_with_a_server(server: ServedPort) -> None:
    config = SessionConfig(turn_detection=None)
    with SyncDuplexClient(server.ws_url, config=config) as client:
        responses = client.responses()
        client.stream_pcm(SILENCE * 25, realtime=False)
        client.commit(create_response=True)
        client.create_item("hello")
        client.create_response()
        answer = next(one for one in responses if one.decision == "speak")
        answer.wait(timeout_s=30)
        assert answer.transcript == "You said: hello"
        assert base64.b64encode(b"".join(answer.audio()))
