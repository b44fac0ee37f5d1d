"""Which appends a model takes, over all that it may declare and all that an append may hold."""

from __future__ import annotations

import pytest

from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.session.state.modalities import check_append_modalities

NOTHING, SOUND, PICTURES, BOTH = (False, False), (True, False), (False, True), (True, True)
TAKEN = None

TABLE = {
    # required, optional: nothing, sound, pictures, both
    ("audio", ""): ("audio", TAKEN, "video_frames", "video_frames"),
    ("audio", "video"): ("audio", TAKEN, "audio", TAKEN),
    ("video", "audio"): ("video_frames", "video_frames", TAKEN, TAKEN),
    ("video", ""): ("video_frames", "audio", TAKEN, "audio"),
    ("audio video", ""): ("audio", "video_frames", "audio", TAKEN),
    ("", "audio video"): ("audio", TAKEN, TAKEN, TAKEN),
    ("", "audio"): ("audio", TAKEN, "video_frames", "video_frames"),
    ("", "video"): ("audio", "audio", TAKEN, "audio"),
}


@pytest.mark.parametrize("declared", TABLE)
@pytest.mark.parametrize("append", [NOTHING, SOUND, PICTURES, BOTH])
def test_an_append(declared: tuple[str, str], append: tuple[bool, bool]) -> None:
    """It is taken, or refused by the field that is too much or missing."""
    required, optional = (frozenset(names.split()) for names in declared)
    able = DuplexCapabilities(required_input_modalities=required, optional_input_modalities=optional)
    param = TABLE[declared][[NOTHING, SOUND, PICTURES, BOTH].index(append)]
    audio, video = append
    if param is TAKEN:
        check_append_modalities(able, audio=audio, video=video)
        return
    with pytest.raises(RealtimeError) as caught:
        check_append_modalities(able, audio=audio, video=video)
    assert (caught.value.code, caught.value.param) == ("invalid_input_modality", param)
