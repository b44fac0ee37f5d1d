"""What happens to which connection, decided by a seed. Pure.

Half of the faults hit the first bytes of a connection, where its handshakes are; the others hit anywhere in
the first second of a conversation, so also the middle of frames.
"""

from __future__ import annotations

from enum import Enum
from random import Random

from attrs import define, field, frozen

EARLY_BYTES, LATE_BYTES = 3_000, 40_000
DELAYS_S = (0.0, 0.3)


class How(Enum):
    """How a connection breaks."""

    RESET = "reset"
    """Both sides are told at once, and what is under way is lost."""
    END = "end"
    """Both sides get what was forwarded, then the end of the stream."""
    SWALLOW = "swallow"
    """Nobody is told anything: what is sent disappears."""
    SWALLOW_CLIENT = "swallow client"
    """The server is told that the client has gone; the client is told nothing."""
    SWALLOW_SERVER = "swallow server"
    """The client is told; the server takes the connection for a healthy one, and may even get more over it."""


@frozen
class Fault:
    """What happens to one connection.

    Attributes:
        how: how it breaks.
        upward: whether the bytes from the client count, or those from the server.
        after_bytes: how many of them are forwarded before.
        delay_s: how long the last of these bytes are held up, and what comes behind them, before it breaks.
        late_s: how long after the client is told the server gets what that had still sent; None for never.
    """

    how: How
    upward: bool
    after_bytes: int
    delay_s: float = 0.0
    late_s: float | None = None


@define(eq=False)
class ChaosPlan:
    """The faults of one network.

    Args:
        seed: decides them.
        cuts_max: how many connections break; those after them do not.

    Attributes:
        cuts: how many have broken so far.
    """

    seed: int
    cuts_max: int
    cuts: int = field(default=0, init=False)
    _random: Random = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._random = Random(self.seed)  # noqa: S311  it is to be repeatable

    @property
    def over(self) -> bool:
        """Whether all has broken that is to break."""
        return self.cuts >= self.cuts_max

    def next_fault(self) -> Fault:
        """What will happen to the next connection."""
        chance = self._random
        how = chance.choices(list(How), weights=(4, 3, 1, 1, 1))[0]
        return Fault(
            how=how,
            upward=chance.random() < 0.5,
            after_bytes=chance.randrange(EARLY_BYTES if chance.random() < 0.5 else LATE_BYTES),
            delay_s=chance.uniform(*DELAYS_S) if chance.random() < 0.2 else 0.0,
            late_s=chance.uniform(*DELAYS_S) if how is How.SWALLOW_SERVER else None,
        )
