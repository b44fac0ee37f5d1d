"""What a port says before its model is ready, on both WebSocket paths: all of it over the wire."""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
import structlog
import trio
import trio.lowlevel

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.workers import ScriptedLlm
from duplex_trio.serving.address import ServerAddress
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import run_server
from duplex_trio.stages.errors import StageLoadError
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing.raw_websocket import RawWebSocket, upgrade_request

pytestmark = pytest.mark.e2e


class HeldLlm(ScriptedLlm):
    """Loads when the test lets it, and not at all if the test says so."""

    def __init__(self, script: Any, let: threading.Event, faults: list[Exception]) -> None:
        super().__init__(script)
        self._let = let
        self._faults = faults

    def load(self) -> None:
        self._let.wait(60)
        if self._faults:
            raise self._faults[0]


class HeldPipeline(ScriptedPipeline):
    """One of its stages takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()
        self.faults: list[Exception] = []

    def build_worker(self, stage_id: int) -> StageWorker:
        if stage_id == 1:
            return HeldLlm(self.script, self.let, self.faults)
        return super().build_worker(stage_id)


class Starting:
    """A server that is being started, and who asks it."""

    def __init__(self, pipeline: HeldPipeline) -> None:
        self.pipeline = pipeline
        self.port = 0
        self.ready = trio.Event()

    def started(self, value: ServerAddress | None = None) -> None:
        """Play the task status."""
        self.ready.set()

    async def ask(self, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], Any]:
        """One request on a connection of its own."""
        client = await RawWebSocket.open(self.port)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        await client.send(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{lines}Connection: close\r\n\r\n".encode())
        status, head = await client.response_head()
        body = await client.read(int(head["content-length"])) if method != "HEAD" else None
        assert await client.at_end()
        await client.aclose()
        return status, head, None if body is None else orjson.loads(body)

    async def upgrade(
        self, target: str = "/v1/realtime", headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], Any]:
        """Ask for a WebSocket that is refused."""
        client = await RawWebSocket.open(self.port)
        await client.send(upgrade_request(target, headers))
        status, head = await client.response_head()
        body = await client.read(int(head["content-length"]))
        await client.aclose()
        return status, head, orjson.loads(body or b"")


Start = Callable[..., AbstractAsyncContextManager[Starting]]


@pytest.fixture(params=["native", "asgi"])
def start(request: pytest.FixtureRequest) -> Start:
    """Start a server whose model waits to be let; every test runs on both WebSocket paths."""

    @asynccontextmanager
    async def started(**options: Any) -> AsyncIterator[Starting]:
        here = Starting(HeldPipeline())
        engine = partial(DuplexOmni, here.pipeline, max_sessions=2, warm_up=False)
        settings = ServeOptions(port=0, ws=request.param, **options)
        with structlog.testing.capture_logs() as lines:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(run_server, engine, settings, task_status=here))
                with trio.fail_after(10):
                    while not (urls := [line["url"] for line in lines if line["event"] == "server.loading"]):
                        await trio.lowlevel.checkpoint()
                here.port = urlsplit(urls[0]).port or 0
                try:
                    yield here
                finally:
                    here.pipeline.let.set()
                    nursery.cancel_scope.cancel()

    return started


LOADING = {
    "error": {
        "message": "the model is being loaded; try again soon",
        "type": "server_error",
        "param": None,
        "code": "loading",
    }
}


async def test_health_tells_how_far_loading_is(start: Start) -> None:
    async with start() as here:
        with trio.fail_after(10):
            while True:
                status, _, health = await here.ask("GET", "/health")
                assert (status, health["status"]) == (503, "loading")
                states = {stage["name"]: stage["state"] for stage in health["stages"]}
                if states == {"asr": "ready", "llm": "loading", "tts": "ready", "vad": "ready"}:
                    break
        assert (health["model"], health["session_mode"]) == ("scripted", "duplex")
        assert "sessions" not in health
        here.pipeline.let.set()
        await here.ready.wait()
        status, _, health = await here.ask("GET", "/health")
        assert (status, health["status"]) == (200, "ready")
        assert (health["sessions"], health["max_sessions"], health["chats"]) == (0, 2, 0)
        assert {stage["state"] for stage in health["stages"]} == {"ready"}
        assert all(replica["load_s"] >= 0 for stage in health["stages"] for replica in stage["replicas"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("GET", "/v1/realtime/capabilities"),
        ("GET", "/metrics"),
        ("POST", "/v1/chat/completions"),
        ("GET", "/v1/realtime"),
        ("GET", "/nowhere"),
    ],
)
async def test_every_other_route_asks_to_come_again(start: Start, method: str, path: str) -> None:
    async with start() as here:
        status, head, body = await here.ask(method, path)
        assert (status, head["retry-after"], body) == (503, "5", LOADING)


@pytest.mark.parametrize("target", ["/v1/realtime?model=m", "/v1/realtime?duplex=1", "/v1/duplex"])
async def test_a_websocket_is_refused_before_the_upgrade(start: Start, target: str) -> None:
    async with start() as here:
        status, head, body = await here.upgrade(target)
        assert (status, head["retry-after"], body) == (503, "5", LOADING)
        here.pipeline.let.set()
        await here.ready.wait()
        client = await RawWebSocket.open(here.port)
        await client.send(upgrade_request(target))
        assert (await client.response_head())[0] == 101
        await client.aclose()


async def test_who_may_not_come_in_learns_nothing_else(start: Start) -> None:
    async with start(api_keys=("sk-1",)) as here:
        assert (await here.upgrade())[0] == 401
        assert (await here.ask("GET", "/v1/models"))[0] == 401
        status, _, health = await here.ask("GET", "/health")
        assert (status, health) == (503, {"status": "loading"})
        _, _, detailed = await here.ask("GET", "/health", Authorization="Bearer sk-1")
        assert {"status", "model", "session_mode", "uptime_s", "stages"} == set(detailed)
        assert (await here.upgrade(headers={"Authorization": "Bearer sk-1"}))[0] == 503


async def test_a_load_balancer_may_ask_for_the_head(start: Start) -> None:
    async with start() as here:
        assert (await here.ask("HEAD", "/health"))[0] == 503
        here.pipeline.let.set()
        await here.ready.wait()
        status, head, _ = await here.ask("HEAD", "/health")
        assert (status, head["content-type"]) == (200, "application/json")
        assert int(head["content-length"]) > 0


async def test_a_model_that_does_not_load_closes_the_port() -> None:
    pipeline = HeldPipeline()
    pipeline.faults.append(OSError("the file is cut off"))
    pipeline.let.set()
    with structlog.testing.capture_logs() as lines, pytest.raises(BaseExceptionGroup) as raised:
        await run_server(lambda: DuplexOmni(pipeline, warm_up=False), ServeOptions(port=0))
    (fault,) = leaves(raised.value)
    assert isinstance(fault, StageLoadError)
    assert "'llm' could not be loaded: the file is cut off" in str(fault)
    (url,) = [line["url"] for line in lines if line["event"] == "server.loading"]
    with pytest.raises(OSError, match="connect"):
        await RawWebSocket.open(urlsplit(url).port or 0)


def leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
