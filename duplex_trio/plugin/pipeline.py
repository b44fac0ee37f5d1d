"""How a model declares its stages and builds them from a deployment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from duplex_trio.stages.port import UNLIMITED
from duplex_trio.stages.worker import StageWorker

if TYPE_CHECKING:
    from duplex_trio.plugin.plugin import DuplexModelPlugin


@frozen(kw_only=True)
class StageSpec:
    """One stage of a pipeline. `input_sources` are the stages that feed it; none marks an entry stage.

    `window` is how many outputs of one request may wait for their consumer before the stage passes it over. A
    stage that `loads_model` has one that a deployment may exchange.
    """

    stage_id: int
    name: str
    input_sources: tuple[int, ...] = ()
    window: int = UNLIMITED
    loads_model: bool = True


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


class Pipeline(ABC):
    """A model: its stages, and the plugin that joins them to sessions."""

    name: str
    stages: tuple[StageSpec, ...]

    @abstractmethod
    def model_name(self) -> str:
        """The name under which the model is served."""

    @abstractmethod
    def build_worker(self, stage_id: int) -> StageWorker:
        """Make the runtime of one stage, not yet loaded.

        Raises:
            ModelReferenceError: a model reference of the deployment cannot be resolved.
        """

    @abstractmethod
    def build_plugin(self) -> DuplexModelPlugin:
        """Make the plugin."""

    def build_vad_worker(self) -> StageWorker | None:
        """Make the voice-activity runtime of server VAD, or None if the deployment has none."""
        return None
