"""What a deployment needs of this machine, as far as it can be told without loading a model."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.device_names import device_list
from duplex_trio.deploy.devices import replica_places, server_environment
from duplex_trio.deploy.errors import Finding, KeyFaultError, brief
from duplex_trio.deploy.platforms import torch_build, visible_gpus
from duplex_trio.deploy.stage import StageDeploy

PYTHON_TIMEOUT_S = 60.0
"""How long an interpreter may take to import what a stage needs: a cold disk and half a minute of imports."""

_PROBE = "import importlib.util, duplex_trio.stages.worker as w; print(importlib.util.find_spec('vllm') is not None)"


def device_findings(deploy: DeployConfig, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Devices that are named and are not here, or cannot be had together."""
    gpus = visible_gpus(environment)
    wanting = [stage for stage in deploy.stages if device_list(stage.devices)]
    if wanting and not gpus:
        stages = " and ".join(str(stage.stage_id) for stage in wanting)
        noun = "stage" if len(wanting) == 1 else "stages"
        message = (
            f"cannot be had: this machine shows no NVIDIA GPU, and {noun} {stages} of the deployment want one"
        )
        yield Finding(key="devices", stage_id=wanting[0].stage_id, message=message)
        return
    for stage in wanting:
        for device in device_list(stage.devices) or ():
            if device.isdigit() and int(device) >= gpus:
                there = f"0 to {gpus - 1}" if gpus > 1 else "0"
                message = f"must be among the GPUs of this machine, {there}, not {device}"
                yield Finding(key="devices", stage_id=stage.stage_id, message=message)
    try:
        for stage in deploy.stages:
            replica_places(deploy.stage(stage.stage_id), environment)
        server_environment(deploy, environment)
    except KeyFaultError as error:
        yield Finding(key="", message=str(error))


def claim_devices(deploy: DeployConfig) -> Mapping[str, str]:
    """Give this process the devices that the deployment's stages in threads share. To be called before CUDA is used.

    Returns:
        The variables as they were: stages in processes have their devices among all that the server was shown.

    Raises:
        KeyFaultError: they cannot be had in one process.
    """
    shown = dict(os.environ)
    os.environ.update(server_environment(deploy, shown))
    return shown


def engine_findings(stage: StageDeploy, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the engine that a stage needs is installed here, and can use the GPUs that the stage wants."""
    if stage.python is not None:
        return  # `python_findings` asks its own interpreter
    if find_spec("vllm") is None:
        message = (
            "needs vLLM, which is not installed: `duplex-trio install cpu`, or the extra duplex-trio[gpu]"
        )
        yield Finding(key="", stage_id=stage.stage_id, message=message)
    elif device_list(stage.devices) and visible_gpus(environment) and torch_build() == "cpu":
        message = (
            "needs the CUDA builds of vLLM and torch; those for CPUs are installed (see duplex-trio[gpu])"
        )
        yield Finding(key="devices", stage_id=stage.stage_id, message=message)


def python_findings(stage: StageDeploy, environment: Mapping[str, str], *, engine: bool) -> Iterator[Finding]:
    """Whether the interpreter of a stage in a process runs and has what it needs. Blocking: it is started.

    Args:
        stage: the stage.
        environment: the variables of the server.
        engine: whether the stage needs vLLM.
    """
    if stage.python is None:
        return
    python = shutil.which(stage.python)

    def fault(message: str) -> Finding:
        return Finding(key="python", stage_id=stage.stage_id, message=message)

    if python is None:
        yield fault(f"must be a program that can be run, not {brief(stage.python)}")
        return
    try:
        ran = subprocess.run(  # noqa: S603  (the operator's own interpreter)
            [python, "-c", _PROBE],
            env={**environment, **stage.environment},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PYTHON_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        yield fault(f"must be a Python interpreter: {stage.python} could not be run ({error})")
        return
    last = (ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"])[-1]
    if ran.returncode != 0:
        yield fault(f"must be an interpreter that has duplex_trio: {stage.python} says: {last}")
    elif ran.stdout.strip() not in ("True", "False"):
        yield fault(f"must be a Python interpreter, and {stage.python} is something else")
    elif engine and ran.stdout.strip() != "True":
        yield fault(f"must be an interpreter that has vLLM: {stage.python} has none")


def remote_findings(stage: StageDeploy, environment: Mapping[str, str]) -> Iterator[Finding]:
    """What a remote stage needs here: its key and its certificates."""
    remote = stage.remote
    if remote is None:
        return
    if remote.api_key_env is not None and not environment.get(remote.api_key_env):
        message = f"names the environment variable {remote.api_key_env}, which is not set"
        yield Finding(key="remote.api_key_env", stage_id=stage.stage_id, message=message)
    if remote.ca_file is not None and not os.access(Path(remote.ca_file).expanduser(), os.R_OK):
        message = f"must be a file that can be read, not {brief(remote.ca_file)}"
        yield Finding(key="remote.ca_file", stage_id=stage.stage_id, message=message)
