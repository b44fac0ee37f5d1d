"""Which platform this process runs on: what the `platforms` of a deployment file tell apart.

A GPU counts when its driver shows one to this process and the torch that is installed was built for it. torch
itself is not imported for that: it takes seconds, and what only reads a file needs no torch.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from duplex_trio.deploy.errors import brief

PLATFORMS = ("cpu", "cuda", "rocm", "xpu", "npu", "musa", "tpu")
"""What a section may be for. `cpu`, `cuda` and `rocm` are detected, the others have to be named."""
_MEANT = {"gpu": "cuda", "nvidia": "cuda", "amd": "rocm", "intel": "xpu"}


def detect_platform(environment: Mapping[str, str] | None = None) -> str:
    """The platform of this process: `cuda`, `rocm` or `cpu`."""
    environment = os.environ if environment is None else environment
    build = torch_build()
    if build == "cuda" and visible_gpus(environment):
        return "cuda"
    if build == "rocm" and Path("/dev/kfd").exists():
        return "rocm"
    return "cpu"


def unknown_platform(name: object) -> str:
    """The rule that a name breaks which is none of a platform."""
    meant = _MEANT.get(str(name).lower())
    close = [meant] if meant else get_close_matches(str(name), PLATFORMS, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"must be one of {', '.join(PLATFORMS)}, not {brief(name)}{hint}"


@cache
def torch_build() -> str | None:
    """What the installed torch was built for, `cuda`, `rocm` or `cpu`; None without torch."""
    try:
        spec = find_spec("torch")
        if spec is None or spec.origin is None:
            return None
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    except (ImportError, ValueError, OSError):
        return None
    for name, platform in (("cuda", "cuda"), ("hip", "rocm")):
        if re.search(rf"^{name}\b[^=\n]*=\s*['\"]", text, flags=re.MULTILINE):
            return platform
    return "cpu"


@cache
def installed_gpus() -> int:
    """How many NVIDIA GPUs the driver of this machine has; 0 without a driver. Starts no CUDA."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() != 0:
            return 0
        count = ctypes.c_uint()
        status = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        nvml.nvmlShutdown()
    except (OSError, AttributeError):
        return 0
    return int(count.value) if status == 0 else 0


def visible_gpus(environment: Mapping[str, str]) -> int:
    """How many of them a process with these variables may use."""
    seen = environment.get("CUDA_VISIBLE_DEVICES")
    if seen is None:
        return installed_gpus()
    names = [name for name in seen.replace(" ", "").split(",") if name]
    usable = 0
    for name in names:  # CUDA stops at the first that is not there
        if name.lstrip("-").isdigit() and not 0 <= int(name) < installed_gpus():
            break
        usable += 1
    return usable if installed_gpus() else 0
