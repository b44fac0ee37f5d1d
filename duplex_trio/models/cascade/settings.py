"""What the cascade's logic must know of the models that it joins, told by whichever pipeline has them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from attrs import frozen

from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.models.cascade.prompt import CountTokens
from duplex_trio.pipelines.pipeline import Pipeline

ASR, LLM, TTS = 0, 1, 2
"""The stages of every cascade."""

ContextTokens = int | None | Callable[[], int | None]
"""How many tokens a model reads and writes; an engine elsewhere tells it only when it runs."""


@frozen(kw_only=True)
class CascadeSettings:
    """The models as the cascade sees them.

    Attributes:
        profile: how the language model wants to be told things.
        voices: names of the synthesis voices; the first is the default.
        context_tokens: size of the language model's context, or what tells it; None if it is not known.
        count_tokens: counts a prompt's tokens, so that a long conversation is cut to fit.
        guided: the language model's stage can hold an answer to a grammar (`structured_outputs`).
        knobs: what a turn may say of its sampling; None for all that such a stage can do.
    """

    profile: ChatProfile
    voices: Sequence[str]
    context_tokens: ContextTokens = None
    count_tokens: CountTokens | None = None
    guided: bool = False
    knobs: frozenset[str] | None = None


class CascadeFamily(Pipeline):
    """A pipeline of the cascade's shape: recognition, a language model, synthesis."""

    @abstractmethod
    def settings(self) -> CascadeSettings:
        """What its models are like."""
