"""Pipelines by name. Each is imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.plugin.pipeline import Pipeline, StageSpec

_PIPELINES = {
    "cascade": "duplex_trio.models.cascade.pipeline:CascadePipeline",
    "scripted": "duplex_trio.models.scripted.pipeline:ScriptedPipeline",
    "scripted_lockstep": "duplex_trio.models.scripted.lockstep:LockstepPipeline",
    "scripted_native": "duplex_trio.models.scripted.native:NativePipeline",
    "scripted_turns": "duplex_trio.models.scripted.turns:TurnsPipeline",
}


class UnknownPipelineError(LookupError):
    """A deployment names a pipeline that does not exist."""


def pipeline_names() -> list[str]:
    """The names that a deployment may use."""
    return sorted(_PIPELINES)


def pipeline_stages(name: str) -> tuple[StageSpec, ...]:
    """The stages that a pipeline declares, without looking for its models.

    Raises:
        UnknownPipelineError: no pipeline has that name.
    """
    stages: tuple[StageSpec, ...] = _pipeline_class(name).stages
    return stages


def load_pipeline(deploy: DeployConfig) -> Pipeline:
    """Make the pipeline of a deployment. Blocking: it looks for model files.

    Raises:
        UnknownPipelineError: no pipeline has that name.
        ModelReferenceError: a model of the deployment cannot be found.
    """
    pipeline: Pipeline = _pipeline_class(deploy.pipeline)(deploy)
    return pipeline


def _pipeline_class(name: str) -> Any:
    target = _PIPELINES.get(name)
    if target is None:
        raise UnknownPipelineError(f"there is no pipeline {name!r}; there are {', '.join(pipeline_names())}")
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)
