"""The user's sound on its way into units, and the units that wait for a model that owns its turns.

Whole units wait in a short channel; more sound waits in the model's buffer, which the input limit bounds. A
unit counts as used up when its reservation is committed; one that is rolled back is offered again.
"""

from __future__ import annotations

import trio
from attrs import frozen

from duplex_trio.deploy.limits import SessionLimits
from duplex_trio.plugin.pcm_buffer import BYTES_PER_SAMPLE, PcmAppendBuffer, PcmAppendReservation
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.stages.units import Pcm


@frozen(eq=False, kw_only=True)
class WaitingUnit:
    """One unit in line: the user's, with its reservation, or silence made for one epoch and due at a time.

    `whole_s` is when it was whole; of silence, when it is to be handed over.
    """

    pcm: Pcm
    whole_s: float
    reservation: PcmAppendReservation | None = None
    silent_in_epoch: int | None = None
    due_s: float | None = None
    force_listen: bool = False

    @property
    def final(self) -> bool:
        """Whether it is the last one of what was committed."""
        return self.reservation is not None and self.reservation.final

    def stale(self, epoch: int) -> bool:
        """Whether the model is no longer to have it."""
        if self.reservation is None:
            return self.silent_in_epoch != epoch
        return not self.reservation.active


class UnitLine:
    """The line of one session.

    Args:
        buffer: cuts sound into units.
        limits: how much may wait.
    """

    def __init__(self, buffer: PcmAppendBuffer, limits: SessionLimits) -> None:
        self.buffer = buffer
        self._limits = limits
        self._send, self._receive = trio.open_memory_channel[WaitingUnit](limits.units_waiting_max)
        self._commit_due = False
        self._force_listen = False

    @property
    def held_bytes(self) -> int:
        """Bytes of sound that the model has not taken."""
        return self.buffer.pending_bytes

    @property
    def has_units(self) -> bool:
        """Whether units wait or are on their way to the model."""
        return bool(self._send.statistics().current_buffer_used) or self.buffer.has_reserved

    def require_room(self, samples: int, beside: int = 0) -> None:
        """Refuse sound for which there is no room, before anything is done with it.

        Args:
            samples: how much sound.
            beside: bytes of other input, which count too.

        Raises:
            RealtimeError: `input_backpressure` when too much waits already.
        """
        limit = self._limits.pending_input_bytes_max
        held = self.held_bytes + beside
        if held + samples * BYTES_PER_SAMPLE > limit:
            raise RealtimeError(
                "input_backpressure",
                f"{held} bytes of input wait for the model; the limit is {limit}",
                param="audio",
            )

    def feed(self, pcm: Pcm, *, force_listen: bool = False) -> None:
        """Take sound, for which there is room; the last milliseconds of a resampler are taken in any case.

        Args:
            pcm: the sound.
            force_listen: the units that hold some of it ask the model to listen; of sound that waits because the
                model is behind, perhaps some units more.
        """
        self._force_listen |= force_listen
        self.buffer.append(pcm)
        self._offer(behind=force_listen)
        if not self.buffer.has_pending:
            self._force_listen = False

    def commit(self) -> None:
        """The user's turn ends: what is left becomes a unit."""
        self._commit_due = True
        self._offer()

    def clear(self) -> None:
        """Drop sound that the model has not taken."""
        self._commit_due = self._force_listen = False
        self.buffer.clear()

    def begin_epoch(self) -> None:
        """The model was cancelled: what it was asked to listen to is over."""
        self._force_listen = False

    async def next(self) -> WaitingUnit:
        """Wait for a unit and take it out of the line."""
        self._offer()
        return await self._receive.receive()

    async def put(self, unit: WaitingUnit) -> None:
        """Put a unit of silence in line."""
        await self._send.send(unit)

    def put_nowait(self, unit: WaitingUnit) -> None:
        """Put a unit of silence in a line without units."""
        self._send.send_nowait(unit)

    def _offer(self, *, behind: bool | None = None) -> None:
        """Put whole units in line while there is room.

        `behind` is what is forced of the sound behind the first of them, if that is known.
        """
        while self._send.statistics().current_buffer_used < self._limits.units_waiting_max:
            reservation = self.buffer.prepare_append()
            if reservation is None and self._commit_due:
                self._commit_due = False
                reservation = self.buffer.prepare_commit()
            if reservation is None:
                break
            unit = WaitingUnit(
                pcm=reservation.pcm,
                whole_s=trio.current_time(),
                reservation=reservation,
                force_listen=self._force_listen,
            )
            self._send.send_nowait(unit)
            if behind is not None:
                self._force_listen = behind
