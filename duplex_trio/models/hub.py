"""Fetch a model from the Hugging Face hub; the only file that knows huggingface_hub.

The library keeps its own cache, resumes interrupted downloads and, when the hub does not answer, uses what it
has.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

from attrs import frozen

from duplex_trio.models.catalog import ModelKind
from duplex_trio.models.errors import (
    INSTALL_COMMAND,
    ModelDownloadError,
    ModelNotInstalledError,
    UnknownModelError,
    storage_errors,
)
from duplex_trio.models.progress import ModelProgress, ProgressCallback, ignore_progress

_HUB_ID = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(?:/(?P<file>[\w./-]+\.(?:gguf|onnx)))?")

_WANTED_FILES: dict[ModelKind, tuple[str, ...]] = {
    "llm": ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"),
    "asr": ("model.bin", "*.json", "vocabulary.*"),
    "tts": ("*.onnx",),
    "vad": ("*.onnx",),
    "text-encoder": ("*.safetensors", "*.json"),
}


@frozen
class HubReference:
    """`org/name`, or one file of it: `org/name/path.gguf`."""

    repository: str
    file: str | None


def parse_hub_reference(reference: str) -> HubReference | None:
    """The hub reference that `reference` spells, None when it is none."""
    match = _HUB_ID.fullmatch(reference)
    return HubReference(match["repository"], match["file"]) if match else None


def fetch_from_hub(
    reference: HubReference, kind: ModelKind, progress: ProgressCallback = ignore_progress
) -> Path:
    """Download the files of a repository that a model of this kind needs and return the local folder or file.

    Blocking. Raises ModelNotInstalledError (the library is missing), UnknownModelError (no such repository),
    ModelDownloadError (hub unreachable, offline mode, gated repository), ModelStorageError.
    """
    try:
        import huggingface_hub
        from huggingface_hub import constants, errors
        from tqdm.auto import tqdm
    except ModuleNotFoundError as error:
        raise ModelNotInstalledError(
            f"Fetching {reference.repository} from the hub needs the Python package {error.name}. Run "
            f"`{INSTALL_COMMAND}`."
        ) from error
    patterns = [reference.file] if reference.file else list(_WANTED_FILES[kind])
    try:
        with storage_errors(Path(constants.HF_HUB_CACHE)):
            folder = huggingface_hub.snapshot_download(
                reference.repository, allow_patterns=patterns, tqdm_class=_reporting(tqdm, progress)
            )
    except errors.GatedRepoError as error:
        raise ModelDownloadError(
            f"{reference.repository} may only be downloaded by people who accepted its terms: open its page "
            "on the hub, accept, then run `hf auth login`."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise UnknownModelError(
            f"The hub has no model {reference.repository} (or it is private: run `hf auth login` first)."
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise ModelDownloadError(
            _unreachable(reference, offline=huggingface_hub.is_offline_mode())
        ) from error
    except errors.HFValidationError as error:
        raise UnknownModelError(
            f"{reference.repository} is no valid name of a hub repository: {error}"
        ) from error
    except (errors.HTTPError, OSError) as error:
        raise ModelDownloadError(
            f"{reference.repository} could not be downloaded from the hub: {error}"
        ) from error
    return Path(folder, reference.file) if reference.file else Path(folder)


def find_in_hub_cache(reference: HubReference, kind: ModelKind) -> Path | None:
    """The local folder or file of what was fetched before; None if it was not, or the library is missing."""
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ModuleNotFoundError:
        return None
    patterns = [reference.file] if reference.file else list(_WANTED_FILES[kind])
    try:
        folder = huggingface_hub.snapshot_download(
            reference.repository, allow_patterns=patterns, local_files_only=True
        )
    except (errors.LocalEntryNotFoundError, errors.HFValidationError, OSError):
        return None
    path = Path(folder, reference.file) if reference.file else Path(folder)
    return path if path.exists() else None


def _unreachable(reference: HubReference, *, offline: bool) -> str:
    if offline:
        return (
            f"{reference.repository} is not on this machine, and the environment variable HF_HUB_OFFLINE "
            "forbids downloading it. Unset it, or name a local folder or a packaged model."
        )
    return (
        f"{reference.repository} is not on this machine, and the hub could not be reached. Check the network "
        "connection, or name a local folder or a packaged model (`duplex-trio models` lists them)."
    )


def _reporting(base: Any, progress: ProgressCallback) -> Any:
    """A tqdm class that prints nothing and hands the bytes of the whole download to `progress`.

    The library counts the same bytes in several bars (received, written), each for all files together, from
    several threads; the one that is furthest is reported, and never a smaller number than before.
    """
    lock = threading.Lock()
    furthest = 0

    class Reporting(base):  # type: ignore[misc]  # the base class is the library's own choice
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})
            self.counts_bytes = kwargs.get("unit") == "B"
            self.total = kwargs.get("total") or 0
            self.n = kwargs.get("initial") or 0

        def update(self, n: float | None = 1) -> None:
            nonlocal furthest
            self.n += n or 0
            with lock:
                if self.counts_bytes and self.n > furthest:
                    furthest = int(self.n)
                    progress(ModelProgress("download", furthest, int(self.total) or None))

    return Reporting
