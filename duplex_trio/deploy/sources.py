"""Where a deployment's text is found: a file by its path, or one of those that have a name (`named`)."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from duplex_trio.deploy.errors import DeployError, DeployFault
from duplex_trio.deploy.named import SUFFIX, deployment


@frozen(kw_only=True)
class Source:
    """A deployment's text.

    Attributes:
        name: what it is called in messages: the path as it was written, or the name.
        key: the same for the same deployment, however it was named.
        folder: what paths in it start from.
        text: the YAML.
    """

    name: str
    key: str
    folder: Path
    text: str


def open_source(reference: str, *, folder: Path) -> Source:
    """Find and read a deployment.

    Args:
        reference: what has a separator or a YAML suffix is a path, everything else a name.
        folder: what a path starts from.

    Raises:
        DeployError: there is none, or it cannot be read.
    """
    if is_path(reference):
        return _open_file(reference, folder)
    named = deployment(reference)
    return Source(name=reference, key=f"{named.origin}: {reference}", folder=Path(), text=named.read_text())


def is_path(reference: str) -> bool:
    """Whether a deployment is named by a path: by what has a separator or a YAML suffix."""
    return "/" in reference or "\\" in reference or reference.endswith((SUFFIX, ".yml"))


def _open_file(reference: str, folder: Path) -> Source:
    try:
        path = folder / Path(reference).expanduser()
        text = path.read_text(encoding="utf-8")
        return Source(name=str(path), key=str(path.resolve()), folder=path.parent, text=text)
    except UnicodeDecodeError as error:
        reason: object = "it is not UTF-8 text"
        cause: Exception = error
    except OSError as error:
        reason, cause = error.strerror or error, error
    except (ValueError, RuntimeError) as error:  # a NUL in the path; a user without a home
        reason, cause = error, error
    raise DeployError(reference, [DeployFault("", f"cannot read the deployment file: {reason}")]) from cause
