"""One batch of requests on its way between two threads: who asks waits in one, the requests run in the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from queue import SimpleQueue

import trio

from duplex_trio.engine.turn.outputs import OmniResult
from duplex_trio.engine.turn.request import OmniRequest
from duplex_trio.protocol.refusal import RequestFailed


class Batch:
    """Requests, and their results as they come.

    Args:
        requests: what is asked.

    Attributes:
        scope: cancels what is left of it; touched by the thread of the requests alone.
    """

    def __init__(self, requests: Sequence[OmniRequest]) -> None:
        self.scope = trio.CancelScope()
        self._requests = requests
        self._to_begin = iter(enumerate(requests))
        self._results: list[OmniResult | None] = [None] * len(requests)
        self._came: SimpleQueue[int | None] = SimpleQueue()
        self._over = threading.Event()

    def __len__(self) -> int:
        return len(self._requests)

    # ------------------------------------------------------------------ where the requests run

    def next_request(self) -> tuple[int, OmniRequest] | None:
        """The next request that nobody has begun; None if all have been."""
        return next(self._to_begin, None)

    def came(self, index: int, result: OmniResult) -> None:
        """A request is over."""
        self._results[index] = result
        self._came.put(index)

    def over(self) -> None:
        """No more come."""
        self._over.set()
        self._came.put(None)

    # ------------------------------------------------------------------ where somebody waits

    def wait(self) -> Iterator[int]:
        """Wait for each result; gives the index of each as it comes."""
        while (index := self._came.get()) is not None:
            yield index

    def wait_over(self) -> None:
        """Wait until no more come."""
        self._over.wait()

    def results(self) -> list[OmniResult]:
        """All of them, in the order of the requests; those that did not come failed."""
        return [
            self._stopped(index) if result is None else result for index, result in enumerate(self._results)
        ]

    def _stopped(self, index: int) -> OmniResult:
        error = RequestFailed("server_shutdown", "the engine was stopped before the answer came to its end")
        return OmniResult(request_id=self._requests[index].request_id or "", error=error)
