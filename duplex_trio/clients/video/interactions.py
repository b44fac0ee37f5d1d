"""What has become of each interaction, as far as a client can tell from what it is told. Pure.

A server says which interactions a chunk starts, and which it completes; that one was superseded or interrupted it
says only in `session.done`. It follows from the order, though (video.md 3.2, 3.4): prompts are prepared in the order
in which they were admitted, so one that was admitted before another one that has started, and has not started itself,
never will; and one that had started before is listed for the last time in the chunk where the next one starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from attrs import define, field

from duplex_trio.protocol.video import InteractionOutcome, VideoChunkMetadata

InteractionState = Literal[
    "sent", "queued", "started", "completed", "superseded", "interrupted", "unfinished", "failed"
]
FINAL: frozenset[InteractionState] = frozenset(
    {"completed", "superseded", "interrupted", "unfinished", "failed"}
)
REMEMBERED_MAX = 10_000
"""As many as a server remembers (video.md 3.3); then the oldest that is over is forgotten."""


@define(eq=False)
class Interaction:
    """One interaction.

    Attributes:
        event_id: its name.
        prompt: what it asks for.
        state: `sent`, `queued`, `started`, `completed`; or `superseded` (a later one was ready before it began),
            `interrupted` (a later one began before it was wholly in force), `unfinished` (the video ended before),
            `failed`.
        error: why it failed, as `code: message`.
        started_chunk: generation index of the chunk that it began with.
        started_frame: how many frames came before that.
        completed_chunk: generation index of the chunk that it was wholly in force with.
        completed_frame: how many frames came before that.
    """

    event_id: str
    prompt: str
    state: InteractionState = "sent"
    error: str | None = None
    started_chunk: int | None = None
    started_frame: int | None = None
    completed_chunk: int | None = None
    completed_frame: int | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more will become of it."""
        return self.state in FINAL


@define(eq=False)
class Interactions:
    """All interactions of one video, in the order in which they were first sent.

    Args:
        remembered_max: how many are kept.
    """

    remembered_max: int = REMEMBERED_MAX
    _by_id: dict[str, Interaction] = field(factory=dict, init=False)
    _admitted: list[str] = field(factory=list, init=False)
    _running: Interaction | None = field(default=None, init=False)
    _displaced: list[Interaction] = field(factory=list, init=False)
    _chunk: int | None = field(default=None, init=False)

    @property
    def by_id(self) -> Mapping[str, Interaction]:
        """Those that are remembered."""
        return self._by_id

    def sent(self, event_id: str, prompt: str) -> Interaction:
        """One is sent. What is known of it stays if it was sent before, unless it had failed: then it is new."""
        known = self._by_id.get(event_id)
        if known is not None and known.state != "failed":
            return known
        self._by_id.pop(event_id, None)
        if len(self._by_id) >= self.remembered_max:
            oldest = next((each for each in self._by_id.values() if each.over), None)
            if oldest is not None:
                del self._by_id[oldest.event_id]
        self._by_id[event_id] = Interaction(event_id, prompt)
        return self._by_id[event_id]

    def queued(self, event_id: str, prompt: str) -> None:
        """The server has admitted one, or says once more that it had."""
        interaction = self.sent(event_id, prompt)
        if interaction.state == "sent":
            interaction.state = "queued"
            self._admitted.append(event_id)

    def refused(self, event_id: str) -> None:
        """The server did not admit it; what it had admitted under that id before stays."""
        interaction = self._by_id.get(event_id)
        if interaction is not None and interaction.state == "sent":
            del self._by_id[event_id]

    def failed(self, event_id: str, error: str) -> bool:
        """One that was admitted failed; false if there is none that can have."""
        interaction = self._by_id.get(event_id)
        if interaction is None or interaction.state != "queued":
            return False
        interaction.state, interaction.error = "failed", error
        self._admitted.remove(event_id)
        return True

    def shown(self, metadata: VideoChunkMetadata, frames_before: int) -> None:
        """A payload of frames came, with `frames_before` frames before it."""
        if metadata.generation_chunk_index != self._chunk:
            self._chunk = metadata.generation_chunk_index
            self._settle(self._displaced)
            self._displaced.clear()
        for event_id in metadata.started_event_ids:
            self._start(event_id, frames_before)
        for event_id in metadata.completed_event_ids:
            interaction = self._by_id.get(event_id)
            if interaction is not None and not interaction.over:
                interaction.state = "completed"
                interaction.completed_chunk, interaction.completed_frame = self._chunk, frames_before

    def ended(self, outcomes: Mapping[str, InteractionOutcome]) -> None:
        """The video ended, and the server says what became of each."""
        for event_id, interaction in self._by_id.items():
            outcome = outcomes.get(event_id)
            if outcome is not None and outcome != "queued":
                interaction.state = outcome
            elif not interaction.over:
                interaction.state = "unfinished"

    def _start(self, event_id: str, frame: int) -> None:
        if self._running is not None:
            self._displaced.append(self._running)
        if event_id in self._admitted:
            earlier = self._admitted[: self._admitted.index(event_id)]
            del self._admitted[: len(earlier) + 1]
            for other in earlier:
                self._by_id[other].state = "superseded"
        interaction = self._running = self._by_id.get(event_id)
        if interaction is not None:
            interaction.state = "started"
            interaction.started_chunk, interaction.started_frame = self._chunk, frame

    @staticmethod
    def _settle(displaced: Iterable[Interaction]) -> None:
        for interaction in displaced:
            if interaction.state == "started":
                interaction.state = "interrupted"
