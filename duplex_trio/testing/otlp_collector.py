"""A collector of OpenTelemetry traces on a loopback port, in a thread: keeps what it is sent over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

POLL_S = 0.01
"""How soon the thread notices that it is over."""


class OtlpCollector:
    """What was sent to it so far. Needs the extra `otel`, whose messages it reads.

    Attributes:
        url: its base, for `OTEL_EXPORTER_OTLP_ENDPOINT`.
        requests: every `ExportTraceServiceRequest`, in order.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Any] = []

    def spans(self) -> list[Any]:
        """Every span, in order."""
        scopes = [scope for resource in self._resources() for scope in resource.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    def names(self) -> list[str]:
        """The names of all spans, sorted."""
        return sorted(span.name for span in self.spans())

    def services(self) -> set[str]:
        """The names of the services that sent them."""
        attributes = [one for resource in self._resources() for one in resource.resource.attributes]
        return {one.value.string_value for one in attributes if one.key == "service.name"}

    def _resources(self) -> list[Any]:
        return [resource for request in self.requests for resource in request.resource_spans]


@contextmanager
def otlp_collector() -> Iterator[OtlpCollector]:
    """Run a collector while a block goes on."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = OtlpCollector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": POLL_S})
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
