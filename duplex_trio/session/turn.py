"""One turn of the model: a stage request from its planning to its release, and whose response it speaks for."""

from __future__ import annotations

import trio
from attrs import define, field

from duplex_trio.pipelines.results import TokenUsage
from duplex_trio.pipelines.stage_metrics import StageMetrics
from duplex_trio.protocol.duplex import RealtimeError, RequestMetrics, ResponseCreateOptions, Usage
from duplex_trio.session.port import DuplexStageRequest
from duplex_trio.session.state.response import Response
from duplex_trio.session.state.token_usage import shown_usage
from duplex_trio.stages.units import Pcm
from duplex_trio.tracing import StageSpells


@define(eq=False, kw_only=True)
class TurnTiming:
    """When things happened, in seconds of the session's clock; None for what has not happened."""

    speech_end_s: float | None = None
    opened_s: float | None = None
    committed_s: float | None = None
    transcript_s: float | None = None
    first_text_s: float | None = None
    first_audio_s: float | None = None

    def note_text(self, now_s: float) -> None:
        """Text came; the first counts."""
        if self.first_text_s is None:
            self.first_text_s = now_s

    def between(self, begin_s: float | None, end_s: float | None) -> float | None:
        """Milliseconds between two of them; None where one has not happened."""
        return None if begin_s is None or end_s is None else round((end_s - begin_s) * 1000, 1)


@define(eq=False, kw_only=True)
class Turn:
    """One turn.

    A turn may be *held*: it computes, but what it says stays inside until `released` is set. A turn
    prepared ahead of the end of the user's speech is held until the user really has finished; if the user
    goes on it is discarded. One that was committed while another answer is being spoken is held until that
    is over.

    `pcm` is the user's sound, None for a turn that answers the conversation as it stands; `frames` are the
    pictures that belong to it, None until it is known which. `item_id` is the user item whose transcript
    the turn makes. `respond` is false when only that is wanted. `awaits` are user items said before the
    turn whose transcripts it needs. `replaces` says that it does what a turn was let in for that a
    cancellation cut off. `in_line` says that the appender has it or has had it, `told` that the client
    knows what became of its transcript. `spells` is when each stage worked for it, where that is traced.
    `answer_text` is the whole answer, known once the stages that the next turn enters are free of this one.
    `usage` is what the model has told of its tokens so far. `stage_metrics` are what the stages did for it,
    and those of its response once there is one.
    """

    turn_id: int
    epoch: int
    request_id: str
    pcm: Pcm | None = None
    frames: tuple[bytes, ...] | None = None
    item_id: str | None = None
    options: ResponseCreateOptions | None = None
    respond: bool = True
    awaits: frozenset[str] = frozenset()
    response: Response | None = None
    transcript: str | None = None
    transcript_duration_s: float = 0.0
    failure: RealtimeError | None = None
    request: DuplexStageRequest | None = None
    speculative: bool = False
    replaces: bool = False
    in_line: bool = False
    told: bool = False
    answer_text: str | None = None
    usage: Usage | None = None
    discarded: bool = False
    timing: TurnTiming = field(factory=TurnTiming)
    stage_metrics: StageMetrics = field(factory=StageMetrics)
    spells: StageSpells | None = None
    opening: trio.CancelScope = field(factory=trio.CancelScope)
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    released: trio.Event = field(factory=trio.Event)

    def respond_in(self, response: Response) -> None:
        """From here on the turn speaks in a response, which takes over what the stages did so far."""
        self.response = response
        response.stage_metrics.merge(self.stage_metrics)
        self.stage_metrics = response.stage_metrics
        response.usage = self.usage
        response.spells = self.spells
        if self.spells is not None:
            self.spells.begin_answer()

    def note_usage(self, told: TokenUsage) -> None:
        """The model has told of its tokens; a response that is still open shows them at its end."""
        self.usage = shown_usage(told)
        if self.response is not None and self.response.status is None:
            self.response.usage = self.usage

    def request_metrics(self) -> RequestMetrics:
        """The wait for the answer, cut into its parts."""
        timing, between = self.timing, self.timing.between
        origin_s = timing.committed_s if timing.committed_s is not None else timing.opened_s
        return RequestMetrics(
            ttft_ms=between(origin_s, timing.first_text_s),
            ttfp_ms=between(origin_s, timing.first_audio_s),
            speech_end_to_commit_ms=between(timing.speech_end_s, timing.committed_s),
            speech_end_to_transcript_ms=between(timing.speech_end_s, timing.transcript_s),
            speech_end_to_first_audio_ms=between(timing.speech_end_s, timing.first_audio_s),
            speech_end_to_request_ms=between(timing.speech_end_s, timing.opened_s),
            speculative=self.speculative,
        )

    @property
    def metrics_claimed(self) -> bool:
        """Whether what the stages did needs no other response: it has one, or nobody wanted it."""
        if self.speculative and self.discarded:
            return True
        return self.response is not None and self.stage_metrics is self.response.stage_metrics

    @property
    def silent(self) -> bool:
        """Whether the sound is known to hold no words."""
        return self.transcript is not None and not self.transcript

    def discard(self) -> None:
        """Nobody wants the turn any more. Idempotent, never blocks."""
        self.discarded = True
        if self.request is not None:
            self.request.abort()
        self.opening.cancel()
        self.scope.cancel()
