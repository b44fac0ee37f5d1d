"""What can go wrong between a model reference and files on disk.

    ModelReferenceError
    ├── UnknownModelError        no such packaged name, path or hub repository
    ├── ModelFormatError         the files are there, but are no model of the wanted kind
    ├── ModelNotInstalledError   a packaged model that `duplex-trio install cpu` has not fetched yet
    ├── ModelIntegrityError      a file differs from what the catalog says it is
    ├── ModelDownloadError       the package index or the hub could not deliver
    └── ModelStorageError        the cache folder is full, read-only or otherwise unusable

Messages are whole sentences for the person who typed the reference: they say what was wrong and what to do
next.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

INSTALL_COMMAND = "duplex-trio install cpu"


class ModelReferenceError(Exception):
    """A model reference cannot be turned into a model on this machine."""


class UnknownModelError(ModelReferenceError):
    """The reference names nothing that exists; the message lists the packaged names that would fit."""


class ModelFormatError(ModelReferenceError):
    """The reference leads to files that are no usable model of the wanted kind."""


class ModelNotInstalledError(ModelReferenceError):
    """A packaged model, or a library needed to fetch or read a model, is not installed yet."""


class ModelIntegrityError(ModelReferenceError):
    """Downloaded or cached files do not have the size or sha256 that they must have."""


class ModelDownloadError(ModelReferenceError):
    """The package index or the model hub could not be reached or refused to deliver."""


class ModelStorageError(ModelReferenceError):
    """The cache folder cannot take the files: disk full, no permission, read-only."""


def storage_error(error: OSError, folder: Path) -> ModelStorageError | None:
    """The ModelStorageError that `error` means while writing below `folder`; None when it means another."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ModelStorageError(
            f"The disk that holds {folder} is full. Free some space, or choose another folder with the "
            "environment variable DUPLEX_TRIO_CACHE, and run the command again."
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ModelStorageError(
            f"The folder {folder} cannot be written ({error.strerror}). Choose another one with the "
            "environment variable DUPLEX_TRIO_CACHE."
        )
    return None


@contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Turn a full or read-only disk below `folder` into ModelStorageError; other errors pass unchanged."""
    try:
        yield
    except OSError as error:
        translated = storage_error(error, folder)
        if translated is None:
            raise
        raise translated from error
