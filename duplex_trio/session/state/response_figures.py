"""What the engine measured about one response, beside the wait for it and the work of the stages."""

from __future__ import annotations

from attrs import define

from duplex_trio.protocol.duplex import EngineFigures
from duplex_trio.session.state.unit_clock import UnitAnswered


@define
class ResponseFigures:
    """Figures of one response while it goes on.

    Attributes:
        barge_in_decide_ms: of a cancelled response, from the cause to the end of its epoch.
        discarded_audio_ms: sound that was made for it and never sent.
        units: units that were answered while it was spoken.
        unit_latency_ms: what they waited for their answers, all together.
        unit_deadline_misses: answers among them that came too late.
    """

    barge_in_decide_ms: float | None = None
    discarded_audio_ms: float = 0.0
    units: int = 0
    unit_latency_ms: float = 0.0
    unit_deadline_misses: int = 0

    def note_unit(self, answered: UnitAnswered) -> None:
        """A unit was answered."""
        self.units += 1
        self.unit_latency_ms += answered.latency_ms
        self.unit_deadline_misses += answered.missed

    def shown(self) -> EngineFigures | None:
        """The figures for the wire; None when there is nothing to tell."""
        made = EngineFigures(
            barge_in_decide_ms=_rounded(self.barge_in_decide_ms),
            discarded_audio_ms=_rounded(self.discarded_audio_ms or None),
            units=self.units or None,
            unit_latency_ms=_rounded(self.unit_latency_ms / self.units) if self.units else None,
            unit_deadline_misses=self.unit_deadline_misses if self.units else None,
        )
        return made if made != EngineFigures() else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
