"""From what a command line says about models to an engine, for every command that needs one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import attrs

from duplex_trio.cli.deployments import open_deployment
from duplex_trio.cli.errors import CommandError
from duplex_trio.deploy import DeployConfig, named_deployments, with_models
from duplex_trio.entrypoints.start_up import StartPlan, build_omni, plan_start
from duplex_trio.models.errors import ModelReferenceError

if TYPE_CHECKING:
    from duplex_trio.entrypoints.omni_base import AsyncOmniBase
    from duplex_trio.entrypoints.video_omni import VideoOmni

DEFAULT_DEPLOY = "cascade_cpu"
NO_VIDEO = "none"
"""How a command line says that no video is served beside a deployment."""


def read_deploy(
    name_or_path: str,
    *,
    models: Mapping[str, str | None],
    max_sessions: int | None = None,
    max_chats: int | None = None,
    platform: str | None = None,
) -> DeployConfig:
    """Read a deployment and let options win over it.

    Args:
        name_or_path: a bundled deployment or a file.
        models: model references by stage name (`asr`, `llm`, `tts`); None leaves the deployment's.
        max_sessions: sessions at once; None leaves the deployment's.
        max_chats: chat completions at once; None leaves the deployment's.
        platform: the section of its `platforms` to apply; this machine's by default.

    Raises:
        CommandError: the deployment is faulty, or has no stage of that name that loads a model.
    """
    document, pipeline = open_deployment(name_or_path, platform=platform)
    deploy = document.config
    stages = {stage.name: stage for stage in pipeline.config.stages}
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


def plan_serving(deploy: DeployConfig, *, servers: int = 1) -> StartPlan:
    """Check all that can be checked before any model is looked for.

    Args:
        deploy: what to serve.
        servers: server processes behind the address.

    Raises:
        CommandError: it cannot be served.
    """
    try:
        return plan_start(deploy, servers=servers)
    except (ValueError, LookupError) as error:
        raise CommandError(f"the deployment cannot be served: {error}") from error


def plan_video(asked: str | None, plan: StartPlan, *, platform: str | None = None) -> StartPlan | None:
    """Check what is served as video beside a deployment; None if nothing is.

    Args:
        asked: a deployment of video by name (`glyph-flow` is `glyph_flow`) or file, or `none`; None takes what the
            deployment says.
        plan: the deployment.
        platform: the section of `platforms` to apply; this machine's by default.

    Raises:
        CommandError: it cannot be served, is no deployment of video, or the deployment is one itself.
    """
    if plan.session_mode == "video":
        if asked not in (None, NO_VIDEO):
            raise CommandError(
                "--video-model is served beside speech, and this deployment serves video itself"
            )
        return None
    reference = plan.deploy.video if asked is None else _named(asked)
    if reference is None:
        return None
    where = f"video: {reference}" if asked is None else f"--video-model {asked}"
    try:
        video = plan_serving(read_deploy(reference, models={}, platform=platform))
    except CommandError as error:
        raise CommandError(f"{where}: {error}") from error
    if video.session_mode != "video":
        raise CommandError(f"{where}: that deployment serves no video (session_mode: {video.session_mode})")
    return video


def _named(asked: str) -> str | None:
    if asked == NO_VIDEO:
        return None
    names = {deployment.name for deployment in named_deployments()}
    spelled = asked.replace("-", "_")
    return spelled if asked not in names and spelled in names else asked


def make_video(plan: StartPlan) -> VideoOmni:
    """Find the models of a deployment of video and make its engine, not running yet. Blocking.

    Raises:
        CommandError: the pipeline cannot do with what the deployment says, or a model is not there, and what to do
            about it.
    """
    try:
        return cast("VideoOmni", make_omni(plan))
    except ModelReferenceError as error:
        raise CommandError(
            f"the video beside it: {error}; --video-model {NO_VIDEO} serves without"
        ) from error


def make_omni(plan: StartPlan, *, instructions: str | None = None) -> AsyncOmniBase:
    """Find the models of a deployment and make its engine, not running yet. Blocking.

    Args:
        plan: what to serve.
        instructions: instructions of sessions that bring none.

    Raises:
        CommandError: the pipeline cannot do with what the deployment says.
        ModelReferenceError: a model is not there, and what to do about it.
    """
    options = {} if instructions is None else {"instructions": instructions}
    try:
        return build_omni(plan, **options)
    except ValueError as error:
        raise CommandError(f"the deployment cannot be served: {error}") from error
