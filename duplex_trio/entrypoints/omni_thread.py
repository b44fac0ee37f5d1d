"""The thread in which a model lives that is asked from others: Trio runs in it, and they wait for what it says."""

from __future__ import annotations

import threading
from contextlib import suppress
from queue import SimpleQueue

import structlog
import trio

from duplex_trio.entrypoints.async_omni import AsyncOmni
from duplex_trio.entrypoints.batch import Batch
from duplex_trio.entrypoints.run import run_batch, run_batches

log = structlog.get_logger("duplex_trio.omni")


class OmniThread:
    """Carries an `AsyncOmni` from `start` to `stop`. All methods may be called from any thread but its own.

    Args:
        omni: the model, not running yet.
        at_once: requests of one batch that are asked at once.
    """

    def __init__(self, omni: AsyncOmni, *, at_once: int) -> None:
        self._omni = omni
        self._at_once = at_once
        self._starting = threading.Lock()
        self._changing = threading.Lock()  # guards the fields below, for moments
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._batches: set[Batch] = set()
        self._stopped = False
        # Touched by the thread alone.
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None

    # ------------------------------------------------------------------ from other threads

    def start(self) -> None:
        """Load the model and wait until it is ready; nothing happens if it is.

        Raises:
            BaseException: what kept it from getting ready; alone, unless there was more than one cause.
            RuntimeError: it was stopped.
        """
        with self._starting:
            self._require_open()
            if self._thread is not None:
                return
            ready: SimpleQueue[BaseException | None] = SimpleQueue()
            # A program that forgets to close the model must be able to end.
            self._thread = threading.Thread(target=self._main, args=(ready,), name="omni", daemon=True)
            self._thread.start()
            try:
                failure = ready.get()
            except BaseException:
                self.stop()
                raise
            if failure is not None:
                self.stop()
                raise failure

    def stop(self) -> None:
        """End everything and wait for the thread. Idempotent."""
        with self._changing:
            self._stopped = True
            token = self._token
        if token is not None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(self._scope.cancel)
        if self._thread is not None:
            self._thread.join()

    def begin(self, batch: Batch) -> None:
        """Ask what is in a batch.

        Raises:
            RuntimeError: the model was stopped.
        """
        with self._changing:
            self._require_open()
            assert self._token is not None
            self._batches.add(batch)
            self._token.run_sync_soon(self._begin, batch)

    def abort(self, batch: Batch) -> None:
        """Cancel what is left of a batch, and wait for its end."""
        with self._changing:
            if batch not in self._batches or self._token is None:
                return
            self._token.run_sync_soon(batch.scope.cancel)
        batch.wait_over()

    def _require_open(self) -> None:
        if self._stopped:
            raise RuntimeError("the model was closed")

    # ------------------------------------------------------------------ in the thread

    def _main(self, ready: SimpleQueue[BaseException | None]) -> None:
        failure: BaseException = RuntimeError("the model was closed while it was loaded")
        try:
            trio.run(self._carry, ready)
        except (Exception, BaseExceptionGroup) as error:
            # Told to whoever waits for the model; there is nobody else in this thread.
            failure = _alone(error)
            log.warning("omni.failed", error=str(failure))
        finally:
            with self._changing:
                self._stopped, self._token = True, None
                left, self._batches = self._batches, set()
            for batch in left:
                batch.over()
            ready.put(failure)

    async def _carry(self, ready: SimpleQueue[BaseException | None]) -> None:
        with self._changing:
            self._token = trio.lowlevel.current_trio_token()
            if self._stopped:
                return

        def use_nursery(nursery: trio.Nursery | None) -> None:
            self._nursery = nursery
            if nursery is not None:
                ready.put(None)

        with self._scope:
            await run_batches(self._omni, use_nursery)

    def _begin(self, batch: Batch) -> None:
        if self._nursery is None:
            self._end(batch)
        else:
            self._nursery.start_soon(self._run_batch, batch, name="batch")

    async def _run_batch(self, batch: Batch) -> None:
        try:
            await run_batch(self._omni, batch, at_once=self._at_once)
        finally:
            self._end(batch)

    def _end(self, batch: Batch) -> None:
        with self._changing:
            self._batches.discard(batch)
        batch.over()


def _alone(error: BaseException) -> BaseException:
    """The one error in a group of groups; the group if there are several."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
