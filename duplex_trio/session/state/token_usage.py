"""The tokens of a response as the client is shown them."""

from __future__ import annotations

from duplex_trio.pipelines.results import TokenUsage, TurnEnd
from duplex_trio.protocol.duplex import InputTokenDetails, OutputTokenDetails, Usage


def shown_usage(told: TokenUsage | TurnEnd) -> Usage:
    """What the model told of its tokens; all of them count as text."""
    return Usage(
        total_tokens=told.input_tokens + told.output_tokens,
        input_tokens=told.input_tokens,
        output_tokens=told.output_tokens,
        input_token_details=InputTokenDetails(
            text_tokens=told.input_tokens, cached_tokens=told.cached_tokens
        ),
        output_token_details=OutputTokenDetails(text_tokens=told.output_tokens),
    )
