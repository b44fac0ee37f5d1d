"""An answer as OpenAI's clients get it: whole, or as chunks while it comes. Both are made of the same pieces.

Sound goes where OpenAI has it, into `audio.data`, and its words into `audio.transcript`; a spoken answer has no
`content`. The `data` of all chunks, joined and decoded or decoded and joined, is the sound in the format that was
asked for: a streamed WAV file begins with a header that leaves its length open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pybase64
from attrs import define, field, frozen

from duplex_trio.protocol.chat.pieces import (
    ANSWER_RATE_HZ,
    CallPiece,
    ChatPiece,
    ChatUsage,
    FinishPiece,
    SpeechPiece,
    TextPiece,
    TranscriptPiece,
)
from duplex_trio.protocol.chat.shapes import (
    AudioShape,
    ChoiceShape,
    ChunkChoiceShape,
    ChunkShape,
    CompletionShape,
    DeltaShape,
    FunctionShape,
    MessageShape,
    PromptDetailsShape,
    ToolCallShape,
    UsageShape,
    to_json,
)
from duplex_trio.protocol.realtime.wav import wav_bytes, wav_stream_header

WHOLE_BYTES = 6
"""A chunk has a multiple of so many bytes: whole samples, and whole groups of base64, for some clients join before
they decode."""


@frozen(kw_only=True)
class AnswerFrame:
    """What all parts of one answer say: its id, when it was begun (seconds since 1970), and the model.

    `audio_id` names its sound until `expires_s`. `speaks` says that sound was asked for, in `audio_format`.
    """

    completion_id: str
    created_s: int
    model: str
    speaks: bool
    audio_format: str
    audio_id: str
    expires_s: int
    include_usage: bool = False
    stage_metrics: bool = False


@define
class WholeAnswer:
    """Gathers an answer that is sent at its end.

    Args:
        frame: what it says beside its content.
    """

    frame: AnswerFrame
    transcript: str = field(default="", init=False)
    _text: list[str] = field(factory=list, init=False)
    _pcm16: bytearray = field(factory=bytearray, init=False)
    _calls: list[ToolCallShape] = field(factory=list, init=False)
    _finish: FinishPiece | None = field(default=None, init=False)

    def take(self, piece: ChatPiece) -> None:
        """Add a piece."""
        match piece:
            case TextPiece(text=text):
                self._text.append(text)
            case TranscriptPiece(text=text):
                self.transcript += text
            case SpeechPiece(pcm16=pcm16):
                self._pcm16 += pcm16
            case CallPiece():
                self._take_call(piece)
            case FinishPiece():
                self._finish = piece

    def render(self) -> dict[str, Any]:
        """The completion; after the last piece."""
        frame, finish = self.frame, self._finish
        assert finish is not None
        audio = self._audio() if self._pcm16 or self.transcript else None
        text = "".join(self._text)
        message = MessageShape(
            content=text if text or not (audio or self._calls) else None,
            tool_calls=tuple(self._calls) or None,
            audio=audio,
        )
        return to_json(
            CompletionShape(
                id=frame.completion_id,
                created=frame.created_s,
                model=frame.model,
                choices=(ChoiceShape(message=message, finish_reason=finish.reason),),
                usage=usage_shape(finish.usage),
                metrics=finish.stage_metrics if frame.stage_metrics else None,
            )
        )

    def _take_call(self, piece: CallPiece) -> None:
        if piece.index == len(self._calls):
            function = FunctionShape(name=piece.name, arguments=piece.arguments)
            self._calls.append(ToolCallShape(id=piece.call_id, type="function", function=function))
            return
        call = self._calls[piece.index]
        said = f"{call.function.arguments}{piece.arguments}"
        function = FunctionShape(name=call.function.name, arguments=said)
        self._calls[piece.index] = ToolCallShape(id=call.id, type="function", function=function)

    def _audio(self) -> AudioShape:
        pcm16 = bytes(self._pcm16)
        data = wav_bytes(pcm16, ANSWER_RATE_HZ) if self.frame.audio_format == "wav" else pcm16
        return AudioShape(
            id=self.frame.audio_id,
            data=pybase64.b64encode_as_string(data),
            transcript=self.transcript,
            expires_at=self.frame.expires_s,
        )


@define
class StreamedAnswer:
    """Makes the chunks of an answer that is sent while it comes.

    Args:
        frame: what each chunk says beside its content.
    """

    frame: AnswerFrame
    transcript: str = field(default="", init=False)
    _began: bool = field(default=False, init=False)
    _named: bool = field(default=False, init=False)
    _unsent: bytes = field(init=False)
    _called: set[int] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self._unsent = wav_stream_header(ANSWER_RATE_HZ) if self.frame.audio_format == "wav" else b""

    def take(self, piece: ChatPiece) -> Iterator[dict[str, Any]]:
        """The chunks that a piece makes, in order."""
        if not self._began:
            self._began = True
            yield self._chunk(DeltaShape(role="assistant", content=None if self.frame.speaks else ""))
        match piece:
            case TextPiece(text=text):
                yield self._chunk(DeltaShape(content=text), modality="text")
            case TranscriptPiece(text=text):
                self.transcript += text
                yield self._audio(transcript=text)
            case SpeechPiece(pcm16=pcm16):
                data = self._unsent + pcm16
                whole = len(data) - len(data) % WHOLE_BYTES
                self._unsent = data[whole:]
                if whole:
                    yield self._audio(data=pybase64.b64encode_as_string(data[:whole]))
            case CallPiece():
                yield self._chunk(DeltaShape(tool_calls=(self._call(piece),)))
            case FinishPiece():
                yield from self._finish(piece)

    def _finish(self, piece: FinishPiece) -> Iterator[dict[str, Any]]:
        if self._named:
            rest = pybase64.b64encode_as_string(self._unsent)
            yield self._audio(data=rest or None, expires_at=self.frame.expires_s)
        metrics = piece.stage_metrics if self.frame.stage_metrics else None
        yield self._chunk(DeltaShape(), finish_reason=piece.reason, metrics=metrics)
        if self.frame.include_usage:
            usage = usage_shape(piece.usage)
            yield to_json(ChunkShape(choices=(), usage=usage, **self._head()))

    def _call(self, piece: CallPiece) -> ToolCallShape:
        if piece.index in self._called:
            return ToolCallShape(index=piece.index, function=FunctionShape(arguments=piece.arguments))
        self._called.add(piece.index)
        function = FunctionShape(name=piece.name, arguments=piece.arguments)
        return ToolCallShape(index=piece.index, id=piece.call_id, type="function", function=function)

    def _audio(self, **said: Any) -> dict[str, Any]:
        shape = AudioShape(id=None if self._named else self.frame.audio_id, **said)
        self._named = True
        return self._chunk(DeltaShape(audio=shape), modality="audio")

    def _chunk(
        self,
        delta: DeltaShape,
        *,
        finish_reason: str | None = None,
        modality: str | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        choice = ChunkChoiceShape(delta=delta, finish_reason=finish_reason)
        chunk = to_json(ChunkShape(choices=(choice,), modality=modality, metrics=metrics, **self._head()))
        if self.frame.include_usage:
            chunk["usage"] = None  # the last chunk has it; the others say so
        return chunk

    def _head(self) -> dict[str, Any]:
        frame = self.frame
        return {"id": frame.completion_id, "created": frame.created_s, "model": frame.model}


def usage_shape(usage: ChatUsage) -> UsageShape:
    """Tokens in OpenAI's words."""
    return UsageShape(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.input_tokens + usage.output_tokens,
        prompt_tokens_details=PromptDetailsShape(cached_tokens=usage.cached_tokens),
    )
