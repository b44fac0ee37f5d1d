"""Reading clocks, memory and the machine, and summing up many readings."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import platform
import resource
import sys
from datetime import UTC, datetime
from pathlib import Path

import trio
from attrs import frozen

_STATM = Path("/proc/self/statm")


def cpu_s() -> float:
    """CPU time that all threads of the process have used so far, in the system as well, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def process_cpu_s(pid: int) -> float:
    """CPU time that a process has used so far, in the system as well, in seconds, from the kernel (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes() -> int:
    """Memory of the process that is resident, garbage collected first; where that is unknown, its peak so far."""
    gc.collect()
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@frozen(kw_only=True)
class Machine:
    """Where and by what figures were measured.

    `cpus_usable` are those that the process may run on, `switch_interval_s` is how long a thread keeps the
    interpreter. `package` is the version of this package, None when it runs from its source folder.
    """

    measured_at: str
    cpus: int
    cpus_usable: int
    architecture: str
    system: str
    python: str
    trio: str
    package: str | None
    switch_interval_s: float


def this_machine() -> Machine:
    """Facts of the machine and the interpreter, now."""
    cpus = os.cpu_count() or 1
    try:
        package = importlib.metadata.version("duplex-trio")
    except importlib.metadata.PackageNotFoundError:
        package = None
    return Machine(
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        cpus=cpus,
        cpus_usable=len(os.sched_getaffinity(0)) if sys.platform == "linux" else cpus,
        architecture=platform.machine(),
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        trio=trio.__version__,
        package=package,
        switch_interval_s=sys.getswitchinterval(),
    )
