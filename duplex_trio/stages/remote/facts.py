"""What is learned of an engine elsewhere while it is used: its model, its context, and how it counts.

Its tokenizer is not here, and asking it for a count would hold up whoever writes the prompt. So tokens are estimated
from the length of the text, and each answer, which tells the true count, corrects the estimate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define

from duplex_trio.stages.units import ChatMessage

BYTES_PER_TOKEN = 3.5
"""Of UTF-8. English has 4 to 5 with usual tokenizers, Chinese about 3, Russian and Hindi 3 to 5."""
TOKENS_PER_MESSAGE = 8
"""What a chat template puts around each."""
LEARNT_FROM_TOKENS = 200
"""Of a shorter prompt, what its template puts around it is too large a part."""
SCALE_MIN, SCALE_MAX = 0.5, 8.0


@define(eq=False)
class RemoteFacts:
    """One engine.

    Attributes:
        model: what it calls the model; None until it has been asked.
        context_tokens: most tokens of prompt and answer; None where nobody tells.
        scale: what estimates are multiplied with.
    """

    model: str | None = None
    context_tokens: int | None = None
    scale: float = 1.0

    def count(self, messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]] = ()) -> int:
        """About how many tokens a prompt has, rather too many than too few."""
        return round(_unscaled(messages, tools) * self.scale)

    def learn(self, messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]], tokens: int) -> None:
        """A prompt had so many tokens.

        An estimate that was too low is corrected at once, since it lets conversations grow too long; one that
        was too high step by step, since the next prompt may be of another kind.
        """
        unscaled = _unscaled(messages, tools)
        if tokens < LEARNT_FROM_TOKENS or not unscaled or any(message.images for message in messages):
            return
        seen = tokens / unscaled
        scale = seen if seen > self.scale else self.scale + (seen - self.scale) * 0.1
        self.scale = min(max(scale, SCALE_MIN), SCALE_MAX)


def _unscaled(messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]]) -> float:
    texts = [message.content for message in messages]
    texts += [call.name + call.arguments for message in messages for call in message.calls]
    texts += [json.dumps(tool, ensure_ascii=False) for tool in tools]
    written = sum(len(text.encode(errors="replace")) for text in texts)
    return written / BYTES_PER_TOKEN + TOKENS_PER_MESSAGE * (len(messages) + len(tools))
