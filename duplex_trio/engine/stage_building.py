"""From what a deployment says of a stage to the stage: its replicas, what carries each, and where."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial

from duplex_trio.deploy.devices import replica_places
from duplex_trio.pipelines.config import StageSpec
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.stages.pool import StagePool
from duplex_trio.stages.port import Stage
from duplex_trio.stages.process.run import ProcessStage
from duplex_trio.stages.run import ThreadStage
from duplex_trio.stages.worker import StageWorker

StageFactory = Callable[[StageWorker], Stage]
"""Makes the stage that carries a runtime."""


def threads(command_limit: int) -> StageFactory:
    """Carry each runtime in a thread, for which so many commands may wait."""
    return partial(ThreadStage, command_limit=command_limit)


def build_stage(
    pipeline: Pipeline,
    spec: StageSpec,
    in_thread: StageFactory,
    command_limit: int,
    shown: Mapping[str, str] | None = None,
) -> Stage:
    """Make one stage with its replicas, not running yet. It makes replicas anew while it runs.

    Args:
        pipeline: the model, with its deployment.
        spec: which stage.
        in_thread: what carries a runtime in this process.
        command_limit: how many commands may wait for a replica in another process.
        shown: the variables that the server was started with, which say what devices there are; its own by default.

    Raises:
        ModelReferenceError: a model of the deployment cannot be found.
        ValueError: the stage cannot be where the deployment wants it.
    """
    deploy = pipeline.deploy.stage(spec.stage_id)
    default_params = pipeline.sampling()[spec.stage_id].apply(None)

    def build_worker() -> StageWorker:
        worker = pipeline.build_worker(spec.stage_id)
        worker.default_params = default_params
        return worker

    def make(index: int) -> Stage:
        match deploy.execution:
            case "remote":
                return pipeline.build_remote_stage(spec.stage_id)
            case "process":
                place = replica_places(deploy, os.environ if shown is None else shown)[index]
                return ProcessStage(
                    build_worker(),
                    python=deploy.python,
                    environment=place.environment,
                    command_limit=command_limit,
                )
            case _:
                worker = build_worker()
                if worker.once_per_process and deploy.replicas > 1:
                    raise ValueError(
                        f"stage {spec.stage_id} ({spec.name}) cannot have {deploy.replicas} replicas in"
                        " threads: a process can have its runtime once; set execution: process for it"
                    )
                return in_thread(worker)

    return StagePool(spec.name, make, num_replicas=deploy.replicas)


def build_voice_activity(pipeline: Pipeline, in_thread: StageFactory) -> Stage | None:
    """Make the stage that scores speech, or None if the deployment has none.

    Raises:
        ModelReferenceError: its model cannot be found.
    """
    worker = pipeline.build_vad_worker()
    if worker is None:
        return None
    workers = [worker]

    def make(index: int) -> Stage:
        # The first one is there already: whether there is any was to be known.
        again = workers.pop() if workers else pipeline.build_vad_worker()
        if again is None:
            raise ValueError("the deployment has no voice activity any more")
        return in_thread(again)

    return StagePool(worker.name, make)
