"""The scripted engine.

Each answer is a row of steps: bytes that are sent as they are, and what happens between them. It speaks over any
Trio stream, so the same script runs on a loopback port and, under a mock clock, over streams in memory (`memory`).
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

import h11
import trio
from attrs import define, field

from duplex_trio.deploy.stage import RemoteDeploy
from duplex_trio.stages.remote.facts import RemoteFacts
from duplex_trio.stages.remote.run import RemoteChatStage
from duplex_trio.testing.http_faults.answers import Cut, Hold, Stall, Step, Wait, reply
from duplex_trio.testing.http_faults.memory import engine_transport


@define(eq=False)
class Asked:
    """A request that came.

    Attributes:
        method: `GET`, ...
        path: with its query.
        headers: with lower-case names.
        body: all of it.
        gone: set when the client closed the connection before the answer was over.
        over: set when nothing happens any more for this request.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    gone: trio.Event = field(factory=trio.Event)
    over: trio.Event = field(factory=trio.Event)

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


Answer = Sequence[Step] | Callable[[Asked], Iterable[Step]]


@define(eq=False)
class FaultEngine:
    """Answers `/models`, and each other request with the next of `answers`; the last one is repeated.

    Attributes:
        answers: rows of steps, or functions of the request that make one.
        models: what `/models` lists.
        models_answers: answers to `/models` before that.
        asked: all requests for answers so far.
        probes: the requests for `/models`.
        connections: how many connections there were.
        up: whether connections are taken.
        deaf: whether connections come to nothing, without a refusal.
    """

    answers: list[Answer] = field(factory=list)
    models: list[Mapping[str, Any]] = field(factory=lambda: [{"id": "tiny", "max_model_len": 512}])
    models_answers: list[Sequence[Step]] = field(factory=list)
    asked: list[Asked] = field(factory=list)
    probes: list[Asked] = field(factory=list)
    connections: int = 0
    up: bool = True
    deaf: bool = False
    _live: set[trio.CancelScope] = field(factory=set)
    _arrived: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot)

    @property
    def live(self) -> int:
        """Requests for answers that are being answered."""
        return sum(not asked.over.is_set() for asked in self.asked)

    async def wait_asked(self, count: int) -> Asked:
        """Wait until so many requests for answers came; returns the last of these."""
        while len(self.asked) < count:
            await self._arrived.park()
        return self.asked[count - 1]

    def break_down(self) -> None:
        """Break all connections off and take no more."""
        self.up = False
        for scope in self._live:
            scope.cancel()

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Answer on one connection until it is over."""
        self.connections += 1
        with trio.CancelScope() as scope:
            self._live.add(scope)
            try:
                while self.up and (asked := await _next_request(stream)) is not None:
                    await self._answer(asked, stream)
            except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError, _CutError):
                pass
            finally:
                self._live.discard(scope)
        await trio.aclose_forcefully(stream)

    async def _answer(self, asked: Asked, stream: trio.abc.Stream) -> None:
        if asked.path.endswith("/models"):
            self.probes.append(asked)
            steps: Iterable[Step] = (
                self.models_answers.pop(0)
                if self.models_answers
                else [reply({"object": "list", "data": self.models})]
            )
        else:
            answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
            self.asked.append(asked)
            self._arrived.unpark_all()
            steps = answer(asked) if callable(answer) else answer
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_watch, asked, stream, nursery.cancel_scope)
                await _play(steps, stream)
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            rest = group.split((trio.BrokenResourceError, trio.ClosedResourceError, _CutError))[1]
            if rest is not None:
                raise rest from None
            raise _CutError from None
        finally:
            asked.over.set()
        if asked.gone.is_set():
            raise _CutError


@asynccontextmanager
async def engine_on_port(engine: FaultEngine) -> AsyncIterator[int]:
    """Serve a scripted engine on a free loopback port, which this gives."""
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, engine.serve, 0, host="127.0.0.1")
        listeners = await nursery.start(serve)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def remote_stage(
    engine: FaultEngine,
    *,
    facts: RemoteFacts | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
    **keys: Any,
) -> AsyncIterator[RemoteChatStage]:
    """A running stage that asks a scripted engine, over streams in memory.

    Args:
        engine: the engine.
        facts: what the stage learns goes there.
        environment: where its key is.
        keys: keys of the deployment's `remote`.
    """
    async with trio.open_nursery() as nursery:
        stage = RemoteChatStage(
            "llm",
            RemoteDeploy(**{"base_url": "http://engine.test/v1", **keys}),
            facts=facts,
            environment=environment,
            transport=engine_transport(engine, nursery.start_soon),
            dice=random.Random(1),  # noqa: S311  the same waits each time
        )
        await nursery.start(stage.run)
        yield stage
        nursery.cancel_scope.cancel()


class _CutError(Exception):
    pass


async def _watch(asked: Asked, stream: trio.abc.Stream, scope: trio.CancelScope) -> None:
    """The client says nothing while it is answered: what comes is the end."""
    try:
        while await stream.receive_some():
            pass
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    asked.gone.set()
    scope.cancel()


async def _next_request(stream: trio.abc.Stream) -> Asked | None:
    connection = h11.Connection(h11.SERVER)
    request: h11.Request | None = None
    body = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some()))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            headers = {name.decode(): value.decode() for name, value in request.headers}
            return Asked(request.method.decode(), request.target.decode(), headers, body)
        else:
            return None


async def _play(steps: Iterable[Step], stream: trio.abc.Stream) -> None:
    for step in steps:
        match step:
            case bytes():
                await stream.send_all(step)
            case Wait(seconds):
                await trio.sleep(seconds)
            case Hold():
                step.reached.set()
                await step.leave.wait()
            case Stall():
                await trio.sleep_forever()
            case Cut():
                raise _CutError
