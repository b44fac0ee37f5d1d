"""Deployments by name: those that ship with this package, and those of other installed packages.

A package announces its own with an entry point of the group `duplex_trio.deployments`, whatever its name, that
names a package of it; every `NAME.yaml` in there is the deployment `NAME`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from importlib.resources.abc import Traversable

from attrs import frozen

from duplex_trio.deploy.errors import DeployError, DeployFault

SUFFIX = ".yaml"
GROUP = "duplex_trio.deployments"
"""The group of entry points; each names a package with deployment files."""
_OURS = "duplex_trio.deploy"


@frozen(kw_only=True)
class NamedDeployment:
    """A deployment file that has a name.

    Attributes:
        name: what the command line calls it.
        distribution: the installed package that has it; None for this one.
        version: the version of that package.
        file: the file.
    """

    name: str
    distribution: str | None = None
    version: str = ""
    file: Traversable

    @property
    def origin(self) -> str:
        """Which package it comes from, and its version."""
        return f"{self.distribution} {self.version}" if self.distribution is not None else "duplex_trio"

    def read_text(self) -> str:
        """What it says.

        Raises:
            DeployError: it cannot be read, naming the package.
        """
        try:
            return self.file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise _error(self.name, f"cannot read the deployment file of {self.origin}: {reason}") from error


def bundled_deployments() -> tuple[str, ...]:
    """Names of the deployments that ship with this package."""
    return tuple(deployment.name for deployment in _files_of(_OURS, None, ""))


def named_deployments() -> list[NamedDeployment]:
    """Every deployment that has a name, by name; one that two packages claim is there twice.

    A package that cannot be imported has none here; `deployment` tells what is wrong with it.
    """
    found = [*_files_of(_OURS, None, "")]
    for point in _announced():
        try:
            found += _files_of_point(point)
        except DeployError:
            continue
    return sorted(found, key=lambda deployment: (deployment.name, deployment.origin))


def deployment(name: str) -> NamedDeployment:
    """The deployment of a name.

    Raises:
        DeployError: there is none, with those that there are and what could not be looked into; or several
            packages have one.
    """
    found = [candidate for candidate in named_deployments() if candidate.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        told = " and ".join(candidate.origin for candidate in found)
        raise _error(
            name, f"several packages have a deployment of that name: {told}; give the path of a file"
        )
    names = sorted({candidate.name for candidate in named_deployments()})
    close = get_close_matches(name, names, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    told = f"no such deployment{hint}; there are {', '.join(names)} (a file ends in {SUFFIX})"
    raise _error(name, "; ".join([told, *_troubles()]))


def _announced() -> list[EntryPoint]:
    # A package that is found twice, such as by two entries of sys.path, is one package.
    points = entry_points(group=GROUP)
    return list({(point.value, _package_of(point)): point for point in points}.values())


def _package_of(point: EntryPoint) -> tuple[str, str]:
    return ("an unknown package", "") if point.dist is None else (point.dist.name, point.dist.version)


def _files_of_point(point: EntryPoint) -> list[NamedDeployment]:
    distribution, version = _package_of(point)
    try:
        return list(_files_of(point.value, distribution, version))
    except (Exception, SystemExit) as error:
        # Whatever another package's module raises, it must be told whose it is.
        reason = f"cannot be looked into: {type(error).__name__}: {error}"
        raise _error(
            distribution, f"the deployments of {distribution} {version} ({point.value}) {reason}"
        ) from error


def _files_of(package: str, distribution: str | None, version: str) -> Iterator[NamedDeployment]:
    folder = resources.files(importlib.import_module(package))
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(SUFFIX) and file.is_file():
            name = file.name.removesuffix(SUFFIX)
            yield NamedDeployment(name=name, distribution=distribution, version=version, file=file)


def _troubles() -> Iterator[str]:
    for point in _announced():
        try:
            _files_of_point(point)
        except DeployError as error:
            yield str(error.faults[0])


def _error(source: str, message: str) -> DeployError:
    return DeployError(source, [DeployFault("", message)])
