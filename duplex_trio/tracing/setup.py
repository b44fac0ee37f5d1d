"""Whether to trace, as the command line and the environment say, and the tracer then.

OpenTelemetry's own variables are read by its SDK: where to (`OTEL_EXPORTER_OTLP_ENDPOINT`, `_HEADERS`,
`_CERTIFICATE`...), as whom (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`), how much (`OTEL_TRACES_SAMPLER`,
`OTEL_BSP_*`, `OTEL_SPAN_*_LIMIT`). Only whether to trace at all, and with what, is decided here:

1. `OTEL_SDK_DISABLED=true` switches tracing off, whatever else is said.
2. `--otel` switches it on, `--no-otel` off.
3. Without either, it is on if `OTEL_TRACES_EXPORTER` is `otlp`, or says nothing and an endpoint is named.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from duplex_trio.tracing.port import NO_TRACER, Tracer

SERVICE_NAME = "duplex-trio"
"""What the server is called in traces where `OTEL_SERVICE_NAME` does not say."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"


class TracingUnavailableError(Exception):
    """Tracing is asked for, and cannot be had; says what to do about it."""


def wants_tracing(option: bool | None, environ: Mapping[str, str]) -> bool:
    """Whether to trace.

    Args:
        option: what the command line says; None if nothing.
        environ: the environment. Empty variables count as unset (OpenTelemetry, "Environment variables").
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if option is not None:
        return option
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip()
    return exporter != "none" if exporter else any(environ.get(name, "").strip() for name in _ENDPOINTS)


def open_tracer(option: bool | None, environ: Mapping[str, str], *, transcripts: bool) -> Tracer:
    """Make the tracer of a server; one that does nothing where none is wanted.

    Spans are handed over in batches by a thread of the SDK's, which keeps 2,048 of them at the most
    (`OTEL_BSP_MAX_QUEUE_SIZE`) and drops what is more: a collector that is slow, or gone, costs no session anything.

    Args:
        option: what the command line says; None if nothing.
        environ: the environment.
        transcripts: also keep what was said.

    Raises:
        TracingUnavailableError: the extra `otel` is not installed, or another exporter or protocol is asked for than
            OTLP over HTTP, or the SDK refuses what a variable says.
    """
    if not wants_tracing(option, environ):
        return NO_TRACER
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter not in ("", "otlp", "none"):
        raise TracingUnavailableError(f"OTEL_TRACES_EXPORTER={exporter}: only otlp is there")
    protocol = next((value for name in _PROTOCOLS if (value := environ.get(name, "").strip())), _PROTOCOL)
    if protocol != _PROTOCOL:
        raise TracingUnavailableError(f"OTLP over {protocol} is not there: set it to {_PROTOCOL}")
    if not _installed():
        raise TracingUnavailableError('traces need the extra "otel": pip install ".[otel]"')
    try:
        return _otlp_tracer(environ, transcripts=transcripts)
    except ValueError as error:  # a number that is none, a batch that is larger than the queue
        raise TracingUnavailableError(f"the SDK refuses an OTEL_ variable: {error}") from error


def _installed() -> bool:
    try:
        return all(
            importlib.util.find_spec(name) is not None
            for name in ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
        )
    except ModuleNotFoundError:  # of a package above them
        return False


def _otlp_tracer(environ: Mapping[str, str], *, transcripts: bool) -> Tracer:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from duplex_trio.tracing.otel import OtelTracer

    named = "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "") or environ.get("OTEL_SERVICE_NAME")
    resource = Resource.create({} if named else {"service.name": SERVICE_NAME})
    # Not at exit: there nothing bounds how long a collector that is gone is waited for.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return OtelTracer(provider, transcripts=transcripts, close=provider.shutdown)
