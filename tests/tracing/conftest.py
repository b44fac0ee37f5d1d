"""Spans of conversations with a scripted engine, kept in memory, and a ledger of which began and which ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from attrs import define
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.script import Script
from duplex_trio.testing import scripted_omni
from duplex_trio.testing.kept_logs import faults_expected, logs
from duplex_trio.tracing.otel import OtelTracer

__all__ = ["faults_expected", "logs"]

WALL_S = 1_700_000_000
"""What the wall clock shows when a session begins, in seconds since 1970."""


class Ledger(SpanProcessor):
    """Which spans began, and how often each ended."""

    def __init__(self) -> None:
        self.begun: list[Span] = []
        self.ended: Counter[int] = Counter()

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        self.begun.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        assert span.context is not None
        self.ended[span.context.span_id] += 1

    def check(self) -> None:
        """Every span has ended, once."""
        begun = [span.get_span_context().span_id for span in self.begun]
        assert {**self.ended} == dict.fromkeys(begun, 1), [span.name for span in self.begun]


@define(eq=False)
class Spans:
    """What was traced."""

    tracer: OtelTracer
    ledger: Ledger
    exporter: InMemorySpanExporter

    def all(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Spans by the first word of their names, in the order of their beginning."""
        found = [span for span in self.all() if span.name.split()[0] == name]
        return sorted(found, key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


Traced = Callable[..., AbstractAsyncContextManager[DuplexOmni]]


def make_spans(**options: Any) -> Spans:
    ledger, exporter = Ledger(), InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(ledger)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = OtelTracer(provider, wall_ns=lambda: WALL_S * 1_000_000_000, **options)
    return Spans(tracer, ledger, exporter)


@pytest.fixture
def spans() -> Spans:
    """Without what was said."""
    return make_spans()


@pytest.fixture
def telling_spans() -> Spans:
    """With what was said."""
    return make_spans(transcripts=True)


@pytest.fixture
def traced() -> Traced:
    """An engine whose sessions are traced; at the end every span must have ended once."""

    @asynccontextmanager
    async def engine(spans: Spans, script: Script | None = None, **options: Any) -> AsyncIterator[DuplexOmni]:
        async with scripted_omni(script, **options) as omni:
            omni.trace_with(spans.tracer)
            yield omni
        spans.ledger.check()

    return engine


def seconds(span: ReadableSpan) -> tuple[float, float]:
    """Begin and end, since the session's begin."""
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.start_time / 1e9 - WALL_S, span.end_time / 1e9 - WALL_S)


@pytest.fixture
def times() -> Callable[[ReadableSpan], tuple[float, float]]:
    return seconds
