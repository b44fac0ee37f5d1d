"""The key `devices`: how it is spelt, and how it is split over replicas and their shards. Pure."""

from __future__ import annotations

import re
from typing import Any

from duplex_trio.deploy.checks import Check

CPU = "cpu"
_DEVICE = re.compile(r"\d{1,4}\Z|(GPU|MIG)-[0-9A-Za-z/-]+\Z")


def devices_text(value: Any) -> Any:
    """The one spelling of `0`, `[0, 1]` and `0, 1`; anything else is left to be refused."""
    if isinstance(value, list | tuple):
        named = all(isinstance(one, int | str) and not isinstance(one, bool) for one in value)
        return ",".join(str(one) for one in value) if named else value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return "".join(value.split()) if isinstance(value, str) else value


def device_list(devices: str | None) -> tuple[str, ...] | None:
    """The devices by name: none of them for `cpu`; None where a deployment leaves the choice to the runtime."""
    if devices is None:
        return None
    return () if devices == CPU else tuple(devices.split(","))


def _well_formed(devices: str) -> bool:
    if devices == CPU:
        return True
    names = devices.split(",")
    return all(_DEVICE.match(name) for name in names) and len(set(names)) == len(names)


well_formed = Check("must be cpu, or different GPUs by number such as 0 or 0,1", _well_formed)


def split(devices: tuple[str, ...], replicas: int) -> tuple[tuple[str, ...], ...]:
    """The devices of each replica: one GPU is shared by all, more are dealt out in equal runs.

    Raises:
        ValueError: they cannot be dealt out; the message is a rule ("must be ...").
    """
    if len(devices) <= 1:
        return (devices,) * replicas
    if len(devices) % replicas:
        raise ValueError(f"must be cpu, one GPU, or a multiple of {replicas} GPUs for {replicas} replicas")
    each = len(devices) // replicas
    return tuple(devices[index * each : (index + 1) * each] for index in range(replicas))
