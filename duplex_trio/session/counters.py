"""What a session counts, for metrics. Plain numbers that only grow; whoever shows them adds sessions up."""

from __future__ import annotations

from attrs import define, field


@define
class SessionCounters:
    """Counters of one session.

    `first_audio_ms` are the waits from the end of the user's speech to the first sound of the answer that
    nobody has taken yet (see `take_first_audio_ms`).
    """

    responses_completed: int = 0
    responses_cancelled: int = 0
    responses_failed: int = 0
    barge_ins: int = 0
    speculations_started: int = 0
    speculations_adopted: int = 0
    speculations_discarded: int = 0
    partial_transcripts: int = 0
    commands_refused: int = 0
    discarded_audio_ms: float = 0.0
    cleanup_retries: int = 0
    lease_resumes: int = 0
    lease_expiries: int = 0
    first_audio_ms: list[float] = field(factory=list)

    def take_first_audio_ms(self) -> list[float]:
        """The waits since the last call."""
        taken, self.first_audio_ms = self.first_audio_ms, []
        return taken
