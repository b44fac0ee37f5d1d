"""Where a CPU build of torch comes from.

The default package index offers only CUDA builds for Linux, and those pull gigabytes of CUDA libraries. So
torch is looked for in this order: a build marked `+cpu` on the user's own indexes; an unmarked build there
whose metadata asks for no CUDA package (a mirror of CPU builds); PyTorch's own index of CPU wheels, or the
index the user names instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen
from packaging.requirements import Requirement
from packaging.version import Version

from duplex_trio.cli.install.requirements import TORCH_CPU_INDEX, TORCH_VERSION

_ACCELERATOR_PACKAGE = re.compile(r"(nvidia|cuda|triton|pytorch[-_]triton)([-_]|$)", re.IGNORECASE)
# From this version on, pip answers a dry run from metadata; before, it would download half a gigabyte to look
# inside.
_PIP_READS_METADATA = Version("23.3")


@frozen
class TorchSource:
    """One place to try: `index` is a URL, None for the user's own; `ask_first` wants a look at the metadata."""

    requirement: str
    index: str | None
    ask_first: bool
    name: str


def torch_sources(torch_index: str | None, pip_version: Version) -> tuple[TorchSource, ...]:
    """The places to try, in order. `torch_index` is the index that the user named: then it is the only one."""
    if torch_index is not None:
        return (TorchSource(f"torch=={TORCH_VERSION}", torch_index, ask_first=False, name=torch_index),)
    own = "your package index"
    sources = [TorchSource(f"torch=={TORCH_VERSION}+cpu", None, ask_first=False, name=own)]
    if pip_version >= _PIP_READS_METADATA:
        sources.append(TorchSource(f"torch=={TORCH_VERSION}", None, ask_first=True, name=own))
    sources.append(
        TorchSource(f"torch=={TORCH_VERSION}+cpu", TORCH_CPU_INDEX, ask_first=False, name=TORCH_CPU_INDEX)
    )
    return tuple(sources)


def is_cpu_build(report: Mapping[str, Any]) -> bool:
    """Whether the torch in pip's installation report runs on the CPU alone.

    `report` is the JSON of `pip install --report` (format version 1): its `environment` decides the markers.
    """
    [item] = report["install"]
    metadata = item["metadata"]
    local = Version(metadata["version"]).local
    if local is not None:
        return local.startswith("cpu")
    environment = {**report["environment"], "extra": ""}
    requirements = (Requirement(line) for line in metadata.get("requires_dist", ()))
    return not any(
        _ACCELERATOR_PACKAGE.match(requirement.name)
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate(environment)
    )
