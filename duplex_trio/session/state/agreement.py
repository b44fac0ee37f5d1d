"""Stable partial transcripts by local agreement.

A recogniser that transcribes growing speech anew changes its mind. A word is shown once two hypotheses in a
row agree on it and on everything before it (local agreement of two: Liu, Spanakis and Niehues, "Low-Latency
Sequence-to-Sequence Speech Recognition and Translation by Partial Hypothesis Selection", Interspeech 2020).
What was shown is never taken back; the final transcript settles differences.
"""

from __future__ import annotations

from attrs import define, field


def _key(word: str) -> str:
    return word.strip(".,;:!?\"'()").casefold()


@define
class LocalAgreement:
    """Words agreed on so far, and the hypothesis that waits for a second one."""

    shown: list[str] = field(factory=list)
    _previous: list[str] = field(factory=list)

    def update(self, hypothesis: str) -> str:
        """Take a new hypothesis of the whole speech and return the text to add to what was shown (may be
        empty).
        """
        words = hypothesis.split()
        agreed = 0
        for word, earlier in zip(words, self._previous, strict=False):
            if _key(word) != _key(earlier):
                break
            agreed += 1
        self._previous = words
        new = words[len(self.shown) : agreed]
        if not new:
            return ""
        text = (" " if self.shown else "") + " ".join(new)
        self.shown.extend(new)
        return text

    def reset(self) -> None:
        """Start over with new speech."""
        self.shown.clear()
        self._previous.clear()
