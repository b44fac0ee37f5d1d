"""What a session asks of the stages. Implemented by the engine's duplex orchestrator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import trio
from attrs import frozen

from duplex_trio.pipelines.requests import StageForward
from duplex_trio.pipelines.results import DeliveredOutput, ModelFailure, TokenUsage
from duplex_trio.session.state.fence import DuplexFence
from duplex_trio.stages.port import OutputSink, StageStream
from duplex_trio.stages.units import Pcm
from duplex_trio.tracing import StageSpells


@frozen(kw_only=True)
class StageRequestContext:
    """Who asks for a stage request, and what for.

    `state` is the plugin's own of the request, `session_state` its own of the session. A `resumable` request
    stays open across the model's turns. `on_stages_free` is told the text of the answer when the next turn
    may enter the stages; see `DuplexModelPlugin.release_concurrent_turn_requests`. `on_usage` takes each
    `TokenUsage` of the model; without it they are among the outputs. Neither must raise. `spells` is told what each
    stage does for the request.
    """

    request_id: str
    fence: DuplexFence
    final_stage_id: int
    state: Any
    session_state: Any = None
    resumable: bool = False
    on_stages_free: Callable[[str], None] | None = None
    on_usage: Callable[[TokenUsage], None] | None = None
    spells: StageSpells | None = None


class DuplexStageRequest(ABC):
    """One live request of a session across the stages."""

    request_id: str

    @property
    @abstractmethod
    def outputs(self) -> trio.MemoryReceiveChannel[DeliveredOutput]:
        """What the model says; ends with the request."""

    @property
    @abstractmethod
    def failure(self) -> ModelFailure | None:
        """What ended the request, as soon as that is known; it is also the last of `outputs`."""

    @abstractmethod
    def consumed(self, delivered: DeliveredOutput) -> None:
        """Let the stage that made this output go on."""

    @abstractmethod
    async def submit(self, forward: StageForward) -> None:
        """Hand a unit to a stage and wait until it was taken.

        Raises:
            trio.BrokenResourceError: the stage is gone or the request is over.
        """

    @abstractmethod
    def abort(self) -> None:
        """End the request now. Idempotent, never blocks."""


class VoiceListener(ABC):
    """A session as voice activity sees it. All methods are called on the Trio thread and must not block."""

    @abstractmethod
    def next_frames(self, frames_max: int) -> Pcm:
        """Hand out the session's next sound to score: 16 kHz, whole frames of 512 samples, possibly none."""

    @abstractmethod
    def judge(self, probabilities: Sequence[float]) -> None:
        """Take the speech probability of each frame that was handed out last."""

    @abstractmethod
    def give_back(self) -> None:
        """What was handed out last is not scored: hand it out again."""

    @abstractmethod
    def suspended(self) -> None:
        """Nothing is scored until `resumed`; the line stays open."""

    @abstractmethod
    def resumed(self) -> None:
        """Sound is scored again."""

    @abstractmethod
    def unavailable(self) -> None:
        """Nothing will be scored any more; the line is closed."""

    @abstractmethod
    def crashed(self, error: Exception) -> None:
        """Another method has raised, which is the session's own fault; the line is closed. Must not raise."""


class VoiceLine(ABC):
    """The place of one session in voice activity."""

    @abstractmethod
    def ready(self) -> None:
        """Say that whole frames wait. They are scored at once, or with the next job if one is being scored."""

    @abstractmethod
    def close(self) -> None:
        """Leave. Idempotent; the listener is not called afterwards."""


class DuplexStagePort(ABC):
    """The stages, as one session sees them."""

    @property
    @abstractmethod
    def stage_count(self) -> int:
        """Number of stages in the pipeline."""

    @abstractmethod
    def ensure_request(self, context: StageRequestContext) -> DuplexStageRequest:
        """Begin a request. Never blocks.

        Raises:
            ValueError: the request id is live already.
        """

    @abstractmethod
    def abort_requests(self, request_ids: Sequence[str]) -> None:
        """Abort requests in every stage; unknown ids are skipped. Never blocks."""

    @abstractmethod
    async def cleanup(self, request: DuplexStageRequest) -> None:
        """Abort what is left of a request, wait until every stage let go, and forget it."""

    @abstractmethod
    def open_listener(self, session_id: str, stage_id: int, sink: OutputSink) -> StageStream:
        """A request on one stage that lives as long as the session, for transcripts of speech that goes on.

        Raises:
            trio.BrokenResourceError: the stage is not running.
        """

    @abstractmethod
    def open_vad(self, listener: VoiceListener) -> VoiceLine | None:
        """Have a session's sound scored for as long as it lives, or None without voice activity."""
