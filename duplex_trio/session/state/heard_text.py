"""How much of a text was heard when a listener stopped after so many milliseconds of its sound.

Marks tie text to sound: by `audio_end_ms` of the response, `text_chars` characters of its text have been
spoken.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen


@frozen
class TextMark:
    """By `audio_end_ms`, the first `text_chars` characters have been spoken. Both are cumulative."""

    text_chars: int
    audio_end_ms: float


def heard_chars(text_chars: int, marks: Sequence[TextMark], heard_ms: float, total_ms: float) -> int:
    """Characters heard after `heard_ms` of `total_ms` of sound.

    Between marks the position is interpolated linearly; without marks the text is taken to be spread evenly.
    Marks are made monotone first, so an odd one cannot take back what was heard.
    """
    if text_chars <= 0 or heard_ms <= 0:
        return 0
    if not marks:
        return min(text_chars, int(text_chars * min(1.0, heard_ms / max(1.0, total_ms))))
    if heard_ms >= total_ms:
        return text_chars
    chars_before, ms_before = 0, 0.0
    last = TextMark(text_chars, total_ms)
    for mark in [*sorted(marks, key=lambda m: m.audio_end_ms), last]:
        chars = min(text_chars, max(chars_before, mark.text_chars))
        end_ms = max(ms_before, mark.audio_end_ms)
        if heard_ms <= end_ms:
            share = 1.0 if end_ms <= ms_before else (heard_ms - ms_before) / (end_ms - ms_before)
            return chars_before + int((chars - chars_before) * share)
        chars_before, ms_before = chars, end_ms
    return text_chars


def heard_prefix(text: str, marks: Sequence[TextMark], heard_ms: float, total_ms: float) -> str:
    """The heard part of `text`, without trailing white space."""
    return text[: heard_chars(len(text), marks, heard_ms, total_ms)].rstrip()
