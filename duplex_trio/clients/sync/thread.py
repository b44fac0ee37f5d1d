"""The thread that a client lives in when its user has no Trio: calls go in, results and errors come out.

A caller waits in its own thread. One that is interrupted (Ctrl-C) cancels what it was waiting for, so that
nothing goes on that nobody wants any more.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from queue import SimpleQueue
from typing import TypeVar

import trio

from duplex_trio.clients.base import DuplexClientBase
from duplex_trio.clients.errors import DuplexSessionClosedError

T = TypeVar("T")
Opener = Callable[[], AbstractAsyncContextManager[DuplexClientBase]]
"""Makes what opens a client, in a Trio program."""


class _BodyFailedError(Exception):
    """Stands for the exception of the caller's `with` block, which is raised there."""


class ClientThread:
    """Carries one client from `start` to `stop`. All methods may be called from any thread but its own.

    Args:
        opener: makes what opens the client.
    """

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._thread: threading.Thread | None = None
        self._told: SimpleQueue[DuplexClientBase | BaseException] = SimpleQueue()
        self._over: SimpleQueue[BaseException | None] = SimpleQueue()
        self._token: trio.lowlevel.TrioToken | None = None
        self._client: DuplexClientBase | None = None
        # Touched by the thread alone.
        self._leaving = trio.Event()
        self._body_failed = False
        self._scope = trio.CancelScope()

    @property
    def client(self) -> DuplexClientBase:
        """What it carries. Others than its thread may read its attributes.

        Raises:
            RuntimeError: it was never open.
        """
        if self._client is None:
            raise RuntimeError("open the client first, with `with`")
        return self._client

    def start(self) -> None:
        """Open the client and wait until it is open.

        Raises:
            DuplexClientError: what opening it raises.
            RuntimeError: it was started before.
        """
        if self._thread is not None:
            raise RuntimeError("a client is one session; make another one to open another")
        # A program that forgets to close its client must be able to end.
        self._thread = threading.Thread(target=self._main, name="duplex-client", daemon=True)
        self._thread.start()
        try:
            told = self._told.get()
        except BaseException:
            self._cancel()
            raise
        if isinstance(told, BaseException):
            self._thread.join()
            raise told
        self._client = told

    def stop(self, *, body_failed: bool) -> None:
        """Close the client and wait for that; says goodbye for a second at most if the caller's block failed.

        Raises:
            DuplexClientError: what closing it raises.
        """
        if self._thread is None:
            return
        self._run_soon(self._leave, body_failed)
        try:
            error = self._over.get()
        except BaseException:
            self._cancel()
            raise
        self._over.put(None)
        self._thread.join()
        if error is not None:
            raise error

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run an async function in the client's thread, and wait for what it returns.

        Raises:
            BaseException: what it raises.
            DuplexSessionClosedError: the client is not open any more.
        """
        scope = trio.CancelScope()

        async def run() -> T:
            with scope:
                return await function()
            raise DuplexSessionClosedError("client_close")

        try:
            return trio.from_thread.run(run, trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled):
            # It is the other thread's call that was cancelled, at the end of its Trio; here there is none.
            raise DuplexSessionClosedError("client_close") from None  # noqa: ASYNC104
        except (KeyboardInterrupt, SystemExit):
            self._run_soon(scope.cancel)
            raise

    def call_now(self, function: Callable[[], T]) -> T:
        """Run a function that does not wait in the client's thread; otherwise as `call`."""

        async def run() -> T:
            return function()

        return self.call(run)

    def _run_soon(self, function: Callable[..., object], *arguments: object) -> None:
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(function, *arguments)

    def _cancel(self) -> None:
        self._run_soon(self._scope.cancel)

    # ------------------------------------------------------------------ in the thread

    def _leave(self, body_failed: bool) -> None:
        self._body_failed = body_failed
        self._leaving.set()

    def _main(self) -> None:
        error: BaseException | None = None
        try:
            trio.run(self._carry)
        except _BodyFailedError:
            pass
        except BaseException as raised:  # noqa: ASYNC103  told to whoever waits: nobody else is in this thread
            error = raised
        self._told.put(error or DuplexSessionClosedError("client_close"))
        self._over.put(error)

    async def _carry(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with self._opener() as client:
                self._told.put(client)
                await self._leaving.wait()
                if self._body_failed:
                    raise _BodyFailedError
