"""Figures of videos for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.table import Table

from duplex_trio.benchmarks.figures import Spread
from duplex_trio.benchmarks.table import new_table, where
from duplex_trio.benchmarks.video.report import OVERHEAD_TARGET, VideoCost, VideoReport

_NONE = "-"


def video_tables(report: VideoReport) -> Group:
    """All figures with their units."""
    return Group(*_parts(report))


def _parts(report: VideoReport) -> Iterator[Table | str]:
    yield where(report.machine)
    yield _throughput(report)
    yield _switches(report)


def _throughput(report: VideoReport) -> Table:
    table = new_table(
        f"As fast as can be (frames a second of each video; overhead <= {OVERHEAD_TARGET:g} is aimed at)",
        "video",
        "model alone",
        "and encoder",
        "served",
        "overhead",
        "its range",
        "CPU, ms/frame",
        "overhead",
        "chunk alone, ms: p50 / p99",
        "served",
    )
    for cost in report.costs:
        low, high = min(cost.overhead), max(cost.overhead)
        table.add_row(
            _video(cost),
            f"{cost.alone.fps:.1f}",
            f"{cost.encoded.fps:.1f}",
            f"{cost.served.fps:.1f}",
            f"{cost.overhead_p50:.3f}x",
            f"{low:.2f} - {high:.2f}",
            f"{cost.encoded.cpu_ms:.1f} / {cost.served.cpu_ms:.1f}",
            f"{cost.cpu_overhead:.2f}x",
            _two(cost.encoded.chunk_ms),
            _two(cost.served.chunk_ms),
        )
    return table


def _switches(report: VideoReport) -> Table:
    table = new_table(
        "New prompts at once, while it plays (p50 / p99)",
        "video",
        "fps, of",
        "first payload, ms",
        "prompts",
        "queued, ms",
        "to payload, ms",
        "in chunks",
        "to picture, ms",
    )
    for cost in report.costs:
        made = cost.switches
        table.add_row(
            _video(cost),
            f"{made.fps:.1f}, {cost.native_fps:g}",
            _two(made.first_ms),
            str(made.payload_ms.count if made.payload_ms is not None else 0),
            _two(made.queued_ms),
            _two(made.payload_ms),
            _two(made.chunks),
            _two(made.picture_ms),
        )
    return table


def _video(cost: VideoCost) -> str:
    return f"{cost.model}, {cost.side}x{cost.side}, {cost.sessions} at once"


def _two(readings: Spread | None) -> str:
    return _NONE if readings is None else f"{readings.p50:,.0f} / {readings.p99:,.0f}"
