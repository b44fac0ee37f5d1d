"""What a scripted model hears and says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from attrs import Factory, define, field, frozen

from duplex_trio.stages.units import ChatPrompt, GenerationParams

ASKED_MAX = 256
"""Prompts that a script remembers."""

ANSWER_CHARS_MAX = 20_000
"""An answer is as long as a large model's longest, so that what is done with it on the loop stays as short as there."""
Reply = Callable[[str], str]
"""Makes the answer to a user's words."""


def echo(text: str) -> str:
    """The answer without a script: what was heard, said back."""
    return f"You said: {text}"


@frozen
class Asked:
    """What the language model was asked, and how it was to answer."""

    prompt: ChatPrompt
    params: GenerationParams


@define
class Script:
    """One conversation's script, or that of all conversations of a model.

    `heard` are the transcripts of the final segments of a session, in order; when they run out, a segment is
    heard as its length. `replies` maps words that were heard to answers; others are made by `otherwise`.
    `word_ms` is the sound of a spoken word, `words_per_step` how many words the language model writes in a
    step. `fail_on` names what the user says at which the language model's request fails, `fail_speaking` a
    word of the answer at which the voice's request does. `asked` is what the language model was asked, the
    latest last.
    """

    heard: Sequence[str] = ()
    replies: Mapping[str, str] = Factory(dict)
    otherwise: Reply = echo
    word_ms: int = 300
    words_per_step: int = 1
    fail_on: frozenset[str] = frozenset()
    fail_speaking: str | None = None
    asked: deque[Asked] = field(factory=lambda: deque(maxlen=ASKED_MAX), init=False)
    _heard_by_owner: dict[str, int] = field(factory=dict, init=False)

    def hear(self, owner: str, duration_s: float, *, partial: bool) -> str:
        """The transcript of a segment; a partial one shows what the next final one will say."""
        index = self._heard_by_owner.get(owner, 0)
        if not partial:
            self._heard_by_owner[owner] = index + 1
        if index < len(self.heard):
            return self.heard[index]
        return f"sound of {duration_s:.1f} seconds"

    def answer(self, text: str) -> str:
        """The answer to what the user said."""
        return self.replies.get(text, self.otherwise(text))[:ANSWER_CHARS_MAX]
