"""What a model brings, as ABCs: how to write a plugin.

A model is a `pipeline.Pipeline`: the stages that it declares, a worker for each (`stages.worker`), and one
plugin object per engine. The plugin knows the model and nothing of sockets, sessions or threads; the session
knows no model. Two kinds of plugin:

- `plugin.DuplexModelPlugin` answers whole turns, one request a turn. Write `capabilities`, `plan_turn` (a
  turn to the unit of its first stage), `forward` (an output of a stage to units of later ones) and `project`
  (an output to `results`, which the session turns into events). `plan_partial` and `speculation_pause_ms`
  make it quick; `release_concurrent_turn_requests` lets the next turn in while an answer is being spoken.
- `resumable.ResumableModelPlugin` owns its turns, one request an epoch. Write `unit_samples`, `begin_request`
  and `plan_append` instead of `plan_turn`; each unit is answered once, by `ListenResult`, `SegmentEnd` or
  `TurnEnd`.

Hooks run on the Trio thread: quick, synchronous, and without side effects outside the state that they are
given. Where there is real work, override the async twin, which may offload to a thread:
`prepare_runtime_config` while a session opens, `prepare_turn` or `prepare_append` before a request. It is
cancelled when nobody wants it any more.

State has three homes. Of a request: what `TurnPlan.state` or `begin_request` made, found in
`RequestView.state`. Of a session: what `create_session_state` made, found as `session_state`; text that is to
stay is a `ModelContext` that comes back in `commit_model_context` once the answer has come to it. Of its
configuration: a mapping that is never changed, only replaced by the hooks named `runtime_config_...`. Nothing
belongs in the plugin object itself.

`capabilities` says what sessions may ask for; what is not declared is refused. `checks` looks at all that is
declared before a stage is built, and `duplex_trio.testing.conformance` holds a plugin to the rest of the
contract:

    @pytest.mark.parametrize("check", conformance_checks(MyPipeline), ids=str)
    async def test_conformance(autojump_clock: MockClock, check: ConformanceCheck) -> None:
        await check.run()

The models under `models/scripted` are plugins of each kind without weights; read `turns` or `native` first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_trio.lazy import lazy_names

if TYPE_CHECKING:
    from duplex_trio.pipelines.config import PipelineConfig, StageSpec
    from duplex_trio.pipelines.pipeline import Pipeline
    from duplex_trio.pipelines.processor import TurnProcessor
    from duplex_trio.pipelines.requests import RequestView, StageForward, TurnInput, TurnPlan
    from duplex_trio.pipelines.results import (
        FunctionCallArguments,
        FunctionCallBegin,
        FunctionCallEnd,
        FunctionCallResult,
        ListenResult,
        ModelContext,
        ModelFailure,
        ModelNote,
        ModelResult,
        SegmentEnd,
        SpeechResult,
        TextResult,
        TokenUsage,
        TurnEnd,
        UserTranscript,
    )
    from duplex_trio.plugin.capabilities import DuplexCapabilities
    from duplex_trio.plugin.pcm_buffer import FixedUnitBuffer, PcmAppendBuffer, PcmAppendReservation
    from duplex_trio.plugin.plugin import DuplexModelPlugin
    from duplex_trio.plugin.resumable import EpochInput, ResumableModelPlugin, UnitInput
    from duplex_trio.protocol.refusal import RequestRefused
    from duplex_trio.stages.port import StageOutput, StageRequest
    from duplex_trio.stages.units import (
        ChatCall,
        ChatMessage,
        ChatPrompt,
        Clause,
        GenerationParams,
        Pcm,
        SpeechChunk,
        TextDelta,
        Transcript,
    )
    from duplex_trio.stages.worker import SerialWorker, StageWorker, UnitRefused, WorkerContext

__all__ = [
    "ChatCall",
    "ChatMessage",
    "ChatPrompt",
    "Clause",
    "DuplexCapabilities",
    "DuplexModelPlugin",
    "EpochInput",
    "FixedUnitBuffer",
    "FunctionCallArguments",
    "FunctionCallBegin",
    "FunctionCallEnd",
    "FunctionCallResult",
    "GenerationParams",
    "ListenResult",
    "ModelContext",
    "ModelFailure",
    "ModelNote",
    "ModelResult",
    "Pcm",
    "PcmAppendBuffer",
    "PcmAppendReservation",
    "Pipeline",
    "PipelineConfig",
    "RequestRefused",
    "RequestView",
    "ResumableModelPlugin",
    "SegmentEnd",
    "SerialWorker",
    "SpeechChunk",
    "SpeechResult",
    "StageForward",
    "StageOutput",
    "StageRequest",
    "StageSpec",
    "StageWorker",
    "TextDelta",
    "TextResult",
    "TokenUsage",
    "Transcript",
    "TurnEnd",
    "TurnInput",
    "TurnPlan",
    "TurnProcessor",
    "UnitInput",
    "UnitRefused",
    "UserTranscript",
    "WorkerContext",
]

_HOMES = {
    "duplex_trio.pipelines.config": ("PipelineConfig", "StageSpec"),
    "duplex_trio.pipelines.pipeline": ("Pipeline",),
    "duplex_trio.pipelines.processor": ("TurnProcessor",),
    "duplex_trio.pipelines.requests": ("RequestView", "StageForward", "TurnInput", "TurnPlan"),
    "duplex_trio.pipelines.results": (
        "FunctionCallArguments",
        "FunctionCallBegin",
        "FunctionCallEnd",
        "FunctionCallResult",
        "ListenResult",
        "ModelContext",
        "ModelFailure",
        "ModelNote",
        "ModelResult",
        "SegmentEnd",
        "SpeechResult",
        "TextResult",
        "TokenUsage",
        "TurnEnd",
        "UserTranscript",
    ),
    "duplex_trio.plugin.capabilities": ("DuplexCapabilities",),
    "duplex_trio.plugin.pcm_buffer": ("FixedUnitBuffer", "PcmAppendBuffer", "PcmAppendReservation"),
    "duplex_trio.plugin.plugin": ("DuplexModelPlugin",),
    "duplex_trio.plugin.resumable": ("EpochInput", "ResumableModelPlugin", "UnitInput"),
    "duplex_trio.protocol.refusal": ("RequestRefused",),
    "duplex_trio.stages.port": ("StageOutput", "StageRequest"),
    "duplex_trio.stages.units": (
        "ChatCall",
        "ChatMessage",
        "ChatPrompt",
        "Clause",
        "GenerationParams",
        "Pcm",
        "SpeechChunk",
        "TextDelta",
        "Transcript",
    ),
    "duplex_trio.stages.worker": ("SerialWorker", "StageWorker", "UnitRefused", "WorkerContext"),
}

# A worker in a process of its own needs nothing of sessions.
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
