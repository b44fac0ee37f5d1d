"""Which torch is a CPU build, and in which order the places are asked."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.version import Version

from duplex_trio.cli.install.torch_source import is_cpu_build, torch_sources

PLAIN = [
    "filelock",
    "typing-extensions>=4.10.0",
    "setuptools>=77.0.3",
    "sympy>=1.13.3",
    "networkx>=2.5.1",
    "jinja2",
    "fsspec>=0.8.5",
    'optree>=0.13.0; extra == "optree"',
]
# What the default index's wheel for Linux asks for beyond that, as pip 26.3 reports it.
CUDA = [
    'cuda-toolkit[cublas,cudart,cufft,cusolver,nvjitlink,nvrtc,nvtx]==13.0.3; platform_system == "Linux"',
    'cuda-bindings<14,>=13.0.3; platform_system == "Linux" and python_version < "3.15"',
    'nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"',
    'nvidia-nccl-cu13==2.29.7; platform_system == "Linux"',
    'triton==3.7.1; platform_system == "Linux" and python_version < "3.15"',
]
# The same of older releases and of other builds.
CUDA_12 = ['nvidia-cublas-cu12==12.8.4.1; platform_system == "Linux" and platform_machine == "x86_64"']
ROCM = ['pytorch-triton-rocm==3.4.0; platform_system == "Linux"']


def report(
    version: str, requires: list[str] | None, system: str = "Linux", machine: str = "x86_64"
) -> dict[str, Any]:
    """A pip installation report, format version 1, with the fields that pip 23 to 26 write."""
    metadata: dict[str, Any] = {"metadata_version": "2.4", "name": "torch", "version": version}
    if requires is not None:
        metadata["requires_dist"] = requires
    return {
        "version": "1",
        "pip_version": "26.3",
        "install": [
            {
                "download_info": {
                    "url": f"https://index/torch-{version}.whl",
                    "archive_info": {"hash": "sha256=00"},
                },
                "is_direct": False,
                "is_yanked": False,
                "requested": True,
                "metadata": metadata,
            }
        ],
        "environment": {
            "implementation_name": "cpython",
            "implementation_version": "3.11.7",
            "os_name": "posix",
            "platform_machine": machine,
            "platform_release": "6.1",
            "platform_system": system,
            "platform_version": "#1 SMP",
            "python_full_version": "3.11.7",
            "platform_python_implementation": "CPython",
            "python_version": "3.11",
            "sys_platform": system.lower(),
        },
    }


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        (report("2.13.0+cpu", PLAIN), True),
        (report("2.13.0+cpu.cxx11.abi", PLAIN), True),
        (report("2.13.0", PLAIN), True),
        (report("2.13.0", None), True),
        (report("2.13.0", PLAIN + CUDA, system="Darwin", machine="arm64"), True),
        (report("2.13.0", PLAIN + CUDA), False),
        (report("2.13.0", PLAIN + CUDA_12), False),
        (report("2.13.0", PLAIN + CUDA_12, machine="aarch64"), True),
        (report("2.13.0", PLAIN + ROCM), False),
        (report("2.13.0+cu130", PLAIN), False),
        (report("2.13.0+rocm7.0", PLAIN), False),
        (report("2.13.0", [*PLAIN, 'nvidia-cublas; extra == "cuda"']), True),
    ],
)
def test_a_build_is_judged_by_its_version_and_what_it_asks_for(
    offered: dict[str, Any], expected: bool
) -> None:
    assert is_cpu_build(offered) is expected


def test_the_users_own_index_comes_before_pytorchs() -> None:
    first, second, third = torch_sources(None, Version("24.0"))
    assert (first.requirement, first.index, first.ask_first) == ("torch==2.13.0+cpu", None, False)
    assert (second.requirement, second.index, second.ask_first) == ("torch==2.13.0", None, True)
    assert third.requirement == "torch==2.13.0+cpu"
    assert third.index is not None


def test_an_old_pip_is_not_asked_for_metadata_because_it_would_download_the_whole_wheel() -> None:
    assert [source.ask_first for source in torch_sources(None, Version("23.2.1"))] == [False, False]


def test_no_place_is_trusted_with_an_unmarked_build_unasked() -> None:
    assert all(
        source.ask_first or "+cpu" in source.requirement for source in torch_sources(None, Version("24.0"))
    )


def test_a_named_index_is_the_only_place() -> None:
    [only] = torch_sources("https://mirror/cpu", Version("24.0"))
    assert (only.index, only.requirement) == ("https://mirror/cpu", "torch==2.13.0")
