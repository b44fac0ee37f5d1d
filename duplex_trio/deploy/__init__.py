"""Deployment files: what they may say (`config`, `limits`), and how they are read (`loader`).

Imports nothing else of the package.
"""

from duplex_trio.deploy.config import (
    DeployConfig,
    DuplexSessionDeploy,
    SessionMode,
    StageDeploy,
    VideoSessionDeploy,
)
from duplex_trio.deploy.devices import ReplicaPlace, replica_places, server_environment
from duplex_trio.deploy.errors import DeployError, DeployFault, Finding, KeyFaultError, Place
from duplex_trio.deploy.limits import SessionLimits
from duplex_trio.deploy.loader import Document, load_deploy, read_deploy, with_models
from duplex_trio.deploy.named import NamedDeployment, bundled_deployments, named_deployments
from duplex_trio.deploy.platforms import PLATFORMS, detect_platform

__all__ = [
    "PLATFORMS",
    "DeployConfig",
    "DeployError",
    "DeployFault",
    "Document",
    "DuplexSessionDeploy",
    "Finding",
    "KeyFaultError",
    "NamedDeployment",
    "Place",
    "ReplicaPlace",
    "SessionLimits",
    "SessionMode",
    "StageDeploy",
    "VideoSessionDeploy",
    "bundled_deployments",
    "detect_platform",
    "load_deploy",
    "named_deployments",
    "read_deploy",
    "replica_places",
    "server_environment",
    "with_models",
]
