"""What joins the stages of a model for requests: one object per engine that holds what is particular to it.

The orchestrator calls it on each stage output, on the Trio thread, so hooks are synchronous, quick (under
1 ms) and free of side effects outside the state that they are given; the async ones may take their time. An
exception from a hook fails that request with `runtime_data_plane_stream_failed`, and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from duplex_trio.pipelines.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.pipelines.results import ModelResult
from duplex_trio.stages.port import StageOutput


class TurnProcessor(ABC):
    """How one turn goes through the stages of a model, and what comes of it.

    `sampling_knobs` are the fields of `Sampling` that the model honours; a request that sets another one is
    refused. The attributes named `supports_...` say what a request may hold: what is written, said or shown, and
    functions to call. Whether the model writes or speaks is told by the `final_output` of its stages. One that
    `speaks_at_speed` makes its sound at the speed of its turn; the sound of another is stretched.
    """

    input_sample_rate_hz: int = 16_000
    output_sample_rate_hz: int = 24_000
    default_voice: str | None = None
    voices: Sequence[str] = ()
    sampling_knobs: frozenset[str] = frozenset()
    supports_text_input: bool = True
    supports_sound_input: bool = True
    supports_image_input: bool = False
    supports_tools: bool = False
    speaks_at_speed: bool = False

    @abstractmethod
    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        """Plan the request that answers one turn.

        Raises:
            RequestRefused: the turn cannot be answered (`text_only_turn_unsupported`, ...).
        """

    async def prepare_turn(self, turn: TurnInput) -> TurnPlan:
        """Plan the request that answers one turn, and take time for it.

        For a model with real work to do, such as preparing images in a thread. A turn that is cancelled
        meanwhile cancels this; so does one that takes longer than `unit_timeout_s`.

        Raises:
            RequestRefused: as `plan_turn`.
        """
        return self.plan_turn(turn)

    def check_tools(self, tools: Sequence[Mapping[str, Any]], param: str) -> None:
        """Try whether the model can be told of functions, at the command that declares them.

        Args:
            tools: the functions, as the client wrote them.
            param: where they stand: `session.tools`, `response.tools` or `tools`.

        Raises:
            RequestRefused: they are refused; its `param` says where below `param`.
        """
        return

    @abstractmethod
    def forward(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[StageForward]:
        """Units for later stages that this output makes possible, in order.

        Called for stages before the final one.
        """

    @abstractmethod
    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        """What the output means to the client; empty for an output that only feeds a later stage.

        A `ModelFailure` ends the request, and so does a `ListenResult` or `TurnEnd` unless the request is
        resumable: its other stages are aborted.
        """
