"""What comes of a request, piece by piece, and what it is as a whole. Sound is mono float32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from attrs import Factory, define, field, frozen

from duplex_trio.protocol.refusal import RequestError
from duplex_trio.stages.units import ChatCall, Pcm

FinishReason = Literal["stop", "length", "tool_calls", "listen", "abort"]
"""Why an answer ends: the model was done, it reached a limit, it wants functions called, it chose to say nothing
(there were no words in the sound), or it was aborted.
"""


@frozen
class TextOutput:
    """More of a written answer."""

    text: str


@frozen(eq=False, kw_only=True)
class SpeechOutput:
    """More of a spoken one: sound, shape (n,), and the words in it."""

    pcm: Pcm = field(repr=lambda pcm: f"<{len(pcm)} samples>")
    sample_rate_hz: int
    text: str


@frozen(kw_only=True)
class TranscriptOutput:
    """What the model heard in a piece of sound.

    Attributes:
        text: the words; empty when there were none.
        duration_s: of the sound.
        message: which of the request's messages it is in, counted from 0.
        part: which part of that message, counted from 0.
    """

    text: str
    duration_s: float
    message: int
    part: int


@frozen(kw_only=True)
class CallOutput:
    """A piece of a function call.

    Attributes:
        index: which call, counted from 0.
        call_id: its id, for the message with its result.
        name: the function's.
        arguments: more of the JSON text of its arguments.
        done: they are complete; a call without it, at the end of the answer, is not to be made.
    """

    index: int
    call_id: str
    name: str
    arguments: str = ""
    done: bool = False


@frozen(kw_only=True)
class Usage:
    """Tokens of an answer; those of the prompt that were there already are `cached_tokens`."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@frozen(kw_only=True)
class EndOutput:
    """The end of an answer; nothing follows.

    Attributes:
        finish_reason: why.
        usage: its tokens.
        stages: figures of the stages that made it, by the stage's id.
    """

    finish_reason: FinishReason
    usage: Usage = Usage()
    stages: Mapping[str, Any] = Factory(dict)


OmniOutput = TextOutput | SpeechOutput | TranscriptOutput | CallOutput | EndOutput


@define(eq=False, kw_only=True)
class OmniResult:
    """A whole answer, or what there is of one that failed.

    Attributes:
        request_id: the request's.
        text: what was written or spoken.
        pcm: the sound of what was spoken, shape (n,); empty for a written answer.
        sample_rate_hz: its rate; 0 without sound.
        transcript: what the model heard in the last message; None if it was not sound.
        calls: functions to be called.
        finish_reason: why it ended; None for one that failed.
        usage: its tokens.
        stages: figures of the stages that made it, by the stage's id.
        error: why it failed; None for an answer that came to its end.
    """

    request_id: str
    text: str = ""
    pcm: Pcm = field(factory=lambda: np.zeros(0, np.float32), repr=lambda pcm: f"<{len(pcm)} samples>")
    sample_rate_hz: int = 0
    transcript: str | None = None
    calls: tuple[ChatCall, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage = Usage()
    stages: Mapping[str, Any] = field(factory=dict)
    error: RequestError | None = None


@define(eq=False)
class ResultBuilder:
    """Puts the pieces of an answer together.

    Args:
        request_id: the request's.
        last_message: index of its last message, whose transcript the result shows.
    """

    request_id: str
    last_message: int
    _text: list[str] = field(factory=list, init=False)
    _pcm: list[Pcm] = field(factory=list, init=False)
    _heard: list[str] = field(factory=list, init=False)
    _arguments: dict[int, list[str]] = field(factory=dict, init=False)
    _calls: list[ChatCall] = field(factory=list, init=False)
    _rate_hz: int = field(default=0, init=False)
    _end: EndOutput | None = field(default=None, init=False)

    def take(self, output: OmniOutput) -> None:
        """The next piece."""
        match output:
            case TextOutput(text=text):
                self._text.append(text)
            case SpeechOutput(pcm=pcm, sample_rate_hz=rate, text=text):
                self._text.append(text)
                self._pcm.append(pcm)
                self._rate_hz = rate
            case TranscriptOutput(text=text, message=message) if message == self.last_message:
                self._heard.append(text)
            case CallOutput(index=index, arguments=more) as call:
                self._arguments.setdefault(index, []).append(more)
                if call.done:
                    arguments = "".join(self._arguments[index])
                    self._calls.append(ChatCall(name=call.name, arguments=arguments, call_id=call.call_id))
            case EndOutput():
                self._end = output

    def result(self, error: RequestError | None = None) -> OmniResult:
        """The whole, or what has come before the `error`."""
        result = OmniResult(
            request_id=self.request_id,
            text="".join(self._text),
            sample_rate_hz=self._rate_hz,
            transcript=" ".join(self._heard) if self._heard else None,
            calls=tuple(self._calls),
            error=error,
        )
        if self._pcm:
            result.pcm = np.concatenate(self._pcm)
        if self._end is not None:
            result.finish_reason = self._end.finish_reason
            result.usage, result.stages = self._end.usage, self._end.stages
        return result
