"""The life of one language-model request, without an engine: which units wait, what the model has read, and when it
is over.

A request is a row of *segments*. Each unit makes the model generate one, which ends at its `max_tokens`, a stop or the
model's own end. An ordinary request has one segment, a resumable one any number. Between two segments stands the
*context*: what the earlier segment was generated from, and what it generated except for the last token. That one is
dropped because the model has sampled it but not read it. This is how vLLM goes on with a resumable request, and it
holds here however the engine is driven.

Not here: the engine (`vllm_resumable`), and how units become tokens of chat (`vllm_chat`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from duplex_trio.stages.units import ChatPrompt, PromptUpdate
from duplex_trio.stages.worker import UnitRefused

UPDATES_MAX = 64
"""Most units of one request that wait while a segment is generated. A caller that waits for each `SegmentEnd` never has
more than one."""


@frozen
class WaitingUnit:
    """A unit, and when it arrived (in seconds of the worker's clock)."""

    unit: ChatPrompt | PromptUpdate
    arrived_s: float


class Segments:
    """The state of one request.

    Args:
        resumable: whether there may be more than one segment.
    """

    def __init__(self, *, resumable: bool) -> None:
        self.resumable = resumable
        self.context: list[int] = []
        self.generating = False
        self._waiting: deque[WaitingUnit] = deque()
        self._opened = False
        self._final = False
        self._made: list[int] = []

    @property
    def ready(self) -> bool:
        """Whether a unit waits for a segment of its own and may have it now."""
        return bool(self._waiting) and not self.generating

    @property
    def over(self) -> bool:
        """Whether nothing is left to do and no unit can follow."""
        return self._final and not self._waiting and not self.generating

    def offer(self, unit: Any, final: bool, now_s: float) -> None:
        """Take a unit, or with `None` and `final` the end of the input.

        Raises:
            UnitRefused: `invalid_value` for a unit of another kind or one behind the final one, `unsupported` for one
                more prompt, `input_backpressure` when `UPDATES_MAX` wait already.
        """
        if unit is None and final:
            self._final = True
            return
        self._refuse(unit)
        self._opened = True
        self._final = final or not self.resumable
        self._waiting.append(WaitingUnit(unit, now_s))

    def _refuse(self, unit: Any) -> None:
        if isinstance(unit, PromptUpdate) and not self.resumable:
            raise UnitRefused("invalid_value", "a PromptUpdate needs a request that is resumable")
        if not isinstance(unit, ChatPrompt | PromptUpdate):
            raise UnitRefused(
                "invalid_value", f"expected a ChatPrompt or a PromptUpdate, got {type(unit).__name__}"
            )
        if self._opened and isinstance(unit, ChatPrompt):
            raise UnitRefused("unsupported", "this stage takes one ChatPrompt a request, as its first unit")
        if self._final:
            raise UnitRefused("invalid_value", "a unit arrived behind the final one")
        if len(self._waiting) >= UPDATES_MAX:
            raise UnitRefused("input_backpressure", f"{UPDATES_MAX} updates wait for the model already")

    def take(self) -> WaitingUnit:
        """Take out the unit whose segment comes next. Only when `ready`."""
        return self._waiting.popleft()

    def begin(self, tokens: Sequence[int]) -> list[int]:
        """A segment begins; return all that it is generated from.

        Args:
            tokens: the unit's.
        """
        self.context = [*self.context, *tokens]
        self.generating = True
        self._made = []
        return self.context

    def made(self, tokens: Sequence[int]) -> None:
        """Note tokens that the segment generated."""
        self._made.extend(tokens)

    def end(self) -> int | None:
        """The segment is complete: fold it into the context; return the token that was dropped, if it made one."""
        self.context = [*self.context, *self._made[:-1]]
        self.generating = False
        return self._made[-1] if self._made else None


def update_tokens(
    update: PromptUpdate, encode: Callable[[str], list[int]], vocabulary_size: int
) -> list[int]:
    """The tokens of an update.

    Args:
        update: the update.
        encode: turns its text into tokens.
        vocabulary_size: token ids are below this.

    Raises:
        UnitRefused: `invalid_value`.
    """
    if (update.token_ids is None) == (update.text is None):
        raise UnitRefused("invalid_value", "an update has either token_ids or text")
    if update.text is None:
        tokens = [_token_id(token, vocabulary_size) for token in _sequence(update.token_ids)]
    elif isinstance(update.text, str):
        tokens = encode(update.text)
    else:
        raise UnitRefused("invalid_value", f"text must be a string, is {type(update.text).__name__}")
    if not tokens:
        raise UnitRefused(
            "invalid_value", "an update has at least one token; to end the request, submit None"
        )
    return tokens


def _sequence(token_ids: Any) -> Sequence[Any]:
    if not isinstance(token_ids, Sequence) or isinstance(token_ids, str):
        raise UnitRefused("invalid_value", f"token_ids must be a sequence, is {type(token_ids).__name__}")
    return token_ids


def _token_id(token: Any, vocabulary_size: int) -> int:
    if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocabulary_size:
        raise UnitRefused("invalid_value", f"token_ids must be in [0, {vocabulary_size}), one is {token!r}")
    return token
