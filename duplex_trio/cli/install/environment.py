"""What the current Python environment is and holds, found without importing anything that is to be installed."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from attrs import frozen
from packaging.utils import canonicalize_name

from duplex_trio.cli.install.requirements import InstalledPackage
from duplex_trio.models.cache import ModelCache
from duplex_trio.models.catalog import CATALOG, PackagedModel
from duplex_trio.models.errors import ModelIntegrityError
from duplex_trio.models.packages import locate_packaged

ModelState = Literal["absent", "present", "damaged"]


@frozen
class Environment:
    """A snapshot. Sizes are bytes; `installed` maps canonical package names; `models` maps catalog names.

    `packages_disk` and `cache_disk` identify file systems, to tell whether both kinds of files share one.
    """

    python_version: tuple[int, int, int]
    prefix: Path
    system: str
    machine: str
    externally_managed: bool
    installed: Mapping[str, InstalledPackage]
    models: Mapping[str, ModelState]
    packages_free: int
    cache_free: int
    packages_disk: int
    cache_disk: int


def inspect_environment(cache: ModelCache, catalog: tuple[PackagedModel, ...] = CATALOG) -> Environment:
    """Look at the running Python, its packages, the model cache (file contents included) and the free space."""
    packages = Path(sysconfig.get_path("purelib"))
    cache_place = _existing(cache.root)
    return Environment(
        python_version=(sys.version_info.major, sys.version_info.minor, sys.version_info.micro),
        prefix=Path(sys.prefix),
        system=platform.system(),
        machine=platform.machine(),
        externally_managed=_externally_managed(),
        installed=installed_packages(),
        models={model.name: model_state(model, cache) for model in catalog},
        packages_free=shutil.disk_usage(_existing(packages)).free,
        cache_free=shutil.disk_usage(cache_place).free,
        packages_disk=_existing(packages).stat().st_dev,
        cache_disk=cache_place.stat().st_dev,
    )


def installed_packages() -> dict[str, InstalledPackage]:
    """Every package of the running Python; the first on the path wins, as in an import."""
    importlib.invalidate_caches()
    found: dict[str, InstalledPackage] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            package = InstalledPackage(distribution.version, tuple(distribution.requires or ()))
            found.setdefault(canonicalize_name(name), package)
    return found


def model_state(model: PackagedModel, cache: ModelCache) -> ModelState:
    """Whether a packaged model is in place, by content."""
    try:
        return "absent" if locate_packaged(model, cache, thorough=True) is None else "present"
    except ModelIntegrityError:
        return "damaged"


def _externally_managed() -> bool:
    """Whether this is a system Python that forbids pip to change it (PEP 668); a virtual environment never is."""
    return (
        sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").is_file()
    )


def _existing(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())
