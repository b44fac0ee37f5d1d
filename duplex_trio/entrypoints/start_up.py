"""From a deployment to an engine that serves: what is checked, in which order, before what it may cost.

    1 deployment    named, a file, or the one that a pipeline is meant for; and the pipeline it names
    2 session mode  a pipeline that declares one thing alone is served as that, such as in turns or as video; else as
                    the deployment says, else as the pipeline is meant to be
    3 servers       sessions live in one process: several behind one address cannot serve them
    4 model         its declaration, the deployment's keys, and what joins its stages can be imported; only then are
                    its models looked for, and what joins them is made
    5 stages        all loaded, side by side; what is up tries whether it takes the parameters of a request that
                    asks for none (the sampling dry-run), before it counts as loaded
    6 warm-up       one turn, as a client would take it; of a model of video, its weights and one chunk

A deployment of video that is served beside another one takes the same steps by itself.

The first fault ends it, and nothing behind it has begun: what costs nothing is checked before what takes seconds,
and that before what takes minutes. `plan_start` is 1 to 3 and the cheap half of 4, `build_omni` the rest of 4, and
the engine's `run` 5 and 6. Each step is in the log as `start.step`, at the level debug.
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from attrs import frozen

from duplex_trio.deploy import DeployConfig, load_deploy
from duplex_trio.deploy.config import SessionMode
from duplex_trio.entrypoints.steps import begin_step
from duplex_trio.pipelines.declared import load_declared, needed_path
from duplex_trio.pipelines.deployment import check_deployment, session_mode
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.registry import pipeline_class, pipeline_config
from duplex_trio.pipelines.topology import check_topology

if TYPE_CHECKING:
    from duplex_trio.entrypoints.omni_base import AsyncOmniBase


class NoDeploymentError(LookupError):
    """Nothing says what to serve. The message is for people."""


class SeveralServersError(ValueError):
    """Sessions cannot be served by several processes behind one address. The message is for people."""


@frozen(kw_only=True)
class StartPlan:
    """What will be served, once its models are found.

    Attributes:
        deploy: the deployment.
        pipeline: the model's class.
        session_mode: how it is served.
    """

    deploy: DeployConfig
    pipeline: type[Pipeline]
    session_mode: SessionMode


def plan_start(
    deploy: str | PathLike[str] | DeployConfig | None = None, *, pipeline: str | None = None, servers: int = 1
) -> StartPlan:
    """Check all that can be checked before any model is looked for: 1 to 4 of the module.

    Args:
        deploy: a bundled deployment by name, a file, or one that has been read.
        pipeline: serve the deployment that this pipeline is meant for, where `deploy` is None.
        servers: server processes behind the address, this one among them.

    Raises:
        NoDeploymentError: neither is given, or the pipeline is meant for none.
        DeployError: the deployment is faulty, or asks for what its pipeline cannot do.
        PipelineUnavailableError: there is no such pipeline, or it cannot be imported.
        SeveralServersError: sessions are to be served by several processes.
        TopologyError: the pipeline is declared wrongly.
        DeclaredPathError: what it declares to join its stages is not there.
    """
    begin_step("deployment")
    config = _resolve(deploy, pipeline)
    kind = pipeline_class(config.pipeline)
    begin_step("session_mode")
    mode = session_mode(kind.config, config)
    begin_step("servers")
    check_servers(mode, servers)
    begin_step("model")
    check_topology(kind.config)
    check_deployment(kind, config)
    load_declared(kind.config, needed_path(mode))
    return StartPlan(deploy=config, pipeline=kind, session_mode=mode)


def build_omni(plan: StartPlan, **options: Any) -> AsyncOmniBase:
    """Find the models and make the engine, not running yet: the rest of step 4. Blocking.

    Args:
        plan: what to serve.
        **options: further arguments of `DuplexOmni`, `AsyncOmni` or `VideoOmni`, which win over the deployment's.

    Raises:
        ModelReferenceError: a model cannot be found.
        PluginError: what joins the model to sessions does not keep the contract.
        DeclaredPathError: what joins its stages is not what it is declared as.
        ValueError: the pipeline cannot do with what the deployment says.
    """
    if plan.session_mode == "duplex":
        # A server of requests loads nothing of sessions.
        from duplex_trio.entrypoints.duplex_omni import DuplexOmni

        return DuplexOmni.from_deploy(plan.deploy, **options)
    if plan.session_mode == "video":
        from duplex_trio.entrypoints.video_omni import VideoOmni

        return VideoOmni.from_deploy(plan.deploy, **options)
    from duplex_trio.entrypoints.async_omni import AsyncOmni

    return AsyncOmni.from_deploy(plan.deploy, **options)


def check_servers(mode: SessionMode, servers: int) -> None:
    """Refuse to serve sessions from several processes.

    Raises:
        SeveralServersError: it is asked for.
    """
    if mode == "duplex" and servers != 1:
        raise SeveralServersError(
            f"sessions cannot be served by {servers} server processes behind one address: a session lives in one of "
            "them, and its client would not find it again; use one, or session_mode: turn"
        )


def _resolve(deploy: str | PathLike[str] | DeployConfig | None, pipeline: str | None) -> DeployConfig:
    if isinstance(deploy, DeployConfig):
        return deploy
    if deploy is not None:
        return load_deploy(fspath(deploy))
    if pipeline is None:
        raise NoDeploymentError("say what to serve: a deployment by name, a file, or a pipeline")
    meant = pipeline_config(pipeline).default_deploy
    if meant is None:
        raise NoDeploymentError(f"pipeline {pipeline!r} comes with no deployment of its own: write one")
    return load_deploy(meant)
