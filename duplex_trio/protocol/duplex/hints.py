"""What a client may say about the sound it appends: speech, position, and what to do during a response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

from duplex_trio.protocol.json_values import read_boolean, read_number, read_object, read_string
from duplex_trio.protocol.realtime.fields import wire
from duplex_trio.protocol.realtime.readers import read_time_ms

OverlapIntent = Literal["barge_in", "listen", "drop"]

OVERLAP_INTENTS: Mapping[str, OverlapIntent] = {
    "barge_in": "barge_in",
    "interrupt": "barge_in",
    "cancel": "barge_in",
    "listen": "listen",
    "continue": "listen",
    "continue_output": "listen",
    "ack": "listen",
    "drop": "drop",
    "ignore": "drop",
    "silence": "drop",
}
"""What each spelling of `overlap_action` asks for."""

SPEECH_PROBABILITY = 0.5
"""A stated speech probability from here on counts as speech."""


@frozen(kw_only=True)
class AppendHints:
    """Hints of one append; on the wire they stand beside `audio`. Times are milliseconds of the client's own
    clock.

    `transcript` is what the client believes was said. `vad` is the client's detector output with `is_speech`,
    `speech_probability` or `probability`.

    Attributes:
        is_speech: whether it is speech.
        speech_probability: 0 to 1; speech from 0.5 on.
        vad: the client's detector: `is_speech`, `speech_probability` or `probability`.
        duration_ms: length of the sound.
        audio_start_ms: where it begins.
        audio_end_ms: where it ends.
        force_listen: during a response: listen on.
        force_barge_in: during a response: cut it.
        overlap_action: the same in words: `barge_in`, `listen` or `drop`, and words that mean these.
        transcript: what the client believes was said.
        max_slice_nums: 1 or nothing: pictures are not cut up.
    """

    is_speech: bool | None = field(default=None, metadata=wire("speech", read=read_boolean))
    speech_probability: float | None = field(default=None, metadata=wire(read=read_number))
    vad: Mapping[str, Any] | None = field(default=None, metadata=wire(read=read_object))
    duration_ms: float | None = field(default=None, metadata=wire("audio_duration_ms", read=read_time_ms))
    audio_start_ms: float | None = field(default=None, metadata=wire(read=read_time_ms))
    audio_end_ms: float | None = field(default=None, metadata=wire(read=read_time_ms))
    force_listen: bool = field(default=False, metadata=wire(read=read_boolean))
    force_barge_in: bool = field(default=False, metadata=wire(read=read_boolean))
    overlap_action: str | None = field(default=None, metadata=wire("overlap", read=read_string))
    transcript: str | None = field(default=None, metadata=wire("text", read=read_string))
    max_slice_nums: float | None = field(
        default=None, metadata=wire(code="invalid_video_frames", read=read_number)
    )

    @property
    def stated_speech(self) -> bool | None:
        """What the client says about speech, the most explicit statement first; None when it says nothing."""
        if self.is_speech is not None:
            return self.is_speech
        if self.vad is not None:
            verdict = self.vad.get("is_speech")
            if isinstance(verdict, bool):
                return verdict
            for key in ("speech_probability", "probability"):
                probability = self.vad.get(key)
                if isinstance(probability, int | float) and not isinstance(probability, bool):
                    return probability >= SPEECH_PROBABILITY
        if self.speech_probability is not None:
            return self.speech_probability >= SPEECH_PROBABILITY
        return None

    @property
    def overlap_intent(self) -> OverlapIntent | None:
        """What `overlap_action` asks for; None when it is absent or a word without meaning."""
        if self.overlap_action is None:
            return None
        return OVERLAP_INTENTS.get(self.overlap_action.strip().lower())

    @property
    def decides_overlap(self) -> bool:
        """Whether the client says itself what to do with this sound during a response."""
        return self.force_listen or self.force_barge_in or self.overlap_intent is not None

    @property
    def asks_barge_in(self) -> bool:
        """Whether the client wants this sound to cut a response."""
        return self.force_barge_in or self.overlap_intent == "barge_in"


NO_HINTS = AppendHints()
