"""Figures of videos for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.table import Table

from duplex_trio.benchmarks.table import new_table, where
from duplex_trio.benchmarks.video.report import OVERHEAD_TARGET, VideoCost, VideoReport
from duplex_trio.clients.distribution import Distribution

_NONE = "-"
_VIDEO = ("model", "size", "at once")


def video_tables(report: VideoReport) -> Group:
    """All figures with their units."""
    return Group(*_parts(report))


def _parts(report: VideoReport) -> Iterator[Table | str]:
    yield where(report.machine)
    yield _throughput(report)
    yield _chunks(report)
    yield _switches(report)


def _throughput(report: VideoReport) -> Table:
    table = new_table(
        f"Frames a second of each video, as fast as can be (overhead <= {OVERHEAD_TARGET:g}x is aimed at)",
        *_VIDEO,
        "model alone",
        "and encoder",
        "served",
        "overhead",
        "from - to",
    )
    for cost in report.costs:
        table.add_row(
            *_video(cost),
            f"{cost.alone.fps:.1f}",
            f"{cost.encoded.fps:.1f}",
            f"{cost.served.fps:.1f}",
            f"{cost.overhead_p50:.3f}x",
            f"{min(cost.overhead):.3f} - {max(cost.overhead):.3f}",
        )
    return table


def _chunks(report: VideoReport) -> Table:
    table = new_table(
        "Chunks, as fast as can be (ms: p50 / p99) and CPU time of a frame (ms)",
        *_VIDEO,
        "frames",
        "model and encoder",
        "served",
        "CPU alone",
        "CPU served",
        "overhead",
    )
    for cost in report.costs:
        table.add_row(
            *_video(cost),
            str(cost.chunk_frames),
            _two(cost.encoded.chunk_ms),
            _two(cost.served.chunk_ms),
            f"{cost.encoded.cpu_ms:.2f}",
            f"{cost.served.cpu_ms:.2f}",
            f"{cost.cpu_overhead:.2f}x",
        )
    return table


def _switches(report: VideoReport) -> Table:
    table = new_table(
        "New prompts, in force at once, while it plays (ms: p50 / p99)",
        *_VIDEO,
        "fps, of",
        "first payload",
        "prompts",
        "queued",
        "to payload",
        "in chunks",
        "to picture",
    )
    for cost in report.costs:
        made = cost.switches
        table.add_row(
            *_video(cost),
            f"{made.fps:.1f}, {cost.native_fps:g}",
            _two(made.first_ms),
            str(made.payload_ms.count if made.payload_ms is not None else 0),
            _two(made.queued_ms),
            _two(made.payload_ms),
            _two(made.chunks),
            _two(made.picture_ms),
        )
    return table


def _video(cost: VideoCost) -> tuple[str, str, str]:
    return cost.model, f"{cost.side}x{cost.side}", str(cost.sessions)


def _two(readings: Distribution | None) -> str:
    return _NONE if readings is None else f"{readings.p50:,.0f} / {readings.p99:,.0f}"
