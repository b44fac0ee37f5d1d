"""Which prompt is sent when, so that it begins with the first chunk at or after its time. Pure.

A server takes a prompt from the first chunk on that it has not begun when the prompt is ready, and it may make chunks
faster than prompts. So generation is held before the chunk that a prompt is to begin with: it is asked for with a
lead over playback (`streaming_buffer_seconds`), and the playback that is reported stops so far short of that chunk
that it may not be begun. What is reported a server takes to play on by itself for a while, so it is told again often.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from attrs import define, field, frozen

LEAD_MAX_S = 2.0
"""How far generation runs ahead of what has come: enough to make chunks without a break over a long line."""
TOLD_AGAIN_MAX_S = 0.25
_ROUNDING = 1e-6


@frozen
class Turn:
    """One change of the prompt that is wanted.

    Attributes:
        at_s: seconds of playback from which it is wanted.
        prompt: what for.
        event_id: its name on the wire.
    """

    at_s: float
    prompt: str
    event_id: str


def plan_turns(wanted: Iterable[tuple[float, str]]) -> Sequence[Turn]:
    """The changes in the order of their times; those of the same time as they were given."""
    ordered = sorted(wanted, key=lambda pair: pair[0])
    return [Turn(at_s, prompt, f"then-{number}") for number, (at_s, prompt) in enumerate(ordered, start=1)]


def lead_of(turns: Sequence[Turn]) -> float | None:
    """The lead, in seconds, to ask a video for that these changes steer; None, for any, where there are none.

    The chunk of the first change begins at its time at the earliest, so with half of that for a lead it waits for
    playback, however long chunks are.
    """
    return min(LEAD_MAX_S, turns[0].at_s / 2) if turns else None


@define
class Steering:
    """What of a plan is still to be sent, and how far the video may go until then.

    Of several changes that the same chunk would begin with, each begins a chunk after the one before it, as a server
    would let it take that one's place.

    Args:
        turns: the plan, in the order of its times.
        chunk_frames: frames of a chunk.
        fps: frames for a second of playback.
    """

    turns: Sequence[Turn]
    chunk_frames: int
    fps: float
    _borders: Sequence[int] = field(init=False)
    """The frame that each change begins with."""
    _sent: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._borders = list(self._planned())

    @property
    def told_again_s(self) -> float:
        """How often to report playback: several times while a chunk plays, which is what it is held short by."""
        return min(TOLD_AGAIN_MAX_S, self.chunk_frames / self.fps / 4)

    def due(self, frames: int) -> Turn | None:
        """The change to send now, if there is one: all `frames` before it have come, and no more are made."""
        if self._sent < len(self.turns) and frames >= self._borders[self._sent]:
            return self.turns[self._sent]
        return None

    def ready(self) -> None:
        """The change that was due will begin with the next chunk, or never: generation may go on."""
        self._sent += 1

    def played_s(self, frames: int) -> float:
        """The playback to report when so many frames have come: all of it, or as much as the next change lets."""
        played_s = frames / self.fps
        if self._sent == len(self.turns):
            return played_s
        lead_s = lead_of(self.turns) or 0.0
        held_s = (self._borders[self._sent] - self.chunk_frames) / self.fps - lead_s
        return max(0.0, min(played_s, held_s))

    def _planned(self) -> Iterator[int]:
        chunk = 0  # whose prompt is that of the start
        for turn in self.turns:
            wanted = math.ceil(turn.at_s * self.fps / self.chunk_frames - _ROUNDING)
            chunk = max(wanted, chunk + 1)
            yield chunk * self.chunk_frames
