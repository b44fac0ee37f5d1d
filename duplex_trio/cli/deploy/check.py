"""Everything that can be found wrong with a deployment before a model is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

from attrs import Factory, define

from duplex_trio.deploy import DeployConfig, DeployError, DeployFault, Document, Finding, read_deploy
from duplex_trio.deploy.machine import device_findings, engine_findings, python_findings, remote_findings
from duplex_trio.models.errors import ModelReferenceError
from duplex_trio.models.lookup import ModelNotHereError, look_up
from duplex_trio.pipelines.declared import DeclaredPathError, load_declared, needed_path
from duplex_trio.pipelines.deployment import deployment_findings, session_mode
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.registry import PipelineUnavailableError, pipeline_class
from duplex_trio.pipelines.topology import topology_faults

ENGINE_KEY = "gpu_memory_utilization"
"""A stage that takes it runs a vLLM engine."""


@define
class Report:
    """What was found. `told` sums up a deployment without faults."""

    name: str
    faults: list[DeployFault] = Factory(list)
    notes: list[DeployFault] = Factory(list)
    told: str = ""


def check_deployment(name_or_path: str, *, platform: str | None = None) -> Report:
    """Check a deployment on this machine. Blocking: it imports the pipeline and may start interpreters.

    Args:
        name_or_path: a deployment's name, or a file.
        platform: the section of `platforms` to apply; this machine's by default. The sections for others are held to
            the keys that there are, and no more.
    """
    report = Report(name_or_path)
    try:
        document = read_deploy(name_or_path, platform=platform)
    except DeployError as error:
        report.faults += error.faults
        return report
    for other in document.platforms:
        if other != document.platform:
            report.faults += _faults_elsewhere(name_or_path, other)
    pipeline = _pipeline(document, report)
    if pipeline is None:
        return report
    faults, notes = document.told(_findings(pipeline, document.config))
    report.faults += faults
    report.notes += notes
    mode = session_mode(pipeline.config, document.config)
    stages = ", ".join(spec.name for spec in pipeline.config.stages)
    report.told = f"pipeline {pipeline.config.name} ({stages}) in {mode} mode on {document.platform}"
    if document.config.video is not None and mode != "video":
        _check_beside(document, document.config.video, platform, report)
    return report


def _check_beside(document: Document, video: str, platform: str | None, report: Report) -> None:
    """Check the deployment of video that is served beside another one."""
    place = document.locate(Finding(key="video", message="")).place
    try:
        beside = read_deploy(video, platform=platform).config
        mode = session_mode(pipeline_class(beside.pipeline).config, beside)
    except (DeployError, PipelineUnavailableError) as error:
        report.faults.append(DeployFault("video", f"video {video} cannot be served: {error}", place))
        return
    if mode != "video":  # it is not looked into: it might name this one
        fault = f"video must name a deployment of video, and {video} is in {mode} mode"
        report.faults.append(DeployFault("video", fault, place))
        return
    found = check_deployment(video, platform=platform)
    report.faults += found.faults
    report.notes += found.notes
    report.told += f", and beside it {found.told or video}"


def _faults_elsewhere(name_or_path: str, platform: str) -> list[DeployFault]:
    try:
        read_deploy(name_or_path, platform=platform)
    except DeployError as error:
        return list(error.faults)
    return []


def _pipeline(document: Document, report: Report) -> type[Pipeline] | None:
    place = document.locate(Finding(key="pipeline", message="")).place
    try:
        pipeline = pipeline_class(document.config.pipeline)
    except PipelineUnavailableError as error:
        report.faults.append(DeployFault("pipeline", str(error), place))
        return None
    broken = topology_faults(pipeline.config)
    report.faults += [
        DeployFault("pipeline", f"pipeline {pipeline.config.name}: {fault}", place) for fault in broken
    ]
    return None if broken else pipeline


def _findings(pipeline: type[Pipeline], deploy: DeployConfig) -> Iterator[Finding]:
    yield from deployment_findings(pipeline, deploy)
    try:
        needed = needed_path(session_mode(pipeline.config, deploy))
        if getattr(pipeline.config, needed) is not None:
            load_declared(pipeline.config, needed)
    except DeclaredPathError as error:
        yield Finding(key="pipeline", message=f"cannot be used: {error}")
    if session_mode(pipeline.config, deploy) == "video" and find_spec("av") is None:
        message = "needs PyAV to encode video, which is not installed: `duplex-trio install cpu`, or duplex-trio[video]"
        yield Finding(key="", message=message)
    yield from device_findings(deploy, os.environ)
    for spec in pipeline.config.stages:
        stage = deploy.stage(spec.stage_id)
        taken = pipeline.stage_keys(stage)
        engine = taken is not None and ENGINE_KEY in taken
        if engine:
            yield from engine_findings(stage, os.environ)
        yield from python_findings(stage, os.environ, engine=engine)
        yield from remote_findings(stage, os.environ)
    yield from _model_findings(pipeline, deploy)


def _model_findings(pipeline: type[Pipeline], deploy: DeployConfig) -> Iterator[Finding]:
    for use in pipeline.models_used(deploy):
        try:
            look_up(use.reference, use.kind)
        except ModelNotHereError as error:
            yield Finding(
                key=use.key, stage_id=use.stage_id, message=f"is to be fetched: {error}", level="note"
            )
        except ModelReferenceError as error:
            yield Finding(key=use.key, stage_id=use.stage_id, message=f"cannot be loaded: {error}")
