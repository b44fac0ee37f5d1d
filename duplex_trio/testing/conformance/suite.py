"""The list of checks. What each demands is in the module that it comes from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from attrs import field, frozen

from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.stages.units import Pcm
from duplex_trio.testing.conformance import abilities, declared, faults, hooks, memory, requests, turns
from duplex_trio.testing.conformance.room import PATIENCE_S, Room

_CHECKS: tuple[Callable[[Room], Awaitable[None]], ...] = (
    *declared.CHECKS,
    *declared.SESSION_CHECKS,
    *requests.CHECKS,
    *hooks.CHECKS,
    *memory.CHECKS,
    *abilities.CHECKS,
    *turns.CHECKS,
    *faults.CHECKS,
)
_OF_ANY_MODEL = frozenset({*declared.CHECKS, *requests.CHECKS})
"""Those that hold for a model without a plugin too."""


@frozen
class ConformanceCheck:
    """One demand. `name` says what holds if it passes."""

    name: str
    _check: Callable[[Room], Awaitable[None]] = field(repr=False, alias="check")
    _room: Room = field(repr=False, alias="room")

    @property
    def declares(self) -> bool:
        """Whether it looks at the declaration only, and loads no model."""
        return self._check in (*declared.CHECKS, *declared.SESSION_CHECKS)

    async def run(self) -> None:
        """Try it; needs a Trio loop, and unless the room has threads a `MockClock` that jumps.

        What is said of sessions holds for a model that has none, as does what is said of requests by themselves.

        Raises:
            AssertionError: the model does not keep it.
            TopologyError, DeclaredPathError: it is declared wrongly.
            trio.TooSlowError: what had to come did not.
        """
        if self._check not in _OF_ANY_MODEL and self._room.make_pipeline().config.duplex_plugin is None:
            await trio.lowlevel.checkpoint()
            return
        await self._check(self._room)

    def __str__(self) -> str:
        return self.name


def conformance_checks(
    pipeline_factory: Callable[[], Pipeline],
    *,
    speech: Pcm | None = None,
    threads: bool = False,
    patience_s: float = PATIENCE_S,
) -> list[ConformanceCheck]:
    """All checks for one model.

    Args:
        pipeline_factory: makes a new pipeline; called inside the checks only, so that collecting tests loads
            nothing.
        speech: what the user says, mono float32 at 24 kHz, for a model that tells words from noise; a tone of
            1.2 s by default. The model must answer it with more than half a second of speech.
        threads: run the stages in threads and on the real clock, for runtimes whose steps take time.
        patience_s: how long the model may take to do what is waited for, in seconds of Trio's clock.
    """
    room = Room(pipeline_factory, speech=speech, threads=threads, patience_s=patience_s)
    return [ConformanceCheck(check.__name__, check, room) for check in _CHECKS]
