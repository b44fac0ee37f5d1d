"""How a client behaves when its connection is lost: how often it tries, how long it waits, what it keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from attrs import field, frozen

Uniform = Callable[[float, float], float]
"""A random number between two; `random.uniform`."""


@frozen(kw_only=True)
class ReconnectPolicy:
    """What to do about a lost connection.

    Attributes:
        max_attempts: how often to try in a row before the session is given up; 0 never resumes.
        backoff_s: the least and the most that is waited before an attempt.
        attempt_timeout_s: how long an attempt may take, until the session is there again. A server waits
            half a minute for its client (`disconnect_grace_s`), in which several should fit.
        buffer_bytes_max: how many bytes of commands, as JSON, are kept that the server is not known to have.
            4 MiB are more than a minute of sound at 16 kHz.
        when_full: what a sender does that finds no room while the connection is down: `wait`, or `raise`
            `DuplexBufferFullError`. With a connection it always waits.
    """

    max_attempts: int = 5
    backoff_s: tuple[float, float] = (0.25, 4.0)
    attempt_timeout_s: float = 5.0
    buffer_bytes_max: int = 4 * 1024 * 1024
    when_full: Literal["wait", "raise"] = field(default="wait")

    def __attrs_post_init__(self) -> None:
        low, high = self.backoff_s
        if self.max_attempts < 0 or not 0 <= low <= high:
            raise ValueError("max_attempts must not be negative, and backoff_s be two growing times")
        if self.attempt_timeout_s <= 0 or self.buffer_bytes_max <= 0:
            raise ValueError("attempt_timeout_s and buffer_bytes_max must be positive")
        if self.when_full not in ("wait", "raise"):
            raise ValueError(f"when_full is wait or raise, not {self.when_full!r}")

    def delay_s(self, attempt: int, uniform: Uniform) -> float:
        """How long to wait before an attempt, the first being 0.

        Longer each time, and never the same for all.
        """
        low, high = self.backoff_s
        return uniform(low, max(low, min(high, low * 2.0 ** min(attempt, 60))))
