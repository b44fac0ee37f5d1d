"""The contract of a model that owns its turns: it eats sound in fixed units and decides itself when to speak.

One stage request lives for a whole epoch. Every unit gets an answer: that the model listens, or what it says,
and whether its turn goes on (`SegmentEnd`) or is over (`TurnEnd`). None of these ends the request.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, frozen

from duplex_trio.pipelines.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.plugin.pcm_buffer import FixedUnitBuffer, PcmAppendBuffer
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.stages.units import ChatMessage, Pcm


@frozen(kw_only=True)
class EpochInput:
    """What a model is told when the request of an epoch begins.

    `conversation` is the history, heard text only; `session_state` is what
    `DuplexModelPlugin.create_session_state` made.
    """

    conversation: Sequence[ChatMessage]
    instructions: str | None = None
    modalities: frozenset[str] = frozenset({"audio", "text"})
    voice: str | None = None
    speed: float = 1.0
    temperature: float | None = None
    max_output_tokens: int | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: Any = None
    runtime_config: Mapping[str, Any] = Factory(dict)
    session_state: Any = None


@frozen(eq=False, kw_only=True)
class UnitInput:
    """One unit of input.

    `seq` counts the accepted units of the epoch from 1, `turn_seq` those of the model turn `turn_id`.
    `silence` marks a unit that the session made because the user sent nothing; `force_listen` asks the model
    to stop speaking; `final` marks the last unit before a commit, padded with silence.
    `frames` are the newest pictures, JPEG or PNG, oldest first, none of which came with an earlier unit.
    `runtime_config` is the session's as the unit is planned: it may have changed since the request began.
    """

    pcm: Pcm
    seq: int
    turn_seq: int
    turn_id: int
    silence: bool = False
    force_listen: bool = False
    final: bool = False
    frames: Sequence[bytes] = ()
    runtime_config: Mapping[str, Any] = Factory(dict)


class ResumableModelPlugin(DuplexModelPlugin):
    """A model with one request per epoch.

    `unit_samples` is the length of a unit at the input rate.
    """

    unit_samples: int

    def create_audio_buffer(self) -> PcmAppendBuffer:
        """The buffer that cuts a session's sound into units."""
        return FixedUnitBuffer(self.unit_samples)

    @abstractmethod
    def begin_request(self, epoch: EpochInput) -> Any:
        """Make the plugin's state of the request of one epoch, found in `RequestView.state`."""

    @abstractmethod
    def plan_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        """Plan one unit for stage 0."""

    async def prepare_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        """Plan one unit, and take time for it; the units behind it wait.

        A barge-in cancels this. The unit may come again then, in another epoch.
        """
        return self.plan_append(unit, request)

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        """Refused: such a model takes no turn by itself.

        Raises:
            RealtimeError: `text_only_turn_unsupported`.
        """
        raise RealtimeError("text_only_turn_unsupported", "the model decides itself when to speak")
