"""Turns on their way to the stages, bounded by those that somebody still wants."""

from __future__ import annotations

from collections import deque

import trio

from duplex_trio.session.turn import Turn


class TurnQueue:
    """A line of turns with one consumer.

    Unlike in a channel, a turn that is discarded while it waits takes no place: a client that cancels and
    asks again faster than the stages let go of what was cancelled is not told that too much waits.

    Args:
        turns_max: most turns that wait, but for those that wait once more because a cancellation cut them
        off.
    """

    def __init__(self, turns_max: int) -> None:
        self._turns_max = turns_max
        self._waiting: deque[Turn] = deque()
        self._arrived = trio.lowlevel.ParkingLot()

    def put_nowait(self, turn: Turn) -> None:
        """Add a turn at the end.

        One in place of another that was let in before is let in whatever waits.

        Raises:
            trio.WouldBlock: `turns_max` wanted turns wait already.
        """
        if len(self._waiting) >= self._turns_max:
            self._waiting = deque(waiting for waiting in self._waiting if not waiting.discarded)
        if len(self._waiting) >= self._turns_max and not turn.replaces:
            raise trio.WouldBlock
        self._waiting.append(turn)
        self._arrived.unpark()

    async def get(self) -> Turn:
        """Take the first turn that is still wanted, waiting for one. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while True:
            while self._waiting:
                turn = self._waiting.popleft()
                if not turn.discarded:
                    return turn
            await self._arrived.park()
            # Woken for a turn of an epoch that has ended since, it must not take one of the next.
            await trio.lowlevel.checkpoint_if_cancelled()

    def discard_before(self, epoch: int) -> None:
        """Discard the turns of older epochs."""
        for turn in self._waiting:
            if turn.epoch < epoch:
                turn.discard()
