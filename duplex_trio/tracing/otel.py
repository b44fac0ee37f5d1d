"""Sessions, responses, stages and videos as OpenTelemetry spans.

    session {model}            SERVER; its parent is the client's span, if that sent one
    `- response                from its creation to its end: events first_audio, barge_in, function_call
       |- asr                  one for each stage that worked for it, from its first unit to its end
       |- llm
       `- tts
    video {model}              SERVER

Names of attributes are those of OpenTelemetry's conventions for generative AI where there is one (`gen_ai.`), else
ours under `duplex.`. A stage's span may begin before that of its response: the answer was prepared ahead of the
end of the user's speech. Nothing that anybody said is in a span unless `transcripts` asks for it.

Imported only where tracing is switched on; needs `opentelemetry-api`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from attrs import define
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from duplex_trio.tracing.port import (
    Attributes,
    ResponseEnding,
    SessionEnding,
    SessionOpening,
    SessionTrace,
    Tracer,
    VideoTrace,
)
from duplex_trio.tracing.spells import StageSpell, StageSpells

SCOPE = "duplex_trio"
FAULT_CODE = 1011
"""The close code of a session that a fault ended (RFC 6455 7.4.1)."""
_NS = 1_000_000_000
_PARENT = TraceContextTextMapPropagator()


@define(eq=False)
class _Times:
    """From Trio's clock to nanoseconds since 1970: both were read once, so that what follows keeps its distances."""

    trio_s: float
    wall_ns: int

    def at(self, time_s: float) -> int:
        return self.wall_ns + round((time_s - self.trio_s) * _NS)


class OtelTracer(Tracer):
    """Makes spans.

    Args:
        provider: where they go.
        transcripts: also keep what was said.
        close: hands over what is kept, and ends the provider.
        wall_ns: nanoseconds since 1970.
    """

    def __init__(
        self,
        provider: trace.TracerProvider,
        *,
        transcripts: bool = False,
        close: Callable[[], None] = lambda: None,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._tracer = provider.get_tracer(SCOPE)
        self._transcripts = transcripts
        self._close = close
        self._wall_ns = wall_ns

    def session(self, opening: SessionOpening) -> SessionTrace:
        """Begin the span of a session."""
        times = _Times(opening.at_s, self._wall_ns())
        span = self._tracer.start_span(
            f"{opening.kind} {opening.model}",
            context=_PARENT.extract(opening.headers),
            kind=SpanKind.SERVER,
            start_time=times.at(opening.at_s),
            attributes={
                "gen_ai.conversation.id": opening.session_id,
                "gen_ai.request.model": opening.model,
                "gen_ai.provider.name": SCOPE,
                "duplex.dialect": opening.dialect,
            },
        )
        return _OtelSession(self._tracer, span, times, opening.model, transcripts=self._transcripts)

    def video(self, model: str, headers: Mapping[str, str]) -> VideoTrace:
        """Begin the span of a video."""
        span = self._tracer.start_span(
            f"video {model}",
            context=_PARENT.extract(headers),
            kind=SpanKind.SERVER,
            attributes={"gen_ai.request.model": model, "gen_ai.output.type": "video"},
        )
        return _OtelVideo(span)

    def close(self) -> None:
        """Hand over what is kept, and end the provider."""
        self._close()


class _OtelSession(SessionTrace):
    def __init__(
        self, tracer: trace.Tracer, span: Span, times: _Times, model: str, *, transcripts: bool
    ) -> None:
        self._tracer = tracer
        self._span = span
        self._times = times
        self._model = model
        self._transcripts = transcripts
        self._responses: dict[str, Span] = {}
        self._over = False

    @property
    def trace_id(self) -> str | None:
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    def spells(self, *, outlives: bool = False) -> StageSpells | None:
        return StageSpells(outlives=outlives)

    def response_begun(
        self, response_id: str, *, epoch: int, turn_id: int, prepared: bool, speaks: bool, at_s: float
    ) -> None:
        if self._over or response_id in self._responses:
            return
        self._responses[response_id] = self._tracer.start_span(
            "response",
            context=trace.set_span_in_context(self._span),
            start_time=self._times.at(at_s),
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": SCOPE,
                "gen_ai.request.model": self._model,
                "gen_ai.output.type": "speech" if speaks else "text",
                "gen_ai.response.id": response_id,
                "duplex.epoch": epoch,
                "duplex.turn_id": turn_id,
                "duplex.prepared": prepared,
            },
        )

    def response_ended(self, response_id: str, ending: ResponseEnding) -> None:
        span = self._responses.pop(response_id, None)
        if span is None:
            return
        self._end_stages(span, ending.spells, ending.at_s)
        self._describe_end(span, ending)
        if ending.status == "failed":
            span.set_attribute("error.type", ending.code or "failed")
            span.set_status(Status(StatusCode.ERROR))
        span.end(self._times.at(ending.at_s))

    def event(
        self, name: str, at_s: float, attributes: Attributes, *, response_id: str | None = None
    ) -> None:
        kept = attributes
        if "text" in attributes and not self._transcripts:
            kept = {key: value for key, value in attributes.items() if key != "text"}
        span = self._span if response_id is None else self._responses.get(response_id, self._span)
        # What has a name in the conventions keeps it.
        span.add_event(f"duplex.{name}", {_key(key): kept[key] for key in kept}, self._times.at(at_s))

    def ended(self, ending: SessionEnding) -> None:
        if self._over:
            return
        cut = ResponseEnding(status="cancelled", at_s=ending.at_s, reason="session_ended")
        for response_id in list(self._responses):
            self.response_ended(response_id, cut)
        self._over = True
        span = self._span
        span.set_attributes({f"duplex.{name}": value for name, value in ending.counts.items()})
        span.set_attributes({"duplex.end_reason": ending.reason, "duplex.close_code": ending.code})
        if ending.code == FAULT_CODE:
            span.set_attribute("error.type", ending.reason)
            span.set_status(Status(StatusCode.ERROR))
        span.end(self._times.at(ending.at_s))

    def _describe_end(self, span: Span, ending: ResponseEnding) -> None:
        told: dict[str, str | int | float] = {"duplex.status": ending.status}
        if ending.reason is not None:
            told["duplex.reason"] = ending.reason
        told |= {f"duplex.{name}": value for name, value in ending.figures.items()}
        for kind, name in _TOKENS.items():
            if kind in ending.usage:
                told[name] = ending.usage[kind]
        if self._transcripts and ending.text:
            told["duplex.text"] = ending.text
        span.set_attributes(told)
        if ending.finish_reason is not None:
            span.set_attribute("gen_ai.response.finish_reasons", (ending.finish_reason,))

    def _end_stages(self, response: Span, spells: Iterable[StageSpell], now_s: float) -> None:
        context = trace.set_span_in_context(response)
        for spell in spells:
            span = self._tracer.start_span(
                spell.stage, context=context, start_time=self._times.at(spell.begun_s)
            )
            span.set_attributes(_stage_attributes(spell))
            if spell.first_output_s is not None:
                span.add_event("duplex.first_output", timestamp=self._times.at(spell.first_output_s))
            if spell.outcome == "failed":
                span.set_attribute("error.type", spell.error or "failed")
                span.set_status(Status(StatusCode.ERROR))
            span.end(self._times.at(now_s if spell.ended_s is None else spell.ended_s))


class _OtelVideo(VideoTrace):
    def __init__(self, span: Span) -> None:
        self._span = span
        self._over = False

    def ended(self, outcome: str, counts: Mapping[str, float]) -> None:
        if self._over:
            return
        self._over = True
        self._span.set_attributes({f"duplex.video.{name}": value for name, value in counts.items()})
        self._span.set_attribute("duplex.video.outcome", outcome)
        if outcome not in _NO_FAULTS:
            self._span.set_attribute("error.type", outcome)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


_TOKENS = {
    "input": "gen_ai.usage.input_tokens",
    "cached": "gen_ai.usage.cache_read.input_tokens",
    "output": "gen_ai.usage.output_tokens",
}
_NO_FAULTS = frozenset(
    {
        "done", "stopped", "aborted", "server_shutdown", "invalid_start", "start_timeout", "message_too_large",
        "too_many_errors", "send_timeout", "resource_exhausted",
    }
)  # fmt: skip
"""Ends of a video that are no fault of the server or the model."""


def _key(name: str) -> str:
    return name if name.startswith("gen_ai.") else f"duplex.{name}"


def _stage_attributes(spell: StageSpell) -> dict[str, str | int | float | bool]:
    told: dict[str, str | int | float | bool] = {
        "duplex.stage": spell.stage,
        "duplex.outputs": spell.outputs,
        "duplex.aborted": spell.outcome == "aborted",
    }
    if spell.input_tokens:
        told["gen_ai.usage.input_tokens"] = spell.input_tokens
    if spell.output_tokens:
        told["gen_ai.usage.output_tokens"] = spell.output_tokens
    if spell.audio_s:
        told["duplex.audio_s"] = round(spell.audio_s, 3)
    return told
