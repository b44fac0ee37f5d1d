"""Whether a deployment could be served here, and whether its port is free."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from duplex_trio.cli.deploy.check import check_deployment
from duplex_trio.cli.doctor.finding import Finding


def check_served(name_or_path: str) -> Iterator[Finding]:
    """What `duplex-trio deploy check` finds, in one line. Blocking."""
    report = check_deployment(name_or_path)
    title = f"Deployment {name_or_path}"
    if report.faults:
        more = f" (and {len(report.faults) - 1} more)" if len(report.faults) > 1 else ""
        said = f"{report.faults[0].located}{more}"
        yield Finding(title, "problem", said, f"duplex-trio deploy check {name_or_path}")
    else:
        yield Finding(title, "ok", report.told)


def check_port(host: str, port: int) -> Iterator[Finding]:
    """Whether a server could listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            remedy = (
                f"duplex-trio doctor --url ws://{host}:{port} if it is a server of ours, else serve --port"
            )
            yield Finding(f"Port {port}", "warning", f"cannot be listened at: {error.strerror}", remedy)
        else:
            yield Finding(f"Port {port}", "ok", "free")
