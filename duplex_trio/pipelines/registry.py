"""Pipelines by name. Packages announce theirs as entry points of the group `duplex_trio.pipelines`; each is
imported only when it is asked for.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.pipelines.config import PipelineConfig
from duplex_trio.pipelines.pipeline import Pipeline

GROUP = "duplex_trio.pipelines"
"""The group of entry points; each names a subclass of `Pipeline`."""


class UnknownPipelineError(LookupError):
    """A deployment names a pipeline that does not exist."""


def pipeline_names() -> list[str]:
    """The names that a deployment may use."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def pipeline_config(name: str) -> PipelineConfig:
    """What a pipeline declares, without looking for its models.

    Raises:
        UnknownPipelineError: no pipeline has that name.
    """
    return _pipeline_class(name).config


def load_pipeline(deploy: DeployConfig) -> Pipeline:
    """Make the pipeline of a deployment. Blocking: it looks for model files.

    Raises:
        UnknownPipelineError: no pipeline has that name.
        ModelReferenceError: a model of the deployment cannot be found.
    """
    return _pipeline_class(deploy.pipeline)(deploy)


def _pipeline_class(name: str) -> type[Pipeline]:
    found: dict[str, EntryPoint] = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        raise UnknownPipelineError(f"there is no pipeline {name!r}; there are {', '.join(pipeline_names())}")
    kind: type[Pipeline] = found[name].load()
    return kind
