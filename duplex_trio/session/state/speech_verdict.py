"""Whether one append holds speech, for sessions in which no detector says so, and whether words only
acknowledge.

The verdict asks, in this order: what the client states about it, from its most explicit statement to its
least, and else how loud it is. A detector's own result stands above all of this and is not asked here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from duplex_trio.protocol.duplex import NO_HINTS, AppendHints
from duplex_trio.stages.units import Pcm


def loudness(pcm: Pcm) -> float:
    """Root mean square of samples between -1 and 1; 0 for no samples."""
    return math.sqrt(float(pcm.dot(pcm)) / len(pcm)) if len(pcm) else 0.0


def holds_speech(hints: AppendHints, pcm: Pcm, *, silence_rms: float) -> bool:
    """The verdict of one append.

    Args:
        hints: what the client says about it.
        pcm: its sound.
        silence_rms: loudness from which sound without a statement counts as speech.
    """
    stated = None if hints is NO_HINTS else hints.stated_speech
    return stated if stated is not None else loudness(pcm) >= silence_rms


def _compact(words: str) -> str:
    return "".join(character for character in words.casefold() if character.isalnum())


def _compacted(words: Iterable[str]) -> frozenset[str]:
    return frozenset(_compact(word) for word in words)


SHORT_ACKNOWLEDGEMENTS: Final = _compacted(
    (
        "yes",
        "yeah",
        "yep",
        "ok",
        "okay",
        "right",
        "sure",
        "uh-huh",
        "mm-hmm",
        "mhm",
        "I see",
        "got it",
        "continue",
        "go on",
        "keep going",
        "please continue",
        "嗯",
        "嗯嗯",
        "对",
        "对的",
        "是",
        "是的",
        "好",
        "好的",
        "行",
        "明白",
        "继续",
        "请继续",
    )
)
"""What listeners say without taking the turn, in English and Chinese, letters and digits only."""


def acknowledges(transcript: str | None) -> bool:
    """Whether words say no more than that one listens. Case, spaces and punctuation do not count."""
    return transcript is not None and _compact(transcript) in SHORT_ACKNOWLEDGEMENTS
