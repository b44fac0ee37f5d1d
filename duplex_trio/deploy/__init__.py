"""Deployment files: what they may say (`config`, `limits`), and how they are read (`loader`).

Imports nothing else of the package.
"""

from duplex_trio.deploy.config import DeployConfig, DuplexSessionDeploy, SessionMode, StageDeploy
from duplex_trio.deploy.errors import DeployError, DeployFault, KeyFaultError
from duplex_trio.deploy.limits import SessionLimits, file_key
from duplex_trio.deploy.loader import load_deploy, with_models
from duplex_trio.deploy.named import NamedDeployment, bundled_deployments, named_deployments

__all__ = [
    "DeployConfig",
    "DeployError",
    "DeployFault",
    "DuplexSessionDeploy",
    "KeyFaultError",
    "NamedDeployment",
    "SessionLimits",
    "SessionMode",
    "StageDeploy",
    "bundled_deployments",
    "file_key",
    "load_deploy",
    "named_deployments",
    "with_models",
]
