"""Which input an append may hold, by what the model takes."""

from __future__ import annotations

from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex import RealtimeError

_FIELDS = {"audio": "audio", "video": "video_frames"}
"""The field of an append that holds a modality."""
_GIVEN = {
    (audio, video): frozenset(name for name, held in (("audio", audio), ("video", video)) if held)
    for audio in (False, True)
    for video in (False, True)
}
"""The modalities of an append, by whether there is sound and whether there are frames."""


def check_append_modalities(able: DuplexCapabilities, *, audio: bool, video: bool) -> None:
    """Refuse an append that holds nothing, what the model does not take, or not what it needs.

    Sound and pictures are required of each append that a model requires them of; so pictures alone are legal
    only where sound is not required.

    Args:
        able: what the model takes.
        audio: whether there is sound in it.
        video: whether there are frames in it.

    Raises:
        RealtimeError: `invalid_input_modality`, naming the field.
    """
    given = _GIVEN[audio, video]
    required = able.required_input_modalities
    taken = required | able.optional_input_modalities
    if given and required <= given <= taken:
        return
    for name in sorted(given - taken):
        raise RealtimeError("invalid_input_modality", f"the model takes no {name}", param=_FIELDS[name])
    for name in sorted(required - given):
        raise RealtimeError("invalid_input_modality", f"the append holds no {name}", param=_FIELDS[name])
    raise RealtimeError("invalid_input_modality", "the append holds nothing", param="audio")
