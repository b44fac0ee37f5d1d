"""How much memory sessions take, and whether it comes back.

Meant to run first in a process: memory that was given back by something else would be used again unseen.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

import trio
from attrs import frozen

from duplex_trio.benchmarks.caller import DETECTED, Caller, call, call_many, leave_all, sound
from duplex_trio.benchmarks.figures import resident_bytes
from duplex_trio.benchmarks.pipeline import TALK
from duplex_trio.benchmarks.settings import EngineBenchSettings
from duplex_trio.entrypoints.duplex_omni import DuplexOmni

_WARM_SESSIONS = 3
_WARM_CYCLES_MIN = 10
_SPOKEN_MS = 1000
_SCORE_S = 0.005
"""How long voice activity is given to look at it: the copies it is handed would add up otherwise."""


@frozen(kw_only=True)
class Memory:
    """Resident memory of the process, in bytes.

    Attributes:
        sessions: sessions that were open at once.
        before_bytes: before they were opened.
        idle_bytes: while they were open and had done nothing.
        listening_bytes: after each was given a second of sound.
        active_bytes: while each was being answered, so that it holds as much of the answer as the model may
            put out ahead: up to four pieces of 3 s, as float samples.
        cycles: sessions that were opened, used and closed one after another.
        cycles_before_bytes: before these.
        cycles_after_bytes: after them.
        objects_before: objects that the garbage collector knew before them.
        objects_after: and after them.
    """

    sessions: int
    before_bytes: int
    idle_bytes: int
    listening_bytes: int
    active_bytes: int
    cycles: int
    cycles_before_bytes: int
    cycles_after_bytes: int
    objects_before: int
    objects_after: int

    @property
    def idle_session_bytes(self) -> float:
        """Memory of one idle session."""
        return (self.idle_bytes - self.before_bytes) / self.sessions

    @property
    def listening_session_bytes(self) -> float:
        """Memory of one session that has taken sound: its resampler and the sound."""
        return (self.listening_bytes - self.before_bytes) / self.sessions

    @property
    def active_session_bytes(self) -> float:
        """Memory of one active session."""
        return (self.active_bytes - self.before_bytes) / self.sessions

    @property
    def growth_bytes(self) -> int:
        """What is left of the sessions that were opened and closed."""
        return self.cycles_after_bytes - self.cycles_before_bytes

    @property
    def growth_objects(self) -> int:
        """Objects that are left of them."""
        return self.objects_after - self.objects_before


async def measure_memory(
    omni: DuplexOmni, settings: EngineBenchSettings, tell: Callable[[str], None]
) -> Memory:
    """Measure open sessions, then sessions that come and go."""
    count = settings.memory_sessions
    tell(f"memory of {count} sessions")
    for caller in await call_many(omni, _WARM_SESSIONS, DETECTED):
        _hear(caller)
        await _be_answered(caller)
        await caller.leave()
    before = resident_bytes()
    callers = await call_many(omni, count, DETECTED)
    idle = resident_bytes()
    for caller in callers:
        _hear(caller)
        await trio.sleep(_SCORE_S)
    listening = resident_bytes()
    for caller in callers:
        await _be_answered(caller)
    active = resident_bytes()
    await leave_all(callers)
    callers.clear()

    tell(f"memory after {settings.cycles} sessions")
    for _ in range(max(_WARM_CYCLES_MIN, settings.cycles // 10)):
        await _cycle(omni)
    cycles_before, objects_before = resident_bytes(), len(gc.get_objects())
    for _ in range(settings.cycles):
        await _cycle(omni)
    return Memory(
        sessions=count,
        before_bytes=before,
        idle_bytes=idle,
        listening_bytes=listening,
        active_bytes=active,
        cycles=settings.cycles,
        cycles_before_bytes=cycles_before,
        cycles_after_bytes=resident_bytes(),
        objects_before=objects_before,
        objects_after=len(gc.get_objects()),
    )


async def _cycle(omni: DuplexOmni) -> None:
    caller = await call(omni)
    _hear(caller)
    await _be_answered(caller)
    await caller.leave()


def _hear(caller: Caller) -> None:
    for _ in range(_SPOKEN_MS // 100):
        caller.handle.submit(sound(100, loud=False))


async def _be_answered(caller: Caller) -> None:
    await caller.ask(TALK)
    await caller.hear()
