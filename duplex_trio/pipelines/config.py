"""How a model declares itself: its stages, what feeds each, and the paths of what joins them.

Only values are here. `topology` says what they must be, `declared` loads what the paths name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Factory, frozen

from duplex_trio.deploy.config import SessionMode
from duplex_trio.stages.port import UNLIMITED

ExecutionType = Literal["autoregressive", "generation"]
FinalOutput = Literal["text", "audio", "prompt_state"]


@frozen(kw_only=True)
class StageSpec:
    """One stage of a pipeline.

    Attributes:
        stage_id: its place, counted from 0.
        name: what it is called in logs, metrics and on the command line.
        execution_type: `autoregressive` for a language model, which writes by `GenerationParams`; `generation`
            for everything else.
        input_sources: the stages that feed it, all of them earlier; none marks an entry stage.
        window: how many outputs of one request may wait for their consumer before the stage passes it over.
        loads_model: whether it has a model that a deployment may exchange.
        final_output: what a request that ends here gives its consumer; None for a stage that only feeds others.
        sampling_constraints: parameters of an autoregressive stage that hold whatever a request asks for.
    """

    stage_id: int
    name: str
    execution_type: ExecutionType = "generation"
    input_sources: tuple[int, ...] = ()
    window: int = UNLIMITED
    loads_model: bool = True
    final_output: FinalOutput | None = None
    sampling_constraints: Mapping[str, Any] = Factory(dict)


@frozen(kw_only=True)
class PipelineConfig:
    """A model as it is declared.

    Attributes:
        name: what deployments call it, and its entry point.
        stages: its stages, in order.
        processor: `package.module:name` of what makes its `TurnProcessor`, called with the `Pipeline`; None for
            a model that answers no turns by themselves.
        duplex_plugin: the same of what joins it to sessions; None for a model that has none.
        video_plugin: the same of what makes video of it; its stages then only serve that, such as to encode prompts.
        default_session_mode: how it is served where a deployment does not say.
        default_deploy: the deployment that is meant for it.
    """

    name: str
    stages: tuple[StageSpec, ...]
    processor: str | None = None
    duplex_plugin: str | None = None
    video_plugin: str | None = None
    default_session_mode: SessionMode = "turn"
    default_deploy: str | None = None
