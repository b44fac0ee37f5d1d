"""How much is measured."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import deep_iterable, ge, gt


@frozen(kw_only=True)
class EngineBenchSettings:
    """Sizes of the measurements of an engine.

    Attributes:
        seconds: how long each part lasts that runs in real time; half of it is for sending alone where that
            is measured too.
        sessions: how many sessions talk at once, one measurement for each number.
        append_sessions: sessions that send sound while its cost is measured.
        appends: appends that are sent as fast as possible.
        cancels: barge-ins under each load.
        outputs: stage outputs that wait at a barge-in.
        queued_appends: appends of one second that come just before a barge-in.
        stuck_s: how long a stage takes no unit, at most; it is let go when the barge-in was seen.
        memory_sessions: sessions that are open while memory is measured.
        cycles: sessions opened and closed one after another.
        resumes: how often a session is resumed.
        journal_bytes: how much of it was missed each time.
    """

    seconds: float = field(default=5.0, validator=gt(0))
    sessions: tuple[int, ...] = field(default=(1, 8, 32), validator=deep_iterable(ge(1)))
    append_sessions: int = field(default=64, validator=ge(1))
    appends: int = field(default=10_000, validator=ge(1))
    cancels: int = field(default=100, validator=ge(1))
    outputs: int = field(default=2_000, validator=ge(1))
    queued_appends: int = field(default=40, validator=ge(1))
    stuck_s: float = field(default=2.0, validator=gt(0))
    memory_sessions: int = field(default=200, validator=ge(1))
    cycles: int = field(default=1_000, validator=ge(1))
    resumes: int = field(default=50, validator=ge(1))
    journal_bytes: int = field(default=8 * 1024 * 1024, validator=ge(1))


QUICK = EngineBenchSettings(
    seconds=1.8,
    sessions=(1, 4),
    append_sessions=4,
    appends=500,
    cancels=3,
    outputs=300,
    memory_sessions=20,
    cycles=30,
    resumes=3,
    journal_bytes=200_000,
)
"""Everything once, in a few seconds: it shows that the measurements work, not what the figures are."""
