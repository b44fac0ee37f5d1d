"""What the events of a session that is asked once mean for the completion that is made of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from duplex_trio.entrypoints.chat_backend import param_of_tool
from duplex_trio.protocol.chat import (
    CallPiece,
    ChatError,
    ChatPiece,
    ChatUsage,
    FinishPiece,
    FinishReason,
    SpeechPiece,
    TextPiece,
    TranscriptPiece,
    of_code,
)
from duplex_trio.protocol.duplex import (
    ConversationItemInputAudioTranscriptionFailed,
    DuplexEvent,
    ErrorDetail,
    ErrorEvent,
    FunctionCallItem,
    ResponseDone,
    ResponseFunctionCallArgumentsDelta,
    ResponseFunctionCallArgumentsDone,
    ResponseOutputAudioDelta,
    ResponseOutputAudioTranscriptDelta,
    ResponseOutputItemAdded,
    ResponseOutputTextDelta,
)

ANSWER = "answer"
"""The id of the command that asks for the answer; those that put messages in front of it have the messages' paths."""


@define
class ChatEventReader:
    """Turns events into pieces of the answer, in order; the last is a `FinishPiece` or the error that ended it.

    A response that was cancelled makes neither: nobody asks for that but who ends the session, which says why.
    """

    _calls: dict[str, int] = field(factory=dict)
    _argued: set[str] = field(factory=set)

    def read(self, event: DuplexEvent) -> Iterator[ChatPiece | ChatError]:
        """The pieces that an event holds; none for most."""
        match event:
            case ResponseOutputTextDelta(delta=text) if text:
                yield TextPiece(text)
            case ResponseOutputAudioDelta(delta=pcm16) if pcm16:
                yield SpeechPiece(pcm16)
            case ResponseOutputAudioTranscriptDelta(delta=text) if text:
                yield TranscriptPiece(text)
            case ResponseOutputItemAdded(item=FunctionCallItem() as call):
                index = self._calls[call.id] = len(self._calls)
                yield CallPiece(index, call_id=call.call_id, name=call.name)
            case ResponseFunctionCallArgumentsDelta(item_id=item_id, delta=text) if text:
                self._argued.add(item_id)
                yield CallPiece(self._calls[item_id], text)
            case ResponseFunctionCallArgumentsDone(item_id=item_id, arguments=text):
                if item_id not in self._argued:
                    yield CallPiece(self._calls[item_id], text)
            case ConversationItemInputAudioTranscriptionFailed(error=error):
                yield of_code(error.code or "engine_error", error.message or "the sound could not be heard")
            case ErrorEvent(error=error):
                yield of_code(error.code or "internal_error", error.message, _param(error))
            case ResponseDone():
                yield from self._finish(event)

    def _finish(self, event: ResponseDone) -> Iterator[ChatPiece | ChatError]:
        response = event.response
        if response.status == "failed":
            details = response.status_details
            error = details.error if details is not None else None
            code = error.code if error is not None else "engine_error"
            yield of_code(code, (error and error.message) or "the model failed")
        elif response.status != "cancelled":
            reason: FinishReason = "tool_calls" if self._calls else "stop"
            if response.status == "incomplete":
                reason = "length"
            metrics = event.duplex.stage_metrics if event.duplex is not None else None
            yield FinishPiece(reason, _usage(event), metrics or {})


def _param(error: ErrorDetail) -> str | None:
    """What was refused, as the request spells it: a message, or the parameters of a function."""
    if error.event_id not in (None, ANSWER):
        return error.event_id
    return param_of_tool(error.param)


def _usage(event: ResponseDone) -> ChatUsage:
    usage = event.response.usage
    if usage is None:
        return ChatUsage()
    return ChatUsage(
        input_tokens=usage.input_tokens,
        cached_tokens=usage.input_token_details.cached_tokens,
        output_tokens=usage.output_tokens,
    )
