"""What a deployment asks of a pipeline, held against what the pipeline declares. Pure: nothing is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from attrs import Attribute

from duplex_trio.deploy.config import DeployConfig, SessionMode
from duplex_trio.deploy.errors import DeployError, DeployFault, Finding
from duplex_trio.deploy.keys import TAKEN, default_of, file_key
from duplex_trio.deploy.stage import StageDeploy
from duplex_trio.pipelines.config import PipelineConfig, StageSpec
from duplex_trio.pipelines.declared import needed_path
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.sampling import sampling_faults

SHARED_KEYS: Mapping[SessionMode, frozenset[str]] = {
    "turn": frozenset({"max_chats", "stage_commands_max"}),
    "video": frozenset({"stage_commands_max"}),
}
"""Keys of `duplex_session` that have an effect where there are no sessions."""


def session_mode(config: PipelineConfig, deploy: DeployConfig) -> SessionMode:
    """How a pipeline is served: as the deployment says, else as it is meant to be.

    A pipeline without `duplex_plugin` is served in turns, or as the video that it makes, whatever is said.
    """
    if config.duplex_plugin is None and config.video_plugin is None:
        return "turn"
    if config.duplex_plugin is None and config.processor is None:
        return "video"
    return deploy.session_mode or config.default_session_mode


def check_deployment(pipeline: type[Pipeline], deploy: DeployConfig) -> None:
    """Refuse a deployment that asks of a pipeline what it cannot do.

    Raises:
        DeployError: naming every such key.
    """
    faults = [finding for finding in deployment_findings(pipeline, deploy) if finding.level == "fault"]
    if faults:
        found = [DeployFault(finding.key, str(finding)) for finding in faults]
        raise DeployError(f"a deployment of {pipeline.config.name}", found)


def deployment_findings(pipeline: type[Pipeline], deploy: DeployConfig) -> list[Finding]:
    """Everything there is to say of a deployment before any model is looked for: faults, and keys without effect."""
    specs = {spec.stage_id: spec for spec in pipeline.config.stages}
    known = [deploy.stage(stage.stage_id) for stage in deploy.stages if stage.stage_id in specs]
    found = [*_mode_findings(pipeline.config, deploy), *_stage_findings(pipeline.config.name, specs, deploy)]
    of_pipeline = pipeline.deployment_findings(attrs.evolve(deploy, stages=tuple(known)))
    return [*found, *of_pipeline, *_idle_keys(pipeline, deploy, known)]


def _mode_findings(config: PipelineConfig, deploy: DeployConfig) -> Iterator[Finding]:
    mode = session_mode(config, deploy)
    if deploy.session_mode not in (None, mode):
        served = "in turns" if mode == "turn" else "as video"
        message = f"is {deploy.session_mode}, and pipeline {config.name} can only be served {served}"
        yield Finding(key="session_mode", message=message, level="note")
    needed = needed_path(mode)
    if getattr(config, needed) is None:
        yield Finding(
            key="session_mode", message=f"cannot be {mode}: pipeline {config.name} declares no {needed}"
        )


def _stage_findings(name: str, specs: Mapping[int, StageSpec], deploy: DeployConfig) -> Iterator[Finding]:
    there = ", ".join(f"{stage_id} ({spec.name})" for stage_id, spec in specs.items())
    for stage in deploy.stages:
        spec = specs.get(stage.stage_id)
        if spec is None:
            message = f"must be one of the stages of pipeline {name}, {there}, not {stage.stage_id}"
            yield Finding(key="stage_id", stage_id=stage.stage_id, message=message)
        elif stage.model is not None and not spec.loads_model:
            message = (
                f"must be left out: stage {stage.stage_id} ({spec.name}) of pipeline {name} loads no model"
            )
            yield Finding(key="model", stage_id=stage.stage_id, message=message)
        if spec is not None:
            yield from _sampling_findings(spec, stage)


def _sampling_findings(spec: StageSpec, stage: StageDeploy) -> Iterator[Finding]:
    for name, message in sampling_faults(spec, stage.default_sampling_params):
        key = f"default_sampling_params.{name}" if name else "default_sampling_params"
        yield Finding(key=key, stage_id=spec.stage_id, message=message)


def _idle_keys(
    pipeline: type[Pipeline], deploy: DeployConfig, stages: Iterable[StageDeploy]
) -> Iterator[Finding]:
    """A note for each key that is set and changes nothing."""
    taken_by_any: set[str] = set()
    said = True
    for stage in stages:
        taken = pipeline.stage_keys(stage)
        said = said and taken is not None
        taken_by_any.update(taken or ())
        written = next(one for one in deploy.stages if one.stage_id == stage.stage_id)
        for key, who in _set_keys(written):
            if who == "never" or (who == "engine" and taken is not None and key not in taken):
                spec = pipeline.config.stages[stage.stage_id]
                message = (
                    f"has no effect on {spec.name}, stage {stage.stage_id} of pipeline {pipeline.config.name}"
                )
                yield Finding(key=key, stage_id=stage.stage_id, message=message, level="note")
    for key, who in _set_keys(deploy):
        idle = said and who == "engine" and key not in taken_by_any and not _whole(pipeline, deploy, key)
        if who == "never" or idle:
            message = f"has no effect on pipeline {pipeline.config.name}"
            yield Finding(key=key, message=message, level="note")
    mode = session_mode(pipeline.config, deploy)
    for key, who in _set_keys(deploy.duplex_session):
        path = f"duplex_session.{key}"
        if who == "never":
            yield Finding(key=path, message="has no effect: nothing reads it", level="note")
        elif mode in SHARED_KEYS and key not in SHARED_KEYS[mode]:
            message = f"has no effect: there are no sessions in {mode} mode"
            yield Finding(key=path, message=message, level="note", own=True)
    if mode == "video":
        if deploy.video is not None:
            message = "has no effect: this deployment serves video itself"
            yield Finding(key="video", message=message, level="note", own=True)
        return
    for key, _ in _set_keys(deploy.video_session):
        message = f"has no effect in {mode} mode: the one that `video` names says it"
        yield Finding(key=f"video_session.{key}", message=message, level="note", own=True)


def _whole(pipeline: type[Pipeline], deploy: DeployConfig, key: str) -> bool:
    """Whether a stage that the deployment does not mention takes a key of the top level."""
    mentioned = {stage.stage_id for stage in deploy.stages}
    others = [spec.stage_id for spec in pipeline.config.stages if spec.stage_id not in mentioned]
    taken = [pipeline.stage_keys(deploy.stage(stage_id)) for stage_id in others]
    return any(keys is None or key in keys for keys in taken)


def _set_keys(values: Any) -> Iterator[tuple[str, str]]:
    """The keys that say something else than their default, and who takes each."""
    attribute: Attribute[Any]
    for attribute in attrs.fields(type(values)):
        if getattr(values, attribute.name) != default_of(attribute):
            yield file_key(attribute), attribute.metadata.get(TAKEN, "always")
