"""The steering of one video: which interactions are taken, what becomes of them, and what each chunk is made from.

The one account of it. Not safe for use by several threads: whoever calls holds the video's lock, so that an
interaction is either in time for a chunk or not (video.md 3.2):

    begin, next_chunk, ..., next_chunk(last), close_boundaries, end      the video
    admit -> prepared | failed                                           each interaction, in between

A video that is stopped ends at any point; `discard_chunk` comes first if the chunk that was resolved last is not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from attrs import define, field, frozen

from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.protocol.video import (
    InteractionOutcome,
    SessionInteraction,
    VideoRefused,
    payload_digest,
)
from duplex_trio.video.state.floods import TokenBucket
from duplex_trio.video.state.interactions import InteractionLedger, LedgerFullError
from duplex_trio.video.state.timeline import Blend, PromptTimeline, ResolvedChunk

S = TypeVar("S")

NO_UPDATES = "The active model does not support prompt updates."
TOO_LATE = "Generation is ending: no chunk is left that this could have an effect on."
"""What is told of an interaction that comes behind the last chunk, or is still being prepared then (video.md 3.2)."""
STOPPED = "Generation is ending: the video has been stopped."


@frozen(kw_only=True)
class Admission:
    """An interaction is to be acknowledged.

    Attributes:
        event_id: the client's id, or the one that was made for it.
        prepare: whether its prompt is to be encoded. It is not for one that was admitted before, nor for one that has
            failed.
        failure: why it has failed already, to be told behind the acknowledgement; its id is free again.
    """

    event_id: str
    prepare: bool
    failure: VideoRefused | None = None


@define
class VideoSteering(Generic[S]):
    """See the module.

    Args:
        blend: mixes two states of a prompt.
        default_transition_chunks: for interactions that do not say.
        supports_updates: whether the model takes interactions at all.
        limits: of this video.
    """

    _blend: Blend[S]
    _default_transition_chunks: int = field(kw_only=True)
    _supports_updates: bool = field(kw_only=True)
    _limits: VideoSessionDeploy = field(kw_only=True)
    _timeline: PromptTimeline[S] | None = field(default=None, init=False)
    _ledger: InteractionLedger = field(init=False)
    _rate: TokenBucket = field(init=False)
    _transitions: dict[str, int] = field(factory=dict, init=False)
    """Chunks of the transition of each interaction in preparation."""
    _open: bool = field(default=True, init=False)
    """Whether a chunk is still to be resolved."""
    _last_chunk: ResolvedChunk[S] | None = field(default=None, init=False)
    """The newest chunk, as long as it may still be discarded: what it does is not settled until then."""
    _too_late: str = field(default=TOO_LATE, init=False)
    _refused: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._ledger = InteractionLedger(self._limits.ids_max)
        self._rate = TokenBucket(self._limits.interactions_per_s, self._limits.interactions_burst)

    def begin(self, start_state: S) -> None:
        """The prompt of the request is encoded: from here on, chunks can be resolved. Once, before anything else."""
        assert self._timeline is None
        self._timeline = PromptTimeline(start_state, self._blend)

    def admit(self, interaction: SessionInteraction, *, now_s: float, new_id: Callable[[], str]) -> Admission:
        """Take an interaction: it is to be acknowledged before its prompt is given to be encoded.

        One that was admitted before, with the same payload, changes nothing, whenever it comes.

        Args:
            interaction: valid.
            now_s: the time; it does not go back.
            new_id: makes an id for one that has none.

        Raises:
            VideoRefused: `event_id_conflict`, `interaction_failed` (no chunk is left), `input_backpressure` or
                `resource_exhausted`, the first one that applies. Nothing is remembered of it.
        """
        try:
            return self._admit(interaction, now_s, new_id)
        except VideoRefused:
            self._refused += 1
            raise

    def prepared(self, event_id: str, target: S) -> bool:
        """The prompt of an interaction is encoded: it comes into force with the next chunk, unless a newer one does.

        Returns:
            Whether there is such a chunk. If not, it is one of those that `close_boundaries` or `end` tell.
        """
        if not self._open or self._ledger.state(event_id) != "preparing":
            return False
        superseded = self._begun.offer(event_id, target, self._transitions.pop(event_id))
        if superseded is not None:
            self._ledger.move(superseded, "superseded")
        self._ledger.move(event_id, "ready")
        return True

    def failed(self, event_id: str) -> bool:
        """The prompt of an interaction could not be encoded: its id is free again.

        Returns:
            Whether the client is to be told; not so if it has been told that it came too late.
        """
        if self._ledger.state(event_id) != "preparing":
            return False
        self._fail(event_id)
        return True

    @property
    def pending(self) -> str | None:
        """The interaction that begins with the next chunk, unless a newer one takes its place."""
        return self._begun.pending

    @property
    def blends(self) -> bool:
        """Whether `next_chunk` mixes states, and so may take long."""
        return self._begun.blends

    def next_chunk(self, *, last: bool) -> ResolvedChunk[S]:
        """What the next chunk is made from.

        Args:
            last: no chunk follows it: from here on no interaction is admitted, and `close_boundaries` is to be called
                before the lock is released.
        """
        assert self._open
        self._settle()
        self._last_chunk = chunk = self._begun.resolve()
        for event_id in chunk.started:
            self._ledger.move(event_id, "started")
        self._open = not last
        return chunk

    def close_boundaries(self) -> Sequence[str]:
        """No further chunk will be resolved. May be called again, and then changes nothing.

        Returns:
            The interactions in preparation, which are to be answered with `interaction_failed`.
        """
        self._open = False
        late = self._ledger.ids_in("preparing")
        for event_id in late:
            self._fail(event_id)
        return late

    def discard_chunk(self) -> None:
        """The chunk that was resolved last will not be sent, and no further one will be resolved.

        What it would have started, completed or interrupted is left unfinished: nobody will have seen it.
        """
        chunk, self._last_chunk = self._last_chunk, None
        self._open = False
        if chunk is None:
            return
        for event_id in dict.fromkeys((*chunk.interrupted, *chunk.active)):
            self._ledger.move(event_id, "unfinished")

    def end(self, *, stopped: bool) -> Sequence[str]:
        """Generation is over: what has not come to its end by now is unfinished.

        If the chunk that was resolved last is not going to be sent, `discard_chunk` comes first.

        Args:
            stopped: before its end, because the client or the server wanted it.

        Returns:
            The interactions in preparation, which are to be answered with `interaction_failed`.
        """
        self._too_late = STOPPED if stopped else TOO_LATE
        self._settle()
        late = self.close_boundaries()
        for event_id in self._ledger.ids_in("ready", "started"):
            self._ledger.move(event_id, "unfinished")
        return late

    def outcomes(self) -> Mapping[str, InteractionOutcome]:
        """What became of each interaction that is remembered.

        `queued` is one that is not over; before the end, that is also one that is over with the newest chunk only.
        """
        return self._ledger.outcomes()

    def counts(self) -> Mapping[str, int]:
        """How many came to each outcome, forgotten ones included.

        `refused` are those that `admit` did not take. What the codec did not even read is not among them.
        """
        told: dict[str, int] = dict(self._ledger.counts().items())
        return {**told, "refused": self._refused} if self._refused else told

    @property
    def _begun(self) -> PromptTimeline[S]:
        assert self._timeline is not None
        return self._timeline

    def _admit(self, interaction: SessionInteraction, now_s: float, new_id: Callable[[], str]) -> Admission:
        event_id = interaction.event_id
        digest = payload_digest(interaction)
        known = self._ledger.digest(event_id) if event_id is not None else None
        if event_id is not None and known is not None:
            if known == digest:
                return Admission(event_id=event_id, prepare=False)
            message = "This id belongs to an interaction that wants something else."
            raise VideoRefused("event_id_conflict", message, param="interaction.event_id", event_id=event_id)
        if not self._open:
            raise VideoRefused("interaction_failed", self._too_late, event_id=event_id)
        if self._ledger.in_state("preparing") >= self._limits.preparing_max or not self._rate.take(now_s):
            message = "Too many interactions at once; this one may be sent again."
            raise VideoRefused("input_backpressure", message, event_id=event_id)
        name = event_id if event_id is not None else new_id()
        try:
            self._ledger.admit(name, digest)
        except LedgerFullError:
            message = "No interaction can be remembered beside those that are under way."
            raise VideoRefused("resource_exhausted", message, event_id=event_id) from None
        if not self._supports_updates:
            self._ledger.move(name, "failed")
            failure = VideoRefused("interaction_failed", NO_UPDATES, event_id=name)
            return Admission(event_id=name, prepare=False, failure=failure)
        chunks = interaction.transition_chunks
        self._transitions[name] = chunks if chunks is not None else self._default_transition_chunks
        return Admission(event_id=name, prepare=True)

    def _settle(self) -> None:
        """The chunk that was resolved last can be lost no more: what it completes and interrupts is so."""
        chunk, self._last_chunk = self._last_chunk, None
        if chunk is not None:
            for event_id in chunk.completed:
                self._ledger.move(event_id, "completed")
            for event_id in chunk.interrupted:
                self._ledger.move(event_id, "interrupted")

    def _fail(self, event_id: str) -> None:
        del self._transitions[event_id]
        self._ledger.move(event_id, "failed")
