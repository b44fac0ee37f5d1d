"""All requests of an engine: who is let in, who waits, and how they end when the engine does."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable

import structlog
import trio

from duplex_trio.engine.orchestrator import Orchestrator
from duplex_trio.engine.turn.checks import check_request
from duplex_trio.engine.turn.live import BLANK_TURN, LiveRequest
from duplex_trio.engine.turn.request import OmniRequest
from duplex_trio.engine.turn.tally import RequestTally
from duplex_trio.pipelines.requests import TurnInput
from duplex_trio.protocol.refusal import RequestFailed, RequestRefused

log = structlog.get_logger("duplex_trio.engine")

CHAT_READ_TIMEOUT_S = 60.0
"""Who takes nothing of a chat's answer for so long has gone. Its transport has a time-out of its own, well before."""


class RequestManager:
    """Requests at once, up to a bound; the others wait for their turn, first come, first served, or are refused.

    Args:
        orchestrator: runs them.
        max_requests: requests at once.
        new_turn: makes what every turn of a request has in common; nothing by default.
    """

    def __init__(
        self,
        orchestrator: Orchestrator,
        *,
        max_requests: int,
        new_turn: Callable[[], TurnInput] = lambda: BLANK_TURN,
    ) -> None:
        if max_requests < 1:
            raise ValueError(f"max_requests must be at least 1, not {max_requests}")
        self.max_requests = max_requests
        self.tally = RequestTally(lambda: self.count, lambda: len(self._waiting))
        self._orchestrator = orchestrator
        self._new_turn = new_turn
        self._gives = frozenset(
            spec.final_output for spec in orchestrator.specs if spec.final_output is not None
        )
        self._places = trio.Semaphore(max_requests)
        self._live: dict[str, LiveRequest | None] = {}
        self._waiting: dict[str, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None
        self._draining = False
        self._gone = trio.lowlevel.ParkingLot()

    @property
    def count(self) -> int:
        """Requests that hold a place."""
        return len(self._live) - len(self._waiting)

    def use_nursery(self, nursery: trio.Nursery | None) -> None:
        """Let requests live in this nursery; without one none is let in, and those that wait are told so."""
        self._nursery = nursery
        if nursery is None:
            self._turn_away()

    async def open(
        self, request: OmniRequest, *, wait: bool = True, read_timeout_s: float = math.inf
    ) -> LiveRequest:
        """Let a request in, and begin to answer it.

        Args:
            request: what is asked.
            wait: whether it waits for a place if all are taken.
            read_timeout_s: how long an output may wait to be read before the request is given up.

        Raises:
            RequestRefused: the request is wrong, its id is live (`invalid_value`), the engine takes no requests, or
                all places are taken (`resource_exhausted`).
        """
        try:
            check_request(request, self._orchestrator.processor, self._gives)
            request_id = request.request_id or f"request-{secrets.token_hex(12)}"
            if request_id in self._live:
                raise RequestRefused(
                    "invalid_value", f"request_id: {request_id!r} is live", param="request_id"
                )
            self._live[request_id] = None
        except RequestRefused:
            self.tally.refused()
            raise
        try:
            placed = await self._take_place(request_id, wait=wait)
        except BaseException as error:
            self._forget(request_id)
            if isinstance(error, RequestRefused):
                self.tally.refused()
            raise
        live = LiveRequest(
            request,
            request_id=request_id,
            orchestrator=self._orchestrator,
            blank=self._new_turn(),
            read_timeout_s=read_timeout_s,
        )
        if not placed:
            self._forget(request_id)
            live.abort_unbegun()
            return live
        assert self._nursery is not None
        self._live[request_id] = live
        self._nursery.start_soon(self._carry, live, name=f"request {request_id}")
        return live

    def abort(self, request_id: str) -> bool:
        """End a request now, also one that waits for its place; false if there is none of that id."""
        if request_id in self._waiting:
            self._waiting[request_id].cancel()
            return True
        live = self._live.get(request_id)
        if live is None:
            return False
        live.abort()
        return True

    def admit_nobody(self) -> None:
        """Refuse every further request, and those that wait."""
        self._draining = True
        self._turn_away()

    async def drain(self, timeout_s: float) -> None:
        """Take no new requests, give the live ones `timeout_s`, then end them and wait for their end."""
        self.admit_nobody()
        with trio.move_on_after(timeout_s):
            await self._wait_empty()
        for live in list(self._live.values()):
            if live is not None:
                live.fail(_shutting_down())
        await self._wait_empty()

    # ------------------------------------------------------------------ places

    async def _take_place(self, request_id: str, *, wait: bool) -> bool:
        """Take one of the places; false if the request was aborted meanwhile. A checkpoint only where it waits."""
        self._require_open()
        try:
            self._places.acquire_nowait()
        except trio.WouldBlock:
            if not wait:
                raise RequestRefused(
                    "resource_exhausted", f"the model answers {self.max_requests} requests at once"
                ) from None
        else:
            return True
        scope = self._waiting[request_id] = trio.CancelScope()
        try:
            with scope:
                await self._places.acquire()
        finally:
            del self._waiting[request_id]
        if scope.cancelled_caught:
            self._require_open()
            return False
        if self._nursery is None or self._draining:
            self._places.release()
            self._require_open()
        return True

    def _require_open(self) -> None:
        if self._draining or self._nursery is None:
            why = "" if self._draining else ": it is not running"
            raise RequestRefused("resource_exhausted", f"the engine takes no new requests{why}")

    def _turn_away(self) -> None:
        for scope in self._waiting.values():
            scope.cancel()

    async def _carry(self, live: LiveRequest) -> None:
        began_s = trio.current_time()
        try:
            await live.run()
        finally:
            self._places.release()
            self._forget(live.request_id)
            first_s = live.first_output_s
            took_s = trio.current_time() - began_s
            self.tally.ended(
                live.ending, first_output_s=None if first_s is None else first_s - began_s, took_s=took_s
            )
            if isinstance(live.ending, RequestFailed):
                log.warning("request.failed", request_id=live.request_id, code=live.ending.code)

    def _forget(self, request_id: str) -> None:
        del self._live[request_id]
        self._gone.unpark_all()

    async def _wait_empty(self) -> None:
        await trio.lowlevel.checkpoint()
        while self._live:
            await self._gone.park()


def _shutting_down() -> RequestFailed:
    return RequestFailed("server_shutdown", "the server is shutting down")
