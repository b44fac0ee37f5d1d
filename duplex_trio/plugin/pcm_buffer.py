"""Input sound on its way into fixed units, with reservations that can be taken back.

A model that eats sound in units of fixed length gets it from here. Taking a unit *reserves* it: its bytes
stay accounted for until the unit was accepted (`commit`) or could not be delivered (`rollback`), which puts
it, and every unit reserved after it, back in front.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

import numpy as np
from attrs import define, field

from duplex_trio.stages.units import Pcm

BYTES_PER_SAMPLE = 4


class PcmAppendReservation(ABC):
    """One unit that was taken out of the buffer and not settled yet.

    `pcm` is its sound; `final` says that it was padded because the user's turn ended; `active` turns false
    when it is settled or the buffer is cleared.
    """

    pcm: Pcm
    final: bool
    active: bool

    @abstractmethod
    def commit(self) -> None:
        """The unit was accepted.

        Raises:
            ValueError: it is not active, or an earlier unit is not settled.
        """

    @abstractmethod
    def rollback(self) -> None:
        """The unit was not accepted: it and all later ones go back in front. Does nothing when not active."""


class PcmAppendBuffer(ABC):
    """Sound that waits to become units. Positions and sizes are samples of the plugin's input rate."""

    @abstractmethod
    def append(self, pcm: Pcm) -> None:
        """Add sound at the end."""

    @abstractmethod
    def prepare_append(self) -> PcmAppendReservation | None:
        """Reserve the next whole unit, or None if there is none."""

    @abstractmethod
    def prepare_commit(self) -> PcmAppendReservation | None:
        """Reserve what is left as one last unit, padded with silence; None if nothing is left."""

    @abstractmethod
    def clear(self) -> None:
        """Drop everything, reserved units included."""

    @property
    @abstractmethod
    def pending_bytes(self) -> int:
        """Bytes that wait or are reserved."""

    @property
    @abstractmethod
    def has_pending(self) -> bool:
        """Whether sound waits that is not reserved."""

    @property
    @abstractmethod
    def has_reserved(self) -> bool:
        """Whether a unit is reserved and not settled."""


class _Unit(PcmAppendReservation):
    def __init__(self, buffer: FixedUnitBuffer, pcm: Pcm, samples: int, final: bool) -> None:
        self.pcm = pcm
        self.final = final
        self.active = True
        self.samples = samples
        self._buffer = buffer

    def commit(self) -> None:
        self._buffer.settle(self)

    def rollback(self) -> None:
        if self.active:
            self._buffer.take_back(self)


@define(eq=False)
class FixedUnitBuffer(PcmAppendBuffer):
    """Units of one fixed length, settled in order.

    Args:
        unit_samples: length of a unit.
    """

    unit_samples: int
    _waiting: deque[Pcm] = field(factory=deque, init=False)
    _waiting_samples: int = field(default=0, init=False)
    _reserved: deque[_Unit] = field(factory=deque, init=False)

    def append(self, pcm: Pcm) -> None:
        """Add sound at the end."""
        if len(pcm):
            self._waiting.append(pcm)
            self._waiting_samples += len(pcm)

    def prepare_append(self) -> PcmAppendReservation | None:
        """Reserve the next whole unit, or None if there is none."""
        if self._waiting_samples < self.unit_samples:
            return None
        return self._reserve(self._take(self.unit_samples), self.unit_samples, final=False)

    def prepare_commit(self) -> PcmAppendReservation | None:
        """Reserve what is left as one last unit, padded with silence; None if nothing is left."""
        samples = min(self._waiting_samples, self.unit_samples)
        if samples == 0:
            return None
        pcm = self._take(samples)
        padded = np.concatenate([pcm, np.zeros(self.unit_samples - samples, np.float32)])
        return self._reserve(padded, samples, final=self._waiting_samples == 0)

    def clear(self) -> None:
        """Drop everything, reserved units included."""
        for unit in self._reserved:
            unit.active = False
        self._reserved.clear()
        self._waiting.clear()
        self._waiting_samples = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait or are reserved."""
        return (self._waiting_samples + sum(unit.samples for unit in self._reserved)) * BYTES_PER_SAMPLE

    @property
    def has_pending(self) -> bool:
        """Whether sound waits that is not reserved."""
        return self._waiting_samples > 0

    @property
    def has_reserved(self) -> bool:
        """Whether a unit is reserved and not settled."""
        return bool(self._reserved)

    def settle(self, unit: _Unit) -> None:
        """A unit was accepted; see `PcmAppendReservation.commit`.

        Raises:
            ValueError: it was given back or cleared, or an earlier one is not settled.
        """
        if not unit.active:
            raise ValueError("the unit was given back or cleared")
        if self._reserved[0] is not unit:
            raise ValueError("an earlier unit is not settled")
        self._reserved.popleft()
        unit.active = False

    def take_back(self, unit: _Unit) -> None:
        """Put a unit and all later ones back in front."""
        while self._reserved:
            last = self._reserved.pop()
            last.active = False
            self._waiting.appendleft(last.pcm[: last.samples])
            self._waiting_samples += last.samples
            if last is unit:
                break

    def _reserve(self, pcm: Pcm, samples: int, *, final: bool) -> PcmAppendReservation:
        unit = _Unit(self, pcm, samples, final)
        self._reserved.append(unit)
        return unit

    def _take(self, samples: int) -> Pcm:
        parts, missing = [], samples
        while missing:
            first = self._waiting.popleft()
            parts.append(first[:missing])
            if len(first) > missing:
                self._waiting.appendleft(first[missing:])
            missing -= len(parts[-1])
        self._waiting_samples -= samples
        return np.concatenate(parts)
