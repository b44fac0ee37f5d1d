"""The count of units that a model has taken: reserve, submit, then commit or forget.

A reservation is a proposal: the numbers that a unit will have if it is taken. Whoever submits the unit waits
for the stage meanwhile; if anything else was accepted or cancelled in that time the proposal is stale and its
commit is refused, so that no two units ever have the same number. A reservation that is not committed needs no
undoing, for it has changed nothing.
"""

from __future__ import annotations

from attrs import define, frozen

from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.session.state.fence import DuplexFence


@frozen
class AppendReservation:
    """The numbers proposed for one unit, and the ledger as it was.

    Attributes:
        fence: where the unit belongs.
        seq: the unit's number in its epoch, from 1.
        turn_seq: the unit's number in its turn of the model, from 1.
        ledger: the state of the ledger that the proposal was made from.
    """

    fence: DuplexFence
    seq: int
    turn_seq: int
    ledger: tuple[DuplexFence, int, int]


@define
class AppendLedger:
    """Units accepted so far.

    Attributes:
        accepted: the latest fence that a unit or a cancellation was accepted at; older ones are refused.
        seq: units accepted in its epoch.
        turn_seq: units accepted in its turn.
    """

    accepted: DuplexFence
    seq: int = 0
    turn_seq: int = 0

    def raise_epoch(self, fence: DuplexFence) -> None:
        """A cancellation: the units of the new epoch count from 1, and older reservations are stale.

        Raises:
            RealtimeError: `stale_fence` when the epoch is not a new one.
        """
        if fence.epoch <= self.accepted.epoch:
            raise RealtimeError("stale_fence", f"epoch {fence.epoch} is not behind {self.accepted}")
        self.accepted, self.seq, self.turn_seq = fence, 0, 0

    def reserve(self, fence: DuplexFence) -> AppendReservation:
        """Propose the numbers of one unit.

        Raises:
            RealtimeError: `stale_fence` when a later epoch or turn was accepted already.
        """
        self._admit(fence)
        same_epoch = fence.epoch == self.accepted.epoch
        same_turn = fence == self.accepted
        return AppendReservation(
            fence,
            seq=self.seq + 1 if same_epoch else 1,
            turn_seq=self.turn_seq + 1 if same_turn else 1,
            ledger=self._state,
        )

    def commit(self, reservation: AppendReservation) -> None:
        """The stage took the unit.

        Raises:
            RealtimeError: `stale_fence` when something was accepted since the reservation.
        """
        if reservation.ledger != self._state:
            raise RealtimeError("stale_fence", "the session went on while the unit was on its way")
        self.accepted, self.seq, self.turn_seq = reservation.fence, reservation.seq, reservation.turn_seq

    @property
    def _state(self) -> tuple[DuplexFence, int, int]:
        return (self.accepted, self.seq, self.turn_seq)

    def _admit(self, fence: DuplexFence) -> None:
        if not self.accepted.admits(fence):
            raise RealtimeError("stale_fence", f"{fence} is behind {self.accepted}")
