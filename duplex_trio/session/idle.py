"""Prompting a user who says nothing: `idle_timeout_ms` of server VAD.

The time runs from where the sound of the last answer ends at the client's ear; whatever the user or the client
does meanwhile takes it back. When it is over the silence is committed and the model speaks again. Nobody is
prompted who is not attached, or whom no detector hears.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from duplex_trio.protocol.duplex.session import ServerVad
from duplex_trio.session.core import SessionCore
from duplex_trio.session.work import IdleWork


class IdlePrompter:
    """The timer of one session.

    Args:
        core: the session.
        scored: how far the detector has come on the input line; later sound may be speech.
    """

    def __init__(self, core: SessionCore, scored: Callable[[], int]) -> None:
        self._core = core
        self._scored = scored
        self._wanted = False
        self._woken = trio.Event()
        self._scope = trio.CancelScope()
        self._work: IdleWork | None = None

    def arm(self) -> None:
        """An answer is complete: begin to wait for the user."""
        self._take_back()
        self._wanted = True
        self._woken.set()

    def disarm(self) -> None:
        """Something happened; wait no more until the next answer is complete."""
        self._take_back()
        self._wanted = False

    def attendance_changed(self) -> None:
        """Somebody has left or is there again: who comes back has all the time anew."""
        if self._wanted:
            self.arm()

    def _take_back(self) -> None:
        self._scope.cancel()
        if self._work is not None:
            self._work.withdrawn.set()
            self._work = None

    async def run(self) -> None:
        """Wait whenever there is reason to, until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            with trio.CancelScope() as self._scope:
                await self._wait_for_user()

    async def _wait_for_user(self) -> None:
        core, state = self._core, self._core.state
        detection = state.config.turn_detection
        if not self._wanted or not isinstance(detection, ServerVad) or detection.idle_timeout_ms is None:
            return
        if not core.delivery.attached or not core.detects:
            return
        await trio.sleep(state.playout.ahead_ms(core.now_s) / 1000)
        begin = self._scored()
        await trio.sleep(detection.idle_timeout_ms / 1000)
        self._work = IdleWork(begin=begin, end=self._scored(), seq=core.command_seq)
        await core.wait_in_line(self._work)
