"""What the results of a model mean to who asked: typed outputs, in order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import define, field

from duplex_trio.engine.turn.outputs import (
    CallOutput,
    EndOutput,
    FinishReason,
    OmniOutput,
    SpeechOutput,
    TextOutput,
    TranscriptOutput,
    Usage,
)
from duplex_trio.pipelines.results import (
    FunctionCallArguments,
    FunctionCallBegin,
    FunctionCallEnd,
    FunctionCallResult,
    ListenResult,
    ModelFailure,
    ModelResult,
    SpeechResult,
    TextResult,
    TokenUsage,
    TurnEnd,
    UserTranscript,
)
from duplex_trio.pipelines.stage_metrics import StageMetrics
from duplex_trio.protocol.refusal import RequestFailed
from duplex_trio.protocol.sound import TimeStretcher


@define(eq=False)
class ResultReader:
    """Reads the results of one request.

    Args:
        new_call_id: makes the id of a call that the model gave none.
        place: where the sound of the turn is in the request: its message and part.
        stretch: speeds up the sound of a model that speaks at one speed only.

    Attributes:
        heard: the words of the turn's sound, once they are known.
        usage: the tokens so far.
        metrics: the figures of the stages so far.
    """

    new_call_id: Callable[[], str]
    place: tuple[int, int] = (0, 0)
    stretch: TimeStretcher | None = None
    heard: str | None = field(default=None, init=False)
    usage: Usage = field(factory=Usage, init=False)
    metrics: StageMetrics = field(factory=StageMetrics, init=False)
    _calls: int = field(default=0, init=False)
    _complete: int = field(default=0, init=False)
    _call: CallOutput | None = field(default=None, init=False)
    _rate_hz: int = field(default=0, init=False)

    def read(self, result: ModelResult) -> Iterator[OmniOutput]:
        """The outputs that a result is; an `EndOutput` is the last.

        Raises:
            RequestFailed: the model failed.
        """
        match result:
            case TextResult(text=text) if text:
                yield TextOutput(text)
            case SpeechResult(pcm=pcm, sample_rate_hz=rate, text=text) if len(pcm) or text:
                self._rate_hz = rate
                yield SpeechOutput(
                    pcm=self.stretch.feed(pcm) if self.stretch is not None else pcm,
                    sample_rate_hz=rate,
                    text=text,
                )
            case UserTranscript(text=text, audio_duration_s=duration_s):
                self.heard = text
                message, part = self.place
                yield TranscriptOutput(text=text, duration_s=duration_s, message=message, part=part)
            case TokenUsage() | TurnEnd():
                self.usage = Usage(
                    input_tokens=result.input_tokens,
                    cached_tokens=result.cached_tokens,
                    output_tokens=result.output_tokens,
                )
                if isinstance(result, TurnEnd):
                    yield from self._finish("length" if result.finish_reason == "length" else None)
            case ListenResult():
                yield from self._finish("listen")
            case ModelFailure(code=code, message=message):
                raise RequestFailed(code, message)
            case _:
                yield from self._called(result)

    def end(self, reason: FinishReason) -> EndOutput:
        """The end of the answer, now."""
        return EndOutput(finish_reason=reason, usage=self.usage, stages=self.metrics.totals())

    def _finish(self, reason: FinishReason | None) -> Iterator[OmniOutput]:
        if self.stretch is not None and self._rate_hz:
            yield SpeechOutput(pcm=self.stretch.flush(), sample_rate_hz=self._rate_hz, text="")
        yield self.end(reason or ("tool_calls" if self._complete else "stop"))

    def _called(self, result: ModelResult) -> Iterator[OmniOutput]:
        match result:
            case FunctionCallBegin(name=name, call_id=call_id):
                yield self._begin(name, call_id)
            case FunctionCallArguments(delta=delta) if self._call is not None and delta:
                call = self._call
                yield CallOutput(index=call.index, call_id=call.call_id, name=call.name, arguments=delta)
            case FunctionCallEnd() if self._call is not None:
                yield self._done(self._call)
            case FunctionCallResult(name=name, arguments=arguments, call_id=call_id):
                yield self._done(self._begin(name, call_id), arguments)

    def _begin(self, name: str, call_id: str | None) -> CallOutput:
        self._call = CallOutput(index=self._calls, call_id=call_id or self.new_call_id(), name=name)
        self._calls += 1
        return self._call

    def _done(self, call: CallOutput, arguments: str = "") -> CallOutput:
        self._call = None
        self._complete += 1
        return CallOutput(
            index=call.index, call_id=call.call_id, name=call.name, arguments=arguments, done=True
        )
