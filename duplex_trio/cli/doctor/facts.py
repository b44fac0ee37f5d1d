"""What can be seen of a machine without trying anything out."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from duplex_trio.cli.install.environment import Environment, inspect_environment
from duplex_trio.deploy.platforms import installed_gpus, torch_build
from duplex_trio.models.cache import ModelCache

_CPU_INFO = Path("/proc/cpuinfo")
_MEMORY_INFO = Path("/proc/meminfo")
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "node", "npm", "nvidia-smi")


@frozen(kw_only=True)
class MachineFacts:
    """A look at a machine. Sizes are bytes.

    Attributes:
        environment: Python, its packages, the models, the disks.
        cores: that this process may use.
        cpu_flags: what the processor says it can; empty where it does not say.
        memory: what programs may still take, None where the system does not say.
        open_files: how many files and connections this process may have open.
        programs: where the programs of `PROGRAMS` are that there are.
        gpus: NVIDIA devices that the system shows.
        torch_build: what torch was built for: `cpu`, `cuda`, `rocm`; None without it.
        has_numa: whether the system has the library that vLLM's kernels for CPUs are linked with.
    """

    environment: Environment
    cores: int
    cpu_flags: frozenset[str]
    memory: int | None
    open_files: int
    programs: Mapping[str, str] = field(factory=dict)
    gpus: int = 0
    torch_build: str | None = None
    has_numa: bool = True


def look_at_machine(cache: ModelCache) -> MachineFacts:
    """Look at this machine. Reads the model files; imports nothing of the engine."""
    environment = inspect_environment(cache)
    return MachineFacts(
        environment=environment,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        cpu_flags=cpu_flags(_text(_CPU_INFO)),
        memory=available_memory(_text(_MEMORY_INFO)),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        programs={name: path for name in PROGRAMS if (path := shutil.which(name))},
        gpus=installed_gpus(),
        torch_build=torch_build(),
        has_numa=_has_library("libnuma.so.1"),
    )


def cpu_flags(info: str) -> frozenset[str]:
    """The abilities in the text of `/proc/cpuinfo`: of its first processor."""
    for line in info.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def available_memory(info: str) -> int | None:
    """What programs may still take, from the text of `/proc/meminfo`, which is in units of 1024 bytes."""
    for line in info.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _has_library(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
