"""Where a program is played, and what a step of it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from attrs import define, field

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.testing.conformance.stuck import HeldInlineStage
from duplex_trio.testing.conformance.wrapped import Doom
from duplex_trio.testing.invariants import core_of
from duplex_trio.testing.returning import ReturningTalker


@define(eq=False)
class Scene:
    """Where a program is played.

    Attributes:
        omni: the engine.
        talker: the session and its client, which may lose its connection and come back.
        stages: what carries the runtimes; can be made slow and can be held.
        doom: makes the session's units fail.
        endings: reasons for which the session may end, by what has happened to it so far.
    """

    omni: DuplexOmni
    talker: ReturningTalker
    stages: Sequence[HeldInlineStage]
    doom: Doom
    endings: set[str] = field(factory=set)

    @property
    def open(self) -> bool:
        """Whether the session goes on."""
        return not core_of(self.talker.handle).closing

    @property
    def prompts(self) -> bool:
        """Whether the session prompts a silent user again and again, so that it never comes to rest."""
        detection = core_of(self.talker.handle).state.config.turn_detection
        return getattr(detection, "idle_timeout_ms", None) is not None

    def gone(self) -> bool:
        """Whether the client's connection does not work, as far as somebody who looks at it can tell."""
        heard = self.talker.heard
        return heard.broken or heard.stalled or not self.talker.handle.attached

    def response_id(self, back: int) -> str:
        """The id of a response, 0 being the latest; one that does not exist if there are fewer."""
        responses = core_of(self.talker.handle).state.responses_newest_first()
        return responses[back].response_id if back < len(responses) else "nobodys"

    def item_id(self, index: int) -> str:
        """The id of an item of the conversation by its place; one that does not exist if there are fewer."""
        ids = [entry.item.id for entry in core_of(self.talker.handle).state.conversation.entries()]
        return ids[index] if -len(ids) <= index < len(ids) else "nowhere"


class Step(ABC):
    """Something that happens."""

    @abstractmethod
    async def play(self, scene: Scene) -> None:
        """Let it happen."""
