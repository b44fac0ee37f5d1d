"""How quickly a cancellation takes hold: from the moment its cause arrived to the end of the epoch, to silence,
and to the release of the stages.

Each cancellation that somebody asked for is open until both of the latter are known. Times are seconds of the
session's clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field


@define(eq=False, kw_only=True)
class Interruption:
    """One cancellation.

    Attributes:
        epoch: the epoch that began with it.
        by_speech: the user's speech caused it, and not a command.
        received_s: when its cause arrived: the command, or the sound that made it certain that the user speaks.
        decide_ms: from there to the end of the epoch before.
        silence_ms: to the moment at which the last sound of that was handed to the socket; 0 when none was after
            the command. None while a write goes on.
        abort_ms: to the moment at which the stages had let go of all requests of that; None while they have not,
            and when there were none.
    """

    epoch: int
    by_speech: bool
    received_s: float
    decide_ms: float
    silence_ms: float | None
    abort_ms: float | None = None
    releasing: set[str] = field(factory=set, repr=False)

    @property
    def settled(self) -> bool:
        """Whether nothing more is to come."""
        return self.silence_ms is not None and not self.releasing


@define(eq=False)
class InterruptionLedger:
    """The cancellations of one session that have not taken hold everywhere."""

    _open: list[Interruption] = field(factory=list)

    def begin(
        self,
        *,
        epoch: int,
        by_speech: bool,
        received_s: float,
        now_s: float,
        requests: Iterable[str],
        writing: bool,
    ) -> Interruption:
        """An epoch has ended.

        Args:
            epoch: the epoch that begins.
            by_speech: the user's speech caused it.
            received_s: when the cause arrived.
            now_s: the time.
            requests: ids of the stage requests of older epochs that live.
            writing: whether sound of an older epoch is being written to the socket at this moment.
        """
        made = Interruption(
            epoch=epoch,
            by_speech=by_speech,
            received_s=received_s,
            decide_ms=(now_s - received_s) * 1000,
            silence_ms=None if writing else 0.0,
            releasing=set(requests),
        )
        self._open.append(made)
        return made

    def sound_written(self, epoch: int, now_s: float) -> list[Interruption]:
        """Sound of an epoch was handed to the socket; returns those that fell silent with that."""
        silent = [one for one in self._open if epoch < one.epoch and one.silence_ms is None]
        for one in silent:
            one.silence_ms = (now_s - one.received_s) * 1000
        return silent

    def released(self, request_id: str, now_s: float) -> list[Interruption]:
        """The stages have let go of a request; returns those of which it was the last one."""
        waited = [one for one in self._open if request_id in one.releasing]
        for one in waited:
            one.releasing.remove(request_id)
            if not one.releasing:
                one.abort_ms = (now_s - one.received_s) * 1000
        return [one for one in waited if not one.releasing]

    def take_settled(self) -> list[Interruption]:
        """Those that have taken hold everywhere, each once."""
        settled = [one for one in self._open if one.settled]
        if settled:
            self._open = [one for one in self._open if not one.settled]
        return settled
