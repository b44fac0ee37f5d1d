"""How a model declares itself: its stages, what feeds each, and the paths of what joins them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import Factory, frozen

from duplex_trio.deploy.config import SessionMode
from duplex_trio.stages.port import UNLIMITED


@frozen(kw_only=True)
class StageSpec:
    """One stage of a pipeline.

    Attributes:
        stage_id: its place, counted from 0.
        name: what it is called in logs, metrics and on the command line.
        input_sources: the stages that feed it; none marks an entry stage.
        window: how many outputs of one request may wait for their consumer before the stage passes it over.
        loads_model: whether it has a model that a deployment may exchange.
        final_output: what a request that ends here gives its consumer; None for a stage that only feeds others.
        sampling_constraints: parameters that hold whatever a request asks for.
    """

    stage_id: int
    name: str
    input_sources: tuple[int, ...] = ()
    window: int = UNLIMITED
    loads_model: bool = True
    final_output: Literal["text", "audio"] | None = None
    sampling_constraints: Mapping[str, Any] = Factory(dict)


@frozen(kw_only=True)
class PipelineConfig:
    """A model as it is declared.

    Attributes:
        name: what deployments call it.
        stages: its stages, in order.
        processor: `package.module:name` of what makes its `TurnProcessor`, called with the `Pipeline`; None for
            a model that answers no turns by themselves.
        duplex_plugin: the same of what joins it to sessions; None for a model that has none.
        default_session_mode: how it is served where a deployment does not say.
        default_deploy: the bundled deployment that is meant for it.
    """

    name: str
    stages: tuple[StageSpec, ...]
    processor: str | None = None
    duplex_plugin: str | None = None
    default_session_mode: SessionMode = "turn"
    default_deploy: str | None = None


def check_topology(stages: Sequence[StageSpec]) -> None:
    """Check that the ids are 0..n-1 in order, the sources exist and come earlier, and there is an entry
    stage.

    Raises:
        ValueError: naming the stage and the fault.
    """
    if [stage.stage_id for stage in stages] != list(range(len(stages))):
        raise ValueError(
            f"stage ids must be 0..{len(stages) - 1} in order, got {[s.stage_id for s in stages]}"
        )
    if not any(not stage.input_sources for stage in stages):
        raise ValueError("a pipeline needs an entry stage, one without input_sources")
    for stage in stages:
        for source in stage.input_sources:
            if not 0 <= source < stage.stage_id:
                raise ValueError(
                    f"stage {stage.stage_id} ({stage.name}) names {source} as source, not an earlier stage"
                )
