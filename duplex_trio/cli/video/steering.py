"""Which prompt is sent when. Pure.

A clip is generated as fast as it can be, and what is sent while chunk g+1 is rendered takes effect with chunk g+2. So a
prompt that is to begin at a time is sent when the chunk has come after which only one more stands before that time.
One that follows is held back until the one before it has begun, as a server would let it supersede that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field, frozen

from duplex_trio.clients.video import Interaction

_ROUNDING_S = 1e-6


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


@define
class Steering:
    """What of a plan is still to be sent."""

    turns: Sequence[Turn]
    _sent: int = field(default=0, init=False)

    def due(self, come_s: float, chunk_s: float, interactions: Mapping[str, Interaction]) -> Turn | None:
        """The change to send now, if there is one; it counts as sent.

        Args:
            come_s: playback time of what has come.
            chunk_s: playback time of one chunk.
            interactions: what has become of those sent before.
        """
        if self._sent == len(self.turns):
            return None
        turn = self.turns[self._sent]
        if come_s + chunk_s < turn.at_s - _ROUNDING_S:
            return None
        if self._sent:
            before = interactions.get(self.turns[self._sent - 1].event_id)
            if before is not None and before.state in ("sent", "queued"):
                return None
        self._sent += 1
        return turn

    @property
    def unsent(self) -> Sequence[Turn]:
        """What has not been sent."""
        return self.turns[self._sent :]
