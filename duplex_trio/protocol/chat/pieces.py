"""What an answer is made of while it comes, whoever makes it. Sound is 16-bit samples, mono, at 24 kHz."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Factory, field, frozen

ANSWER_RATE_HZ = 24_000

FinishReason = Literal["stop", "length", "tool_calls"]


@frozen
class TextPiece:
    """More of a written answer."""

    text: str


@frozen
class SpeechPiece:
    """More of the sound of a spoken one."""

    pcm16: bytes = field(repr=lambda data: f"<{len(data)} bytes>")


@frozen
class TranscriptPiece:
    """More of the words of a spoken one."""

    text: str


@frozen
class CallPiece:
    """A function that is to be called: `index` counts them, `name` comes with its first piece only."""

    index: int
    arguments: str = ""
    call_id: str | None = None
    name: str | None = None


@frozen(kw_only=True)
class ChatUsage:
    """Tokens of an answer."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@frozen
class FinishPiece:
    """The end of the answer; `stage_metrics` are the figures of the stages that made it."""

    reason: FinishReason
    usage: ChatUsage = ChatUsage()
    stage_metrics: Mapping[str, Any] = Factory(dict)


ChatPiece = TextPiece | SpeechPiece | TranscriptPiece | CallPiece | FinishPiece
