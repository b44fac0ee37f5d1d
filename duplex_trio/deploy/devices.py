"""Which devices each replica of each stage computes on, and the environment that gives it those.

Pure: everything is said by the deployment and by the variables that the server was started with. CUDA reads
`CUDA_VISIBLE_DEVICES` once for a process. So a replica in a process of its own gets its devices by that
variable, and all stages in threads of the server share one list, of which each uses the front: a stage on `0`
goes with one on `0,1`, and not with one on `1`.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import Factory, frozen

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.device_names import device_list, split
from duplex_trio.deploy.errors import KeyFaultError
from duplex_trio.deploy.stage import StageDeploy

VISIBLE = "CUDA_VISIBLE_DEVICES"


@frozen(kw_only=True)
class ReplicaPlace:
    """What one replica of a stage computes on.

    Attributes:
        index: which replica, counted from 0.
        devices: the GPUs as the deployment names them, none of them for the CPU; None where it leaves the choice to
            the runtime.
        environment: variables that its process has beside the server's; none for one in a thread.
    """

    index: int
    devices: tuple[str, ...] | None = None
    environment: Mapping[str, str] = Factory(dict)

    @property
    def on_cpu(self) -> bool:
        """Whether the deployment wants it on the CPU."""
        return self.devices == ()


def replica_places(stage: StageDeploy, server: Mapping[str, str]) -> tuple[ReplicaPlace, ...]:
    """The place of each replica of a stage, as many as there are replicas.

    Args:
        stage: the stage with the defaults of the top level (`DeployConfig.stage`).
        server: the variables of the server's process. GPUs are counted among those that the server may see.

    Raises:
        KeyFaultError: the server may not see a GPU that is named.
    """
    devices = device_list(stage.devices)
    if devices is None:
        shares: tuple[tuple[str, ...] | None, ...] = (None,) * stage.replicas
    else:
        shares = split(devices, stage.replicas)
    places = []
    for index, share in enumerate(shares):
        environment = dict(stage.environment) if stage.execution == "process" else {}
        if stage.execution == "process" and share is not None:
            environment[VISIBLE] = _visible(share, server)
        places.append(ReplicaPlace(index=index, devices=share, environment=environment))
    return tuple(places)


def server_environment(deploy: DeployConfig, server: Mapping[str, str]) -> dict[str, str]:
    """The variables that the server's own process must have for its stages in threads, before CUDA is used.

    Args:
        deploy: the deployment.
        server: the variables that it has.

    Raises:
        KeyFaultError: two stages in threads cannot have their devices in one process, or the server may not see a GPU
            that is named. Its key is that of the stage by number, `stages[1].devices`.
    """
    longest: tuple[str, ...] | None = None
    stages = [deploy.stage(stage.stage_id) for stage in deploy.stages]
    threads = [stage for stage in stages if stage.execution == "thread"]
    lists = {stage.stage_id: _shared(stage) for stage in threads if stage.devices is not None}
    for stage_id, devices in lists.items():
        both = min(len(longest or ()), len(devices))
        if longest is not None and longest[:both] != devices[:both]:
            rule = (
                f"must begin with the GPUs of the other stages in threads, {','.join(longest)}, for they share one"
                " process; with execution: process a stage has its own"
            )
            raise KeyFaultError(f"stages[{stage_id}].devices", rule, ",".join(devices))
        longest = devices if longest is None or len(devices) > len(longest) else longest
    if longest is None or (not longest and len(lists) < len(threads)):
        return {}  # nobody names any, or some want none and others have not said so
    return {VISIBLE: _visible(longest, server)}


def _shared(stage: StageDeploy) -> tuple[str, ...]:
    """The devices of all replicas of a stage in threads, which must be the same."""
    devices = device_list(stage.devices)
    assert devices is not None
    if len(set(split(devices, stage.replicas))) > 1:
        rule = "must be one GPU or cpu for replicas in threads; with execution: process each has its own"
        raise KeyFaultError(f"stages[{stage.stage_id}].devices", rule, stage.devices)
    return devices


def _visible(devices: tuple[str, ...], server: Mapping[str, str]) -> str:
    """The value of `CUDA_VISIBLE_DEVICES`: a number counts among the devices that the server may see."""
    seen = server.get(VISIBLE)
    if seen is None:
        return ",".join(devices)
    offered = [name for name in seen.replace(" ", "").split(",") if name]
    named = []
    for device in devices:
        if not device.isdigit():
            named.append(device)
        elif int(device) < len(offered):
            named.append(offered[int(device)])
        else:
            rule = f"must be among the {len(offered)} GPUs that {VISIBLE} lets the server see"
            raise KeyFaultError("devices", rule, device)
    return ",".join(named)
