"""Pipelines by name. Packages announce theirs as entry points of the group `duplex_trio.pipelines`; each is
imported only when it is asked for, so that a broken one harms no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points

from attrs import frozen

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.pipelines.config import PipelineConfig
from duplex_trio.pipelines.deployment import check_deployment
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.topology import check_topology

GROUP = "duplex_trio.pipelines"
"""The group of entry points; each names a subclass of `Pipeline`."""


@frozen(kw_only=True)
class PipelineOrigin:
    """Where a pipeline comes from.

    Attributes:
        name: what deployments call it.
        distribution: the installed package that announces it, as installers call it.
        version: the version of that package.
        value: what it announces, `package.module:Class`.
    """

    name: str
    distribution: str
    version: str
    value: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} ({self.value})"


class PipelineUnavailableError(LookupError):
    """A pipeline cannot be had by its name. `name` is the name."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class UnknownPipelineError(PipelineUnavailableError):
    """A deployment names a pipeline that does not exist."""


class AmbiguousPipelineError(PipelineUnavailableError):
    """Several packages announce a pipeline of that name. `origins` are all of them."""

    def __init__(self, name: str, origins: Sequence[PipelineOrigin]) -> None:
        told = " and ".join(str(origin) for origin in origins)
        super().__init__(name, f"several packages have a pipeline {name!r}: {told}; uninstall all but one")
        self.origins = tuple(origins)


class BrokenPipelineError(PipelineUnavailableError):
    """A package announces a pipeline that is none. `origin` says which package, the cause what happened."""

    def __init__(self, origin: PipelineOrigin, reason: str) -> None:
        super().__init__(origin.name, f"pipeline {origin.name!r} of {origin} {reason}")
        self.origin = origin


def pipeline_names() -> list[str]:
    """The names that a deployment may use."""
    return sorted({origin.name for origin in pipeline_origins()})


def pipeline_origins() -> list[PipelineOrigin]:
    """Every announced pipeline by name, without importing it; a name that two packages claim is there twice."""
    return sorted((_origin(point) for point in _announced()), key=lambda o: (o.name, o.distribution))


def pipeline_config(name: str) -> PipelineConfig:
    """What a pipeline declares, without looking for its models.

    Raises:
        UnknownPipelineError: no pipeline has that name.
        AmbiguousPipelineError: several packages have one.
        BrokenPipelineError: it cannot be imported or is no pipeline.
    """
    return pipeline_class(name).config


def load_pipeline(deploy: DeployConfig) -> Pipeline:
    """Make the pipeline of a deployment. Blocking: it looks for model files.

    Raises:
        PipelineUnavailableError: as `pipeline_config`.
        TopologyError: it is declared wrongly.
        ModelReferenceError: a model of the deployment cannot be found.
        DeployError: the deployment asks for what it cannot do.
        ValueError: it cannot do with what the deployment says.
    """
    kind = pipeline_class(deploy.pipeline)
    check_topology(kind.config)
    check_deployment(kind, deploy)
    return kind(deploy)


def _announced() -> list[EntryPoint]:
    # A package that is found twice, such as by two entries of sys.path, is one package.
    return list(
        {(point.name, _origin(point).distribution): point for point in entry_points(group=GROUP)}.values()
    )


def _origin(point: EntryPoint) -> PipelineOrigin:
    package = point.dist
    return PipelineOrigin(
        name=point.name,
        distribution="an unknown package" if package is None else package.name,
        version="" if package is None else package.version,
        value=point.value,
    )


def pipeline_class(name: str) -> type[Pipeline]:
    """The class of a pipeline, imported.

    Raises:
        PipelineUnavailableError: as `pipeline_config`.
    """
    found = [point for point in _announced() if point.name == name]
    if not found:
        raise UnknownPipelineError(name, _unknown(name))
    if len(found) > 1:
        origins = sorted((_origin(point) for point in found), key=lambda origin: origin.distribution)
        raise AmbiguousPipelineError(name, origins)
    (point,) = found
    origin = _origin(point)
    try:
        kind = point.load()
    except (Exception, SystemExit) as error:
        # Whatever another package's module raises, it must be told whose it is.
        raise BrokenPipelineError(origin, f"cannot be imported: {type(error).__name__}: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, Pipeline)):
        raise BrokenPipelineError(origin, "is no subclass of duplex_trio.pipelines.pipeline.Pipeline")
    declared: object = getattr(kind, "config", None)
    if not isinstance(declared, PipelineConfig):
        raise BrokenPipelineError(origin, "declares no PipelineConfig as its `config`")
    if declared.name != name:
        raise BrokenPipelineError(origin, f"calls itself {declared.name!r} in its PipelineConfig")
    return kind


def _unknown(name: str) -> str:
    names = pipeline_names()
    close = get_close_matches(name, names, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"there is no pipeline {name!r}{hint}; there are {', '.join(names)}"
