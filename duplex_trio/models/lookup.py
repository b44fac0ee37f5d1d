"""Whether a model reference leads to something on this machine, without fetching, converting or loading anything."""

from __future__ import annotations

from pathlib import Path

from duplex_trio.models.cache import ModelCache, cache_root
from duplex_trio.models.catalog import CATALOG, KIND_NAMES, ModelKind
from duplex_trio.models.errors import ModelReferenceError
from duplex_trio.models.hub import HubReference, find_in_hub_cache, parse_hub_reference
from duplex_trio.models.local import recognise
from duplex_trio.models.references import PATH_STARTS, resolve_reference

KINDS: tuple[ModelKind, ...] = ("llm", "asr", "tts", "vad", "text-encoder")


class ModelNotHereError(ModelReferenceError):
    """A reference is right, and what it names would have to be fetched."""


def look_up(reference: str, kind: str, *, cache: ModelCache | None = None) -> None:
    """Find the model that a reference names. Blocking; quick.

    Args:
        reference: a packaged name, a folder or file, or a hub id.
        kind: what the model is for; one that is not known here is not looked for.
        cache: where packaged models are.

    Raises:
        ModelNotHereError: it is a hub id whose files are not here.
        ModelReferenceError: the model is not installed, damaged, of another kind or unknown.
    """
    wanted = next((known for known in KINDS if known == kind), None)
    if wanted is None:
        return
    path = Path(reference).expanduser()
    packaged = any(model.name == reference for model in CATALOG)
    hub = parse_hub_reference(reference)
    if not packaged and (path.exists() or reference.startswith(PATH_STARTS)):
        recognise(path.absolute(), wanted)
    elif not packaged and hub is not None:
        _look_in_hub_cache(hub, wanted, reference)
    else:
        resolve_reference(reference, wanted, cache=cache or ModelCache(cache_root()))


def _look_in_hub_cache(hub: HubReference, kind: ModelKind, reference: str) -> None:
    found = find_in_hub_cache(hub, kind)
    if found is None:
        raise ModelNotHereError(
            f"The {KIND_NAMES[kind]} {reference} is not on this machine yet; serving fetches it from the hub."
        )
    recognise(found, kind)
