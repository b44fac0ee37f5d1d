"""Sessions that talk in real time, how late the loop gets by them, and how long their users wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio
from attrs import frozen

from duplex_trio.benchmarks.caller import SILENCE_DURATION_MS, WAIT_MAX_S, Caller, sound
from duplex_trio.benchmarks.figures import cpu_s
from duplex_trio.clients.distribution import Distribution, distribution_summary

CHUNK_MS = 20
SPEAK_MS, LISTEN_MS = 1000, 3000
"""The user speaks for one second and listens for three, of which the answer takes about two."""
PROBE_S = 0.005
"""How often the loop is looked at."""


@frozen(kw_only=True)
class Talking:
    """The loop while sessions talk.

    Attributes:
        sessions: how many.
        lateness_us: how late a task ran that was to run every 5 ms, in microseconds. The system wakes it up at
            whole milliseconds, so that it is late without any session too.
        first_audio_ms: from the end of the user's speech to the first sound of the answer, in milliseconds.
        cpu_share: CPU time used over time passed; 1 is one core.
    """

    sessions: int
    lateness_us: tuple[float, ...]
    first_audio_ms: tuple[float, ...]
    cpu_share: float

    @property
    def lateness(self) -> Distribution | None:
        """The lateness in short."""
        return distribution_summary(self.lateness_us)

    @property
    def first_audio(self) -> Distribution | None:
        """The wait for the first sound in short."""
        return distribution_summary(self.first_audio_ms)

    @property
    def first_audio_over_parts(self) -> float | None:
        """The usual wait over the sum of its parts: the silence that ends a turn, as the model takes no time."""
        waits = self.first_audio
        return None if waits is None else waits.p50 / SILENCE_DURATION_MS


async def talk(caller: Caller, delay_s: float) -> None:
    """Speak and listen in turn, in real time, until cancelled."""
    loud, quiet = sound(CHUNK_MS, loud=True), sound(CHUNK_MS, loud=False)
    next_s = trio.current_time() + delay_s
    while True:
        for append, duration_ms in ((loud, SPEAK_MS), (quiet, LISTEN_MS)):
            for _ in range(duration_ms // CHUNK_MS):
                await trio.sleep_until(next_s)
                caller.handle.submit(append)
                next_s += CHUNK_MS / 1000


def stagger_s(index: int, count: int) -> float:
    """When the session of that index begins, so that sessions do not all speak at once."""
    return index / count * (SPEAK_MS + LISTEN_MS) / 1000


async def measure_talking(callers: Sequence[Caller], seconds: float, tell: Callable[[str], None]) -> Talking:
    """Look at the loop for a while, at least until somebody was answered.

    Whoever calls lets the sessions talk meanwhile.
    """

    def answered() -> bool:
        return not callers or any(caller.heard.first_audio_ms for caller in callers)

    tell(f"loop lateness, {len(callers)} sessions talking")
    begin_s, used_s = trio.current_time(), cpu_s()
    lateness_us = await _watch_loop(seconds, answered)
    share = (cpu_s() - used_s) / (trio.current_time() - begin_s)
    waits_ms = [wait for caller in callers for wait in caller.heard.first_audio_ms]
    return Talking(
        sessions=len(callers),
        lateness_us=tuple(lateness_us),
        first_audio_ms=tuple(waits_ms),
        cpu_share=share,
    )


async def _watch_loop(seconds: float, enough: Callable[[], bool]) -> list[float]:
    late_us: list[float] = []
    due_s = trio.current_time()
    end_s = due_s + seconds
    while due_s < end_s or (not enough() and due_s < end_s + WAIT_MAX_S):
        due_s += PROBE_S
        await trio.sleep_until(due_s)
        now_s = trio.current_time()
        late_us.append((now_s - due_s) * 1e6)
        due_s = max(due_s, now_s)
    return late_us
