"""What was said under which id, for requests that name an answer by the id of its sound.

OpenAI's clients continue a spoken conversation so: instead of its words, the assistant's message has the id that
came with the sound. An id cannot be guessed, so nobody learns the words of others. Bounded in number, in characters
and in time.
"""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, field

SPOKEN_TTL_S = 3600
"""How long an id is good for, as OpenAI's are."""
SPOKEN_MAX = 4096
"""Answers that are remembered."""
SPOKEN_CHARS_MAX = 4_000_000
"""Characters of all of them."""


@define
class SpokenAnswers:
    """The words of recent spoken answers by the id of their sound; times are seconds of one clock."""

    _said: OrderedDict[str, tuple[int, str]] = field(factory=OrderedDict)
    _chars: int = 0

    def remember(self, audio_id: str, words: str, expires_s: int) -> None:
        """Keep the words of an answer; the oldest go when there is no room."""
        self._said[audio_id] = (expires_s, words)
        self._chars += len(words)
        while len(self._said) > SPOKEN_MAX or (self._chars > SPOKEN_CHARS_MAX and len(self._said) > 1):
            _, (_, oldest) = self._said.popitem(last=False)
            self._chars -= len(oldest)

    def recall(self, audio_id: str, now_s: float) -> str | None:
        """The words of an answer; None for one that is not known, or no longer."""
        found = self._said.get(audio_id)
        if found is None or now_s >= found[0]:
            return None
        return found[1]
