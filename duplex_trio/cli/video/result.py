"""What a clip became: the file, its figures, and what came of each prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from duplex_trio.cli.video.steering import Turn
from duplex_trio.clients.video import Interaction


@frozen
class TurnResult:
    """What came of one prompt. Times are seconds of playback.

    Attributes:
        prompt: what was wanted.
        at_s: from when.
        outcome: `completed`, `interrupted`, `unfinished`, `superseded`, `failed`, `refused`, or `not sent` when the
            clip ended before its time.
        started_s: where it begins to show.
        completed_s: from where it is wholly in force.
        error: why it failed or was refused.
    """

    prompt: str
    at_s: float
    outcome: str
    started_s: float | None = None
    completed_s: float | None = None
    error: str | None = None


@frozen(kw_only=True)
class ClipResult:
    """One clip.

    Attributes:
        file: where it is.
        mime_type: what it is.
        model: what made it.
        prompt: what it begins with.
        width: pixels.
        height: pixels.
        fps: frames for a second of playback.
        seed: that makes it again.
        frames: how many there are.
        size_bytes: of the file.
        generated_s: how long it took, from the start to the last payload.
        interrupted: whether it was ended by hand.
        turns: what came of each prompt.
    """

    file: Path
    mime_type: str
    model: str
    prompt: str
    width: int
    height: int
    fps: float
    seed: int | None
    frames: int
    size_bytes: int
    generated_s: float
    interrupted: bool
    turns: Sequence[TurnResult]

    @property
    def seconds(self) -> float:
        """How long it plays."""
        return self.frames / self.fps

    @property
    def speed(self) -> float:
        """How many times faster than it plays it was made."""
        return self.seconds / self.generated_s if self.generated_s > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            **asdict(self, value_serializer=lambda _o, _a, v: str(v) if isinstance(v, Path) else v),
            "seconds": self.seconds,
            "speed": self.speed,
        }


def turn_results(
    turns: Sequence[Turn], interactions: Mapping[str, Interaction], refused: Mapping[str, str], fps: float
) -> Sequence[TurnResult]:
    """What came of each prompt.

    Args:
        turns: the plan.
        interactions: the client's account of what was sent.
        refused: why, of those that were not taken.
        fps: frames for a second of playback.
    """
    return [
        _turn_result(turn, interactions.get(turn.event_id), refused.get(turn.event_id), fps) for turn in turns
    ]


def _turn_result(turn: Turn, interaction: Interaction | None, refused: str | None, fps: float) -> TurnResult:
    if refused is not None:
        return TurnResult(turn.prompt, turn.at_s, "refused", error=refused)
    if interaction is None:
        return TurnResult(turn.prompt, turn.at_s, "not sent")
    started, completed = interaction.started_frame, interaction.completed_frame
    return TurnResult(
        turn.prompt,
        turn.at_s,
        interaction.state,
        None if started is None else started / fps,
        None if completed is None else completed / fps,
        interaction.error,
    )
