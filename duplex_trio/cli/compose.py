"""From what a command line says about models to an engine, for every command that needs one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from duplex_trio.cli.deployments import open_deployment
from duplex_trio.cli.errors import CommandError
from duplex_trio.deploy import DeployConfig, with_models
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.pipelines.deployment import session_mode
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.registry import load_pipeline

DEFAULT_DEPLOY = "cascade_cpu"


def read_deploy(
    name_or_path: str,
    *,
    models: Mapping[str, str | None],
    max_sessions: int | None = None,
    max_chats: int | None = None,
) -> DeployConfig:
    """Read a deployment and let options win over it.

    Args:
        name_or_path: a bundled deployment or a file.
        models: model references by stage name (`asr`, `llm`, `tts`); None leaves the deployment's.
        max_sessions: sessions at once; None leaves the deployment's.
        max_chats: chat completions at once; None leaves the deployment's.

    Raises:
        CommandError: the deployment is faulty, or has no stage of that name that loads a model.
    """
    document, pipeline = open_deployment(name_or_path)
    deploy = document.config
    stages = {stage.name: stage for stage in pipeline.config.stages}
    if (mode := session_mode(pipeline.config, deploy)) != "duplex":
        raise CommandError(f"{name_or_path}: session_mode is {mode}; only duplex can be served")
    asked = {role: reference for role, reference in models.items() if reference is not None}
    for role in asked:
        if role not in stages:
            raise CommandError(
                f"--{role}: pipeline {deploy.pipeline} has no {role} stage, but {', '.join(stages)}"
            )
        if not stages[role].loads_model:
            raise CommandError(f"--{role}: pipeline {deploy.pipeline} loads no models")
    deploy = with_models(deploy, {stages[role].stage_id: reference for role, reference in asked.items()})
    bounds = {"max_sessions": max_sessions, "max_chats": max_chats}
    given: dict[str, Any] = {name: bound for name, bound in bounds.items() if bound is not None}
    return attrs.evolve(deploy, duplex_session=attrs.evolve(deploy.duplex_session, **given))


def find_models(deploy: DeployConfig) -> Pipeline:
    """Find the models of a deployment. Blocking.

    Raises:
        CommandError: a pipeline cannot do with what the deployment says of a stage.
        ModelReferenceError: a model is not there, and what to do about it.
    """
    try:
        return load_pipeline(deploy)
    except ValueError as error:
        raise CommandError(f"the deployment cannot be served: {error}") from error


def make_omni(pipeline: Pipeline, deploy: DeployConfig, *, instructions: str | None = None) -> DuplexOmni:
    """Make the engine of a deployment, not running yet."""
    session = deploy.duplex_session
    return DuplexOmni(
        pipeline,
        max_sessions=session.max_sessions,
        max_chats=session.max_chats,
        limits=session,
        instructions=instructions,
        stage_commands_max=session.stage_commands_max,
        warm_up=session.warmup_frames >= 0,
    )
