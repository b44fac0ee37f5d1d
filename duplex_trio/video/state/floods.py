"""Bounds on what a client may do in a time, and on how long nothing may happen. Times are arguments."""

from __future__ import annotations

from collections import deque

from attrs import define, field

ERRORS_MAX = 20
ERRORS_WITHIN_S = 10.0
"""So many messages at fault within so long end a video (video.md 3.3)."""


@define
class TokenBucket:
    """So many at once, and so many a second from then on.

    Args:
        rate: tokens a second.
        burst: most tokens; there are as many at first.
    """

    rate: float
    burst: int
    _tokens: float = field(init=False)
    _since_s: float | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._tokens = float(self.burst)

    def take(self, now_s: float) -> bool:
        """Take a token; False if there is none. A time before an earlier one is as that one."""
        if self._since_s is not None and now_s > self._since_s:
            self._tokens = min(float(self.burst), self._tokens + (now_s - self._since_s) * self.rate)
        self._since_s = now_s if self._since_s is None else max(now_s, self._since_s)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


@define
class ErrorBudget:
    """How many messages of a client may be at fault.

    Args:
        errors_max: that many ...
        within_s: ... within so many seconds are too many.
    """

    errors_max: int = ERRORS_MAX
    within_s: float = ERRORS_WITHIN_S
    _times_s: deque[float] = field(factory=deque, init=False)

    def spend(self, now_s: float) -> bool:
        """A message was at fault: whether that makes too many."""
        self._times_s.append(now_s)
        while self._times_s[0] <= now_s - self.within_s:
            self._times_s.popleft()
        return len(self._times_s) >= self.errors_max


@define
class StallClock:
    """How long nothing has happened.

    Args:
        timeout_s: that long is too long.
        now_s: when it starts.
    """

    timeout_s: float
    _since_s: float = field(alias="now_s")

    def touch(self, now_s: float) -> None:
        """Something happened."""
        self._since_s = max(now_s, self._since_s)

    def left_s(self, now_s: float) -> float:
        """How long it may still last; 0 once it has been too long."""
        return max(0.0, self._since_s + self.timeout_s - now_s)

    def stalled(self, now_s: float) -> bool:
        """Whether it has been too long."""
        return self.left_s(now_s) == 0.0
