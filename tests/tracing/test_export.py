"""Spans on their way to a collector: one that takes them, one that is not there, and one that never answers."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import ResponseDone
from duplex_trio.serving import run
from duplex_trio.testing import finish, open_talker, scripted_omni
from duplex_trio.testing.otlp_collector import OtlpCollector, otlp_collector
from duplex_trio.tracing import (
    NO_SESSION_TRACE,
    NO_VIDEO_TRACE,
    SessionOpening,
    SessionTrace,
    Tracer,
    VideoTrace,
)
from duplex_trio.tracing.setup import SERVICE_NAME, open_tracer


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    with otlp_collector() as made:
        yield made


def closed_port() -> str:
    with socket.socket() as once:
        once.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{once.getsockname()[1]}"


async def converse(tracer: Tracer) -> None:
    async with scripted_omni(Script(heard=["hello"])) as omni:
        omni.trace_with(tracer)
        talker = await open_talker(omni)
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        await finish(omni, talker)


@pytest.mark.parametrize("name", [None, "desk"])
async def test_a_collector_gets_the_tree(
    collector: OtlpCollector, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, name: str | None
) -> None:
    """In the SDK's own way of naming the service, and after the last session all at once."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    if name is not None:
        monkeypatch.setenv("OTEL_SERVICE_NAME", name)
    tracer = open_tracer(None, os.environ, transcripts=False)
    await converse(tracer)
    tracer.close()
    assert collector.names() == ["asr", "llm", "response", "session scripted", "tts"]
    assert collector.services() == {name or SERVICE_NAME}


async def test_a_collector_that_is_not_there_harms_nobody(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The conversation takes its ordinary course; at the end the spans are given up."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": closed_port()}
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", environ["OTEL_EXPORTER_OTLP_ENDPOINT"])
    tracer = open_tracer(None, environ, transcripts=False)
    await converse(tracer)
    tracer.close()
    assert "export" in caplog.text.lower()


async def test_what_is_kept_for_a_collector_is_bounded(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """Spans that nobody takes are dropped, and beginning one waits for nothing."""
    for variable, value in {
        "OTEL_EXPORTER_OTLP_ENDPOINT": closed_port(),
        "OTEL_EXPORTER_OTLP_TIMEOUT": "0.1",
        "OTEL_BSP_MAX_QUEUE_SIZE": "8",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8",
        "OTEL_BSP_SCHEDULE_DELAY": "600000",
    }.items():
        monkeypatch.setenv(variable, value)
    tracer: Any = open_tracer(True, {}, transcripts=False)
    for number in range(100):
        tracer.video(f"model {number}", {}).ended("done", {})
    tracer.close()


class Stuck(Tracer):
    """A tracer whose collector never answers."""

    def __init__(self) -> None:
        self.closing = threading.Event()
        self.let = threading.Event()

    def session(self, opening: SessionOpening) -> SessionTrace:
        return NO_SESSION_TRACE

    def video(self, model: str, headers: Any) -> VideoTrace:
        return NO_VIDEO_TRACE

    def close(self) -> None:
        self.closing.set()
        self.let.wait()


async def test_the_end_does_not_wait_for_a_collector_that_never_answers(
    autojump_clock: MockClock, logs: Any
) -> None:
    """Longer than is promised, also where everything is cancelled already; what is lost is said."""
    stuck = Stuck()
    try:
        with trio.CancelScope() as scope:
            scope.cancel()
            await run._hand_over_traces(stuck)
        assert trio.current_time() == pytest.approx(run.TRACES_WAIT_S)
        assert stuck.closing.wait(10)
    finally:
        stuck.let.set()
    assert [line["event"] for line in logs] == ["tracing.lost"]
