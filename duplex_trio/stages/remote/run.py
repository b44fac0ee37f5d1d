"""A language model on an engine elsewhere, as a `Stage`.

Theory of operation. Each request is a task in the stage's nursery: it waits for the prompt, for one of
`max_connections` places, and then for the engine's stream, which it hands on piece by piece. It reads on only while
its consumer has room, so that the engine's own flow control holds the engine back. Aborting a request cancels its
task, which closes the connection; vLLM stops an answer whose client is gone.

The stage asks the engine for its models before it starts, and waits while there is no engine yet (`loading`). Later it
asks again whenever nothing has been heard for some time, or a request could not get through (`presence`). An engine
that gives no answer to several questions is taken for dead: all requests fail with `engine_dead` and `run` returns.
Whoever owns the stage makes another one, which waits for the engine in the same way.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from typing import Any

import httpx
import structlog
import trio

from duplex_trio.deploy.stage import RemoteDeploy
from duplex_trio.stages.lanes import Open, Submit
from duplex_trio.stages.port import (
    UNLIMITED,
    OutputSink,
    Stage,
    StageFailed,
    StageOutput,
    StageRequest,
)
from duplex_trio.stages.remote.answer import RemoteAnswer
from duplex_trio.stages.remote.body import request_body
from duplex_trio.stages.remote.client import RemoteClient, as_faults
from duplex_trio.stages.remote.events import EventReader, EventTooLongError
from duplex_trio.stages.remote.facts import RemoteFacts
from duplex_trio.stages.remote.faults import RemoteFault, of_words
from duplex_trio.stages.remote.loading import wait_for_model
from duplex_trio.stages.remote.pieces import EngineSaidError, PieceError
from duplex_trio.stages.remote.presence import Presence
from duplex_trio.stages.remote.retries import LONGEST_WAIT_S, Backoff
from duplex_trio.stages.remote.stream import RemoteStream
from duplex_trio.stages.streams import StreamsStage
from duplex_trio.stages.thread_stream import ThreadStream
from duplex_trio.stages.units import ChatPrompt, TextDelta
from duplex_trio.stages.worker import UnitRefused

log = structlog.get_logger("duplex_trio.stages")

COUNTS_WAIT_S = 2.0
"""How long the end of an answer waits for its token counts, and its connection for the end of the stream."""


class RemoteChatStage(StreamsStage):
    """The stage; it runs once.

    Args:
        name: what it is called in logs and metrics.
        remote: the engine.
        facts: where to keep what is learned of it.
        environment: where its key is.
        transport: carries requests instead of httpx's own.
        dice: what the jitter of waits is drawn from.

    Raises:
        ValueError: the engine's address or key is faulty; see `RemoteClient`.
    """

    def __init__(
        self,
        name: str,
        remote: RemoteDeploy,
        *,
        facts: RemoteFacts | None = None,
        environment: Mapping[str, str] = os.environ,
        transport: httpx.AsyncBaseTransport | None = None,
        dice: random.Random | None = None,
    ) -> None:
        # Whoever waits here waits for a connection, as a request; its units are taken at once.
        super().__init__(name, command_limit=UNLIMITED)
        self._remote = remote
        self._facts = facts if facts is not None else RemoteFacts()
        self._dice = dice or random.Random()  # noqa: S311  jitter is no secret
        self._client = RemoteClient(remote, environment=environment, transport=transport)
        self._model = remote.model or ""
        self._nursery: trio.Nursery | None = None
        self._presence: Presence | None = None
        self._places = trio.CapacityLimiter(remote.max_connections)

    @property
    def commands_waiting(self) -> int:
        """Requests that wait for a connection."""
        return self._places.statistics().tasks_waiting

    def post(self, command: Open[ThreadStream] | Submit[ThreadStream]) -> None:
        """Begin the task of a request, or tell it of a unit."""
        stream = command.lane
        assert isinstance(stream, RemoteStream)
        if isinstance(command, Open):
            assert self._nursery is not None
            self._nursery.start_soon(self._carry, stream, name=f"remote answer {stream.request.request_id}")
            return
        command.accepted = not stream.over
        if command.accepted:
            stream.offer(command.unit, command.final)
        if command.taken is not None:
            command.taken.set()

    def count_consumed(self, stream: ThreadStream, count: int) -> None:
        """Let the task of a request go on that waits for room."""
        assert isinstance(stream, RemoteStream)
        if stream.consume(count):
            stream.tell()

    def _new_stream(self, request: StageRequest, sink: OutputSink | None) -> RemoteStream:
        return RemoteStream(self, request, sink)

    def _overtake(self, stream: ThreadStream) -> None:
        assert isinstance(stream, RemoteStream)
        stream.scope.cancel()

    def _settle_rest(self) -> None:
        """The tasks of aborted requests settle them."""

    async def run(self, task_status: trio.TaskStatus[Stage] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry the stage until it is cancelled or the engine is gone; see `Stage.run`."""
        message = f"stage {self.name!r} has stopped"
        async with self._client:
            served = await wait_for_model(self.name, self._remote, self._client, self._dice)
            self._model = self._facts.model = served.name
            self._facts.context_tokens = served.context_tokens
            self._presence = Presence(self.name, self._client)
            try:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    self.alive = True
                    task_status.started(self)
                    await self._presence.wait_gone()
                    message = f"the remote engine at {self._client.address} does not answer any more"
                    self.last_error = message
                    self.alive = False
                    nursery.cancel_scope.cancel()
            finally:
                self._end_all(message)

    # ------------------------------------------------------------------ one request

    async def _carry(self, stream: RemoteStream) -> None:
        try:
            with stream.scope:
                prompt = await stream.wait_prompt()
                if prompt is None:
                    self._deliver(stream, TextDelta(text="", finish_reason="stop"), {}, finished=True)
                else:
                    await self._ask(stream, prompt)
        except UnitRefused as refusal:
            self._fail(stream, refusal.code, str(refusal))
        except RemoteFault as fault:
            self._fail(stream, fault.code, str(fault))
        except Exception as error:
            # A fault of one request must not end the others.
            log.exception("stage.unit_failed", stage=self.name, request_id=stream.request.request_id)
            self._fail(stream, "engine_error", f"{type(error).__name__}: {error}")
        finally:
            if stream.over:  # else the whole stage is ending, and tells so
                stream.settle()

    async def _ask(self, stream: RemoteStream, prompt: ChatPrompt) -> None:
        """Ask for an answer, again while nothing of it was delivered and the fault may pass."""
        body = request_body(self._remote, self._model, prompt, stream.request.params)
        backoff = Backoff(dice=self._dice)
        tries_left = self._remote.max_retries
        async with self._places:
            while not stream.over:
                try:
                    await self._try(stream, prompt, body)
                except RemoteFault as fault:
                    if fault.unreachable and self._presence is not None:
                        self._presence.doubt()
                    wait_s = max(backoff.next_s(), fault.wait_s or 0.0)
                    if not fault.again or stream.produced or not tries_left or wait_s > LONGEST_WAIT_S:
                        raise
                    tries_left -= 1
                    await self._pause(stream, wait_s, fault)

    async def _pause(self, stream: RemoteStream, wait_s: float, fault: RemoteFault) -> None:
        log.warning(
            "remote.again",
            stage=self.name,
            request_id=stream.request.request_id,
            wait_s=round(wait_s, 2),
            reason=str(fault),
        )
        await trio.sleep(wait_s)

    async def _try(self, stream: RemoteStream, prompt: ChatPrompt, body: Mapping[str, object]) -> None:
        """Ask once and hand the answer on.

        Raises:
            RemoteFault: there is no answer, or it broke off.
        """
        answer = RemoteAnswer(trio.current_time(), stops=getattr(stream.request.params, "stop", ()))
        first_s = self._remote.connect_timeout_s + self._remote.read_timeout_s
        try:
            with trio.CancelScope(deadline=trio.current_time() + first_s) as silence:
                async with self._client.chat(body) as response:
                    self._hear()
                    await self._hand_on(stream, answer, response, silence)
        except RemoteFault:
            if not answer.ended:
                raise
            # The answer is whole; what is missing is its counts at most.
        if not answer.ended:
            if silence.cancelled_caught:
                problem = f"says nothing for {self._remote.read_timeout_s:g} s"
            else:
                problem = "ended its answer in the middle"
            raise RemoteFault("engine_error", f"the remote engine {problem}", again=True, unreachable=True)
        await self._end(stream, answer)
        self._facts.learn(prompt.messages, prompt.tools, answer.totals.prompt)

    async def _hand_on(
        self, stream: RemoteStream, answer: RemoteAnswer, response: httpx.Response, silence: trio.CancelScope
    ) -> None:
        """Read to the end of the stream, so that its connection can be used again, and hand on what comes.

        `silence` is put off with every piece of the answer: comments and single bytes are not one.
        """
        reader = EventReader()
        parts = response.aiter_bytes()
        try:
            with as_faults(self._client.address):
                async for received in parts:
                    self._hear()
                    for data in self._split(reader, received):
                        if not answer.over:
                            await self._read(stream, answer, data, silence)
        finally:
            # The parts come through a row of generators, and only an exception in the innermost ends them all.
            with trio.move_on_after(0, shield=True):
                async for _ in parts:
                    pass
        for data in reader.end():
            if not answer.over:
                await self._read(stream, answer, data, silence)

    async def _read(
        self, stream: RemoteStream, answer: RemoteAnswer, data: str, silence: trio.CancelScope
    ) -> None:
        try:
            made = answer.take(data, trio.current_time())
        except EngineSaidError as error:
            raise of_words(error.said, self._client.key) from error
        except PieceError as error:
            raise RemoteFault(
                "engine_error", f"the remote engine sends what is no answer: {error}"
            ) from error
        silence.deadline = float("inf")  # a consumer without room is no silence of the engine
        if made is not None:
            await stream.wait_window()
            self._deliver(stream, made.delta, made.metrics)
        if answer.over:
            await self._end(stream, answer)
        wait_s = COUNTS_WAIT_S if answer.ended else self._remote.read_timeout_s
        silence.deadline = trio.current_time() + wait_s

    def _hear(self) -> None:
        if self._presence is not None:
            self._presence.hear()

    def _split(self, reader: EventReader, received: bytes) -> list[str]:
        try:
            return reader.feed(received)
        except EventTooLongError as error:
            raise RemoteFault(
                "engine_error", f"the remote engine sends what is no answer: {error}"
            ) from error

    # ------------------------------------------------------------------ what goes to the consumer

    async def _end(self, stream: RemoteStream, answer: RemoteAnswer) -> None:
        """Give out the last delta, if it has not gone out yet."""
        if not stream.over:
            await stream.wait_window()
            self._deliver(stream, answer.end(), {}, finished=True)

    def _deliver(
        self, stream: RemoteStream, delta: TextDelta, metrics: Mapping[str, Any], *, finished: bool = False
    ) -> None:
        request_id = stream.request.request_id
        self._hand(stream, StageOutput(request_id=request_id, data=delta, finished=finished, metrics=metrics))

    def _fail(self, stream: RemoteStream, code: str, message: str) -> None:
        self._hand(stream, StageFailed(request_id=stream.request.request_id, code=code, message=message))

    def _hand(self, stream: RemoteStream, output: StageOutput | StageFailed) -> None:
        if not stream.over:
            stream.produced += 1
            self._take(stream, output)
