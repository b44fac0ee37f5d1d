"""How long a replica that broke waits until it is made anew. Pure: whoever asks brings the chance.

The wait doubles with each break in a row, up to a cap, so that a replica which cannot come back costs a load
attempt now and then and no more. A replica that ran well for a while starts from the beginning.
"""

from __future__ import annotations

from attrs import define, field, frozen
from attrs.validators import and_, ge, gt, lt, optional

from duplex_trio.stages.waits import growing_wait_s

ALARMING_BREAKS = 5
"""Breaks in a row after which it is no accident any more, and is logged as an error."""


@frozen(kw_only=True)
class RestartPolicy:
    """The numbers of the backoff.

    Attributes:
        first_s: the wait after a first break, in seconds. A request that broke the runtime is over by then, and
            loading takes longer than this anyway.
        cap_s: the longest wait. Whoever mends the cause (memory, a disk, a driver) sees the stage come back
            within it; a failing load every half minute is no burden.
        factor: by how much each wait is longer than the one before.
        jitter: the part of a wait that chance may take away, so that replicas which broke together, of one
            cause, do not load together.
        steady_s: how long a replica must run to count as well again; longer than the cap, so that one which
            breaks soon after each load does not count as well.
        max_restarts: breaks in a row after which a replica is given up; None goes on for ever, because a server
            that answers part of its users is better than one that has stopped trying.
    """

    first_s: float = field(default=0.5, validator=gt(0))
    cap_s: float = field(default=30.0, validator=gt(0))
    factor: float = field(default=2.0, validator=ge(1))
    jitter: float = field(default=0.5, validator=and_(ge(0), lt(1)))
    steady_s: float = field(default=60.0, validator=gt(0))
    max_restarts: int | None = field(default=None, validator=optional(ge(0)))


@define
class Backoff:
    """The breaks of one replica.

    Args:
        policy: the numbers.

    Attributes:
        breaks: how many there were in a row.
    """

    policy: RestartPolicy
    breaks: int = 0

    def broke(self, ran_s: float, chance: float) -> float | None:
        """A replica broke, or could not be loaded; returns how long to wait in seconds, None to give it up.

        Args:
            ran_s: how long it had run, 0 if it was not loaded.
            chance: a random number in [0, 1).
        """
        policy = self.policy
        if ran_s >= policy.steady_s:
            self.breaks = 0
        self.breaks += 1
        if policy.max_restarts is not None and self.breaks > policy.max_restarts:
            return None
        wait_s = growing_wait_s(
            self.breaks - 1, first_s=policy.first_s, longest_s=policy.cap_s, factor=policy.factor
        )
        return wait_s * (1 - policy.jitter * chance)
