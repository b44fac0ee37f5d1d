"""Opens the deployment that a command line names, and tells what is wrong with it or has no effect."""

from __future__ import annotations

import structlog

from duplex_trio.cli.errors import CommandError
from duplex_trio.deploy import DeployError, Document, read_deploy
from duplex_trio.pipelines.deployment import deployment_findings
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.registry import PipelineUnavailableError, pipeline_class

log = structlog.get_logger("duplex_trio.deploy")


def open_deployment(name_or_path: str, *, platform: str | None = None) -> tuple[Document, type[Pipeline]]:
    """Read a deployment and hold it against its pipeline. Keys without effect are logged, in one warning.

    Raises:
        CommandError: the deployment is faulty, one line for each fault, or there is no such pipeline.
    """
    try:
        document = read_deploy(name_or_path, platform=platform)
        pipeline = pipeline_class(document.config.pipeline)
    except DeployError as error:
        raise CommandError("\n".join(fault.located for fault in error.faults)) from error
    except PipelineUnavailableError as error:
        raise CommandError(f"{name_or_path}: {error}") from error
    findings = deployment_findings(pipeline, document.config)
    faults = [document.locate(finding).located for finding in findings if finding.level == "fault"]
    if faults:
        raise CommandError("\n".join(faults))
    notes = [document.locate(finding).located for finding in findings]
    if notes:
        log.warning("deployment.without_effect", deployment=document.source, keys=notes)
    return document, pipeline
