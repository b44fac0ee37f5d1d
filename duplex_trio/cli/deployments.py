"""Opens the deployment that a command line names, and tells what is wrong with it or has no effect."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from duplex_trio.cli.errors import CommandError
from duplex_trio.deploy import DeployError, Document, read_deploy
from duplex_trio.deploy.machine import device_findings
from duplex_trio.pipelines.deployment import deployment_findings
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.registry import PipelineUnavailableError, pipeline_class

log = structlog.get_logger("duplex_trio.deploy")


@contextmanager
def opened(name: str) -> Iterator[None]:
    """Turn what reading the deployment `name` raises into an error of a command, a line for each fault.

    Raises:
        CommandError: the deployment is faulty, or there is no such pipeline.
    """
    try:
        yield
    except DeployError as error:
        raise CommandError("\n".join(fault.located for fault in error.faults)) from error
    except PipelineUnavailableError as error:
        raise CommandError(f"{name}: {error}") from error


def open_deployment(name_or_path: str, *, platform: str | None = None) -> tuple[Document, type[Pipeline]]:
    """Read a deployment and hold it against its pipeline. Keys without effect are logged, in one warning.

    Raises:
        CommandError: the deployment is faulty, one line for each fault, or there is no such pipeline.
    """
    with opened(name_or_path):
        document = read_deploy(name_or_path, platform=platform)
        pipeline = pipeline_class(document.config.pipeline)
    config = document.config
    faults, notes = document.told(
        [*deployment_findings(pipeline, config), *device_findings(config, os.environ)]
    )
    if faults:
        raise CommandError("\n".join(fault.located for fault in faults))
    if notes:
        keys = [note.located for note in notes]
        log.warning("deployment.without_effect", deployment=document.source, keys=keys)
    return document, pipeline
