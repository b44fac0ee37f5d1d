"""From what a deployment says of a stage to the stage: what carries its runtime, and where."""

from __future__ import annotations

from collections.abc import Callable

from duplex_trio.pipelines.config import StageSpec
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.stages.port import Stage
from duplex_trio.stages.worker import StageWorker


def build_stage(pipeline: Pipeline, spec: StageSpec, in_thread: Callable[[StageWorker], Stage]) -> Stage:
    """Make one stage, not running yet.

    Args:
        pipeline: the model, with its deployment.
        spec: which stage.
        in_thread: what carries a runtime in this process.

    Raises:
        ModelReferenceError: a model of the deployment cannot be found.
        ValueError: the stage cannot be where the deployment wants it.
    """
    return in_thread(pipeline.build_worker(spec.stage_id))
