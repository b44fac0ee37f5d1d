"""Whether an engine elsewhere is still there."""

from __future__ import annotations

import structlog
import trio

from duplex_trio.stages.remote.client import RemoteClient
from duplex_trio.stages.remote.faults import RemoteFault

log = structlog.get_logger("duplex_trio.stages")

PROBE_INTERVAL_S = 10.0
"""An engine of which nothing was heard for so long is asked whether it is there."""
PROBES = 3
"""So many questions in a row without an answer mean that it is not: one may be lost while a router changes engines."""
PROBE_PAUSE_S = 0.5


class Presence:
    """One engine: what was heard of it, and doubts about it.

    Args:
        name: the stage's.
        client: asks it.
    """

    def __init__(self, name: str, client: RemoteClient) -> None:
        self._name = name
        self._client = client
        self._heard_s = trio.current_time()
        self._heard_total = 0
        self._doubted = trio.Event()

    def hear(self) -> None:
        """The engine said something."""
        self._heard_s = trio.current_time()
        self._heard_total += 1

    def doubt(self) -> None:
        """A request could not get through."""
        self._doubted.set()

    async def wait_gone(self) -> None:
        """Wait until the engine is gone."""
        while True:
            with trio.move_on_after(PROBE_INTERVAL_S):
                await self._doubted.wait()
            quiet = trio.current_time() - self._heard_s >= PROBE_INTERVAL_S
            if (quiet or self._doubted.is_set()) and not await self._answers():
                log.error("remote.lost", stage=self._name, engine=self._client.address)
                return
            self._doubted = trio.Event()

    async def _answers(self) -> bool:
        """Whether the engine answers one of several questions, or says something in an answer meanwhile."""
        heard_total = self._heard_total
        for probe in range(PROBES):
            if probe:
                await trio.sleep(PROBE_PAUSE_S * 2 ** (probe - 1))
            try:
                await self._client.models()
            except RemoteFault as fault:
                if not fault.again:  # whoever refuses us is there
                    self.hear()
                else:
                    log.warning("remote.quiet", stage=self._name, probe=probe + 1, reason=str(fault))
            else:
                self.hear()
            if self._heard_total != heard_total:
                return True
        return False
