"""Playback cursors: how much of each response's sound was made, sent, played and counted as heard.

Two sources tell what was played. A client of the duplex dialect reports it (`playback.ack`); for others the
position is
estimated: sound sent in real time is taken to be played without gaps from the moment its first byte went out.
The same estimate paces the egress.
"""

from __future__ import annotations

from attrs import define, field, frozen


@frozen
class PlaybackFigures:
    """One cursor as it travels on the wire, in milliseconds."""

    generated_ms: float
    sent_ms: float
    played_ms: float
    committed_ms: float


@define
class PlaybackCursor:
    """Progress of one response's sound.

    All values are cumulative milliseconds and never fall, but for a hard truncate.

    Attributes:
        text_requires_complete_audio: nobody knows which sound says which word, so the text was heard only when
            `audio_complete` sound was. Stays set.
        audio_complete: the model has made all of its sound. Stays set.
        hard_cap_ms: where the client has cut the sound for good.
    """

    generated_ms: float = 0.0
    sent_ms: float = 0.0
    played_ms: float = 0.0
    committed_ms: float = 0.0
    text_requires_complete_audio: bool = False
    audio_complete: bool = False
    hard_cap_ms: float | None = None

    def generate(self, duration_ms: float) -> None:
        """The model made more sound."""
        self.generated_ms += duration_ms

    def send(self, duration_ms: float) -> None:
        """More sound was handed to the client."""
        self.sent_ms += duration_ms

    def acknowledge(self, played_ms: float, committed_ms: float | None = None) -> None:
        """The client reports a position. Positions only grow, and never beyond a hard truncate."""
        committed = played_ms if committed_ms is None else committed_ms
        cap = float("inf") if self.hard_cap_ms is None else self.hard_cap_ms
        self.played_ms = max(self.played_ms, min(played_ms, cap))
        self.committed_ms = max(self.committed_ms, min(committed, cap))

    def truncate(self, audio_end_ms: float) -> None:
        """Set what counts as heard; nothing later raises it. The lowest truncation stands."""
        clamped = min(max(0.0, audio_end_ms), max(self.sent_ms, self.generated_ms))
        self.hard_cap_ms = clamped if self.hard_cap_ms is None else min(self.hard_cap_ms, clamped)
        self.committed_ms = self.hard_cap_ms

    @property
    def heard_ms(self) -> float:
        """What counts as heard by the client's word. Sound that was never sent was not heard, whatever it says."""
        return min(self.committed_ms, self.sent_ms)

    @property
    def total_ms(self) -> float:
        """All the sound there is of the response."""
        return max(self.sent_ms, self.generated_ms)

    @property
    def unheard(self) -> bool:
        """Whether sound was sent that no acknowledgement covers."""
        return self.sent_ms > self.committed_ms

    def figures(self) -> PlaybackFigures:
        """The values for the wire."""
        return PlaybackFigures(self.generated_ms, self.sent_ms, self.played_ms, self.committed_ms)


@define
class PlayoutClock:
    """Estimate of a gapless real-time player at the other end. Times are seconds of the session's clock."""

    play_end_s: float = field(default=float("-inf"))

    def send(self, duration_ms: float, now_s: float) -> None:
        """Sound was sent now; it is played after what is still waiting."""
        self.play_end_s = max(self.play_end_s, now_s) + duration_ms / 1000

    def ahead_ms(self, now_s: float) -> float:
        """Sent sound that has not been played yet."""
        return max(0.0, (self.play_end_s - now_s) * 1000)

    def clear(self) -> None:
        """The player threw away what it had."""
        self.play_end_s = float("-inf")
