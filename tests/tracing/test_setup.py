"""Whether a server traces: the option, OpenTelemetry's variables, and which of them wins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from duplex_trio.tracing import NO_TRACER, setup
from duplex_trio.tracing.setup import TracingUnavailableError, open_tracer, wants_tracing

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("option", "environ", "wanted"),
    [
        (None, {}, False),
        (True, {}, True),
        (None, ENDPOINT, True),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        (None, {"OTEL_TRACES_EXPORTER": "otlp"}, True),
        (None, {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        (True, {"OTEL_TRACES_EXPORTER": "none"}, True),
        (False, ENDPOINT, False),
        (True, {"OTEL_SDK_DISABLED": "true"}, False),
        (None, {**ENDPOINT, "OTEL_SDK_DISABLED": "TRUE"}, False),
        (None, {**ENDPOINT, "OTEL_SDK_DISABLED": "false"}, True),
    ],
)
def test_who_decides(option: bool | None, environ: Mapping[str, str], wanted: bool) -> None:
    """`OTEL_SDK_DISABLED`, then the option, then what names an exporter or an endpoint."""
    assert wants_tracing(option, environ) is wanted


def test_where_nothing_is_wanted_nothing_is_made() -> None:
    assert open_tracer(None, {}, transcripts=False) is NO_TRACER


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "only otlp"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf"),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, "http/protobuf"),
    ],
)
def test_what_cannot_be_had_is_said(environ: Mapping[str, str], says: str) -> None:
    with pytest.raises(TracingUnavailableError, match=says):
        open_tracer(True, environ, transcripts=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "99999"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1"),
        ("OTEL_SPAN_LINK_COUNT_LIMIT", "x"),
    ],
)
def test_what_the_sdk_refuses_is_said(name: str, value: str) -> None:
    """In a process of its own: some of it is read when the SDK is imported."""
    code = (
        "import os\nfrom duplex_trio.tracing.setup import TracingUnavailableError, open_tracer\n"
        "try:\n    open_tracer(True, os.environ, transcripts=False)\n"
        "except TracingUnavailableError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("the SDK refuses an OTEL_ variable: ")


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "_installed", lambda: False)
    with pytest.raises(TracingUnavailableError, match=r'pip install "\.\[otel\]"'):
        open_tracer(True, {}, transcripts=False)


def test_a_server_that_does_not_trace_imports_nothing_for_it() -> None:
    """Not even to find that out: the whole command line, the server and an engine with sessions."""
    code = """
import sys
import duplex_trio.cli.main, duplex_trio.cli.serve, duplex_trio.serving.run, duplex_trio.serving.video
import duplex_trio.serving.duplex_service, duplex_trio.models.scripted.pipeline
from duplex_trio.tracing.setup import open_tracer
open_tracer(None, {}, transcripts=False)
print([name for name in sys.modules if name.split(".")[0] in ("opentelemetry", "google")])
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
