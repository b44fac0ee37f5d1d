"""What a session counts and measures, for metrics. Numbers only grow; whoever shows them adds sessions up."""

from __future__ import annotations

from functools import partial

import attrs
from attrs import define, field

from duplex_trio.session.state.histogram import Histogram

_REACTION_MS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
_ANSWER_MS = (100, 200, 300, 400, 500, 600, 700, 800, 1000, 1250, 1500, 2000, 3000, 5000, 10_000)
_UNIT_MS = (10, 20, 40, 80, 120, 160, 250, 500, 750, 1000, 1250, 1500, 2000, 3000, 5000)
_JITTER_MS = (0.5, 1, 2, 5, 10, 20, 50, 100, 250, 500, 1000)
_DECODE_MS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_VAD_MS = (0.5, 1, 2, 5, 10, 20, 50, 100, 250, 1000)
_AGE_MS = (1, 5, 10, 50, 100, 250, 500, 1000, 2000, 5000, 10_000)


@define
class SessionCounters:
    """Counters and histograms of one session, or of several once they are added up. Times are milliseconds.

    Attributes:
        speech_stop_to_first_audio_ms: from the end of the user's speech to the first sound of the answer.
        barge_in_decide_ms: from the arrival of a command that cancels to the end of the epoch.
        barge_in_decide_speech_ms: the same where speech cancels, from the arrival of the sound that showed it.
        barge_in_silence_ms: from the same moments to the last sound of the old epoch that was handed to the socket;
            0 when none was.
        barge_in_abort_ms: from the same moments to the release of all stage requests of the old epoch.
        unit_latency_ms: from a whole unit to the answer of a model that owns its turns.
        unit_deadline_misses: answers to units that came too late; see `UnitClock`.
        silence_continuation_jitter_ms: how late a silent unit was handed over.
        egress_queue_age_ms: how long media waited before it was sent.
        discarded_audio_ms: sound of ended epochs that was made and never sent.
        stale_outputs: what a model put out for an epoch or a turn that nobody wanted any more.
        decode_ms: taking in one append, of a sample of them.
        vad_ms: one job of voice activity, its way to the stage and back included.
        leaked_requests: stage requests that were live when their session had ended; must be 0.
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
    unit_deadline_misses: int = 0
    discarded_audio_ms: float = 0.0
    stale_outputs: int = 0
    cleanup_retries: int = 0
    leaked_requests: int = 0
    lease_resumes: int = 0
    lease_expiries: int = 0
    speech_stop_to_first_audio_ms: Histogram = field(factory=partial(Histogram, _ANSWER_MS))
    barge_in_decide_ms: Histogram = field(factory=partial(Histogram, _REACTION_MS))
    barge_in_decide_speech_ms: Histogram = field(factory=partial(Histogram, _REACTION_MS))
    barge_in_silence_ms: Histogram = field(factory=partial(Histogram, _REACTION_MS))
    barge_in_abort_ms: Histogram = field(factory=partial(Histogram, _REACTION_MS))
    unit_latency_ms: Histogram = field(factory=partial(Histogram, _UNIT_MS))
    silence_continuation_jitter_ms: Histogram = field(factory=partial(Histogram, _JITTER_MS))
    egress_queue_age_ms: Histogram = field(factory=partial(Histogram, _AGE_MS))
    decode_ms: Histogram = field(factory=partial(Histogram, _DECODE_MS))
    vad_ms: Histogram = field(factory=partial(Histogram, _VAD_MS))

    def add(self, other: SessionCounters) -> None:
        """Add what another session counted."""
        for name in _NAMES:
            mine, more = getattr(self, name), getattr(other, name)
            if isinstance(mine, Histogram):
                mine.add(more)
            else:
                setattr(self, name, mine + more)

    def told(self) -> dict[str, float]:
        """What is worth a line in the log: counts that are not 0, and means of what was measured."""
        told: dict[str, float] = {}
        for name in _NAMES:
            value = getattr(self, name)
            mean = value.mean if isinstance(value, Histogram) else value
            if mean:
                told[name] = round(mean, 3)
        return told


_NAMES = tuple(attribute.name for attribute in attrs.fields(SessionCounters))
