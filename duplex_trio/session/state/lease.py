"""The lease of a session: how long it may live without activity, and who may attach to it.

Pure: the time is an argument. `generation` is a compare-and-swap counter, so that of two parties who resume a
session with the same knowledge one wins; replaying the winning control id gives the same answer.
"""

from __future__ import annotations

from attrs import define, field

from duplex_trio.protocol.duplex import RealtimeError

DISCONNECT_GRACE_EXPIRED = "disconnect_grace_expired"
IDLE_TTL_EXPIRED = "idle_ttl_expired"


@define
class DuplexLeaseState:
    """Lease of one session.

    Args:
        idle_ttl_s: seconds without activity after which an attached session expires; None for never.
        disconnect_grace_s: seconds a detached session waits for its client.
        last_activity_s: time of opening.
    """

    idle_ttl_s: float | None
    disconnect_grace_s: float
    last_activity_s: float
    generation: int = 0
    detached_at_s: float | None = None
    terminal_reason: str | None = None
    _operations: set[str] = field(factory=set)
    _last_control_id: str | None = None

    def touch(self, now_s: float) -> None:
        """Something happened that keeps the session alive."""
        self._refuse_if_terminal()
        self.last_activity_s = max(self.last_activity_s, now_s)

    def begin_operation(self, name: str) -> None:
        """Work is under way; it blocks idle expiry until `end_operation`."""
        self._refuse_if_terminal()
        self._operations.add(name)

    def end_operation(self, name: str, now_s: float) -> None:
        """Work ended. Allowed on a terminal lease, where it changes nothing."""
        if name in self._operations:
            self._operations.discard(name)
            self.last_activity_s = max(self.last_activity_s, now_s)

    def detach(self, now_s: float, expected_generation: int | None = None) -> None:
        """The client is gone.

        Raises:
            RealtimeError: `session_resume_conflict` when another client has attached since.
        """
        self._refuse_if_terminal()
        if expected_generation is not None and expected_generation != self.generation:
            raise RealtimeError(
                code="session_resume_conflict", message="the session was resumed by another client"
            )
        self.detached_at_s = self.last_activity_s = now_s

    def is_replay(self, control_id: str) -> bool:
        """Whether this control id made the current attachment, so that asking again changes nothing."""
        return self.terminal_reason is None and control_id == self._last_control_id

    def resume(self, expected_generation: int, control_id: str, now_s: float) -> int:
        """Attach again, also over a client that is still there, and return the new generation.

        Raises:
            RealtimeError: `session_resume_conflict` when `expected_generation` is not the current one.
        """
        self._refuse_if_terminal()
        if self.is_replay(control_id):
            return self.generation
        if expected_generation != self.generation:
            raise RealtimeError(
                code="session_resume_conflict", message="the session was resumed by another client"
            )
        self.generation += 1
        self._last_control_id = control_id
        self.detached_at_s = None
        self.last_activity_s = now_s
        return self.generation

    def mark_terminal(self, reason: str) -> bool:
        """End the lease; true the first time only."""
        if self.terminal_reason is not None:
            return False
        self.terminal_reason = reason
        self.generation += 1
        self.detached_at_s = None
        self._operations.clear()
        return True

    def deadline_s(self) -> float:
        """When the lease expires if nothing happens; infinity if it does not."""
        if self.terminal_reason is not None:
            return float("inf")
        if self.detached_at_s is not None:
            return self.detached_at_s + self.disconnect_grace_s
        if self.idle_ttl_s is None or self._operations:
            return float("inf")
        return self.last_activity_s + self.idle_ttl_s

    def expiry_reason(self, now_s: float) -> str | None:
        """Why the lease has expired by now, or None."""
        if now_s < self.deadline_s():
            return None
        return DISCONNECT_GRACE_EXPIRED if self.detached_at_s is not None else IDLE_TTL_EXPIRED

    def _refuse_if_terminal(self) -> None:
        if self.terminal_reason is not None:
            raise RealtimeError(
                code="session_closed", message=f"the session has ended: {self.terminal_reason}"
            )
