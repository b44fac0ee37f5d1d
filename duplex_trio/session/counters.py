"""What a session counts, for metrics. Plain numbers that only grow; the engine adds them up."""

from __future__ import annotations

from attrs import define, field


@define
class SessionCounters:
    """Counters of one session."""

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
    stale_outputs: int = 0
    cleanup_retries: int = 0
    barge_in_decide_ms: list[float] = field(factory=list)
    speech_end_to_first_audio_ms: list[float] = field(factory=list)
