"""A report for people, as tables."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.table import Table

from duplex_trio.benchmarks.figures import Machine
from duplex_trio.benchmarks.report import EngineReport
from duplex_trio.benchmarks.wire import APPENDS_MS, WireReport
from duplex_trio.clients.distribution import Distribution

_KIB = 1024
_PACES = {"in_a_row": "in a row", "flat_out": "flat out", "real_time": "real time"}
_NONE = "-"


def tables(report: EngineReport) -> Group:
    """All figures with their units; ratios where two figures of the run belong together."""
    return Group(*_parts(report))


def wire_tables(report: WireReport) -> Group:
    """Both WebSocket paths side by side."""
    table = new_table(
        "WebSockets (CPU time of the server)",
        "path",
        "ping and pong, us",
        *(f"and a {append_ms} ms append, us" for append_ms in APPENDS_MS),
        "idle session",
        "barge-in, us: p50 / p99 / max",
        "resume, us: p50 / p99 / max",
    )
    for path in report.paths:
        table.add_row(
            f"{path.ws}, {path.sessions} sessions",
            f"{path.turn_us:.1f}",
            *(f"{path.append_us[append_ms]:.1f}" for append_ms in APPENDS_MS),
            f"{path.idle_session_bytes / _KIB:,.0f} KiB",
            _three(path.barge_in_us),
            _three(path.resume_us),
        )
    return Group(where(report.machine), table)


def where(machine: Machine) -> str:
    """Where and by what the figures were measured, in a line."""
    package = machine.package or "(from its source folder)"
    return (
        f"duplex-trio {package}, {machine.python}, Trio {machine.trio}, {machine.system} on"
        f" {machine.architecture}, {machine.cpus_usable} of {machine.cpus} CPUs\n"
    )


def _parts(report: EngineReport) -> Iterator[Table | str]:
    yield where(report.machine)
    yield _appends(report)
    yield _barge_ins(report)
    yield _talking(report)
    yield _units(report)
    yield _memory(report)
    left = ", ".join(f"{name} {count}" for name, count in report.leaks.stage_requests.items())
    yield (
        f"Left behind: {report.leaks.sessions} sessions, {report.leaks.live_requests} requests"
        f" ({report.leaks.leaked_requests} that outlived their session); on stages: {left}"
    )


def new_table(title: str, *headings: str) -> Table:
    """A table whose first column says what a row is of, and whose others are figures."""
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number == 0 else "right")
    return table


def _appends(report: EngineReport) -> Table:
    table = new_table(
        "Appends, 24 kHz pcm16 (CPU time)",
        "append",
        "voice activity",
        "pace",
        "us/append",
        "appends/s/core",
        "sessions/core",
    )
    for cost in report.appends:
        pace = f"{_PACES[cost.pace]}, {cost.sessions} session{'s' * (cost.sessions > 1)}"
        table.add_row(
            f"{cost.append_ms} ms",
            "on" if cost.vad else "off",
            pace,
            f"{cost.cpu_us_per_append:.1f}",
            f"{cost.appends_per_s_per_core:,.0f}",
            f"{cost.sessions_per_core:,.0f}",
        )
    return table


def _barge_ins(report: EngineReport) -> Table:
    table = new_table(
        "Barge-in (us: p50 / p99 / max)",
        "load",
        "to epoch",
        "arrival to epoch",
        "to terminal",
        "p99 / idle",
        "to silence",
        "to release",
        "stale deltas",
    )
    idle = report.barge_ins[0].terminal_us if report.barge_ins else None
    for measured in report.barge_ins:
        table.add_row(
            measured.load,
            _three(measured.decide_us),
            _three(measured.arrival_us),
            _three(measured.terminal_us),
            _ratio(measured.terminal_us, idle),
            _three(measured.silence_us),
            _three(measured.abort_us),
            f"<= {measured.stale_deltas_max}",
        )
    return table


def _talking(report: EngineReport) -> Table:
    table = new_table(
        "Sessions talking in real time",
        "sessions",
        "loop late, us",
        "p99 / none",
        "speech end to sound, ms",
        "over its parts",
        "answers",
        "CPU",
    )
    none = report.talking[0].lateness if report.talking else None
    for measured in report.talking:
        ratio, waits = measured.first_audio_over_parts, measured.first_audio
        table.add_row(
            str(measured.sessions),
            _three(measured.lateness),
            _ratio(measured.lateness, none),
            _three(waits),
            _NONE if ratio is None else f"{ratio:.2f}x",
            str(waits.count if waits is not None else 0),
            f"{measured.cpu_share:.0%}",
        )
    return table


def _units(report: EngineReport) -> Table:
    table = new_table(
        "Frames of 80 ms in lockstep, in real time",
        "sessions",
        "frames",
        "late answers",
        "wait, ms: mean / p99",
        "CPU",
    )
    for measured in report.units:
        table.add_row(
            str(measured.sessions),
            str(measured.units),
            str(measured.misses),
            f"{measured.latency_ms:.1f} / <= {measured.latency_p99_ms:g}",
            f"{measured.cpu_share:.0%}",
        )
    return table


def _memory(report: EngineReport) -> Table:
    memory = report.memory
    growth = f"{memory.growth_bytes / _KIB:+,.0f} KiB, {memory.growth_objects:+,d} objects"
    table = new_table("Memory", "what", "resident")
    table.add_row(f"idle session (of {memory.sessions})", f"{memory.idle_session_bytes / _KIB:,.0f} KiB")
    table.add_row("with 1 s of sound", f"{memory.listening_session_bytes / _KIB:,.0f} KiB")
    table.add_row("and an answer on its way", f"{memory.active_session_bytes / _KIB:,.0f} KiB")
    table.add_row(f"growth over {memory.cycles} sessions opened and closed", growth)
    return table


def _three(readings: Distribution | None) -> str:
    if readings is None:
        return _NONE
    return f"{readings.p50:,.0f} / {readings.p99:,.0f} / {readings.max:,.0f}"


def _ratio(readings: Distribution | None, base: Distribution | None) -> str:
    if readings is None or base is None or not base.p99:
        return _NONE
    return f"{readings.p99 / base.p99:.1f}x"
