"""What the measurements of an engine come to, and their form as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict, frozen

from duplex_trio.benchmarks.appends import AppendCost
from duplex_trio.benchmarks.barge_in import BargeIns
from duplex_trio.benchmarks.figures import Machine
from duplex_trio.benchmarks.memory import Memory
from duplex_trio.benchmarks.settings import EngineBenchSettings
from duplex_trio.benchmarks.talking import Talking
from duplex_trio.benchmarks.units import Units
from duplex_trio.clients.distribution import Distribution


@frozen(kw_only=True)
class Leaks:
    """What was left when every session was closed. All must be 0.

    Attributes:
        sessions: slots that were not given back.
        live_requests: requests whose stages have not let go of them.
        leaked_requests: requests that were live when their session had ended.
        stage_requests: requests by stage.
    """

    sessions: int
    live_requests: int
    leaked_requests: int
    stage_requests: Mapping[str, int]

    def and_those_of(self, other: Leaks) -> Leaks:
        """What was left of this engine and of another one."""
        return Leaks(
            sessions=self.sessions + other.sessions,
            live_requests=self.live_requests + other.live_requests,
            leaked_requests=self.leaked_requests + other.leaked_requests,
            stage_requests={**self.stage_requests, **other.stage_requests},
        )

    @property
    def total(self) -> int:
        """Everything that was left."""
        counted = (self.sessions, self.live_requests, self.leaked_requests, *self.stage_requests.values())
        return sum(counted)


@frozen(kw_only=True)
class EngineReport:
    """All figures of one run."""

    machine: Machine
    settings: EngineBenchSettings
    memory: Memory
    appends: tuple[AppendCost, ...]
    barge_ins: tuple[BargeIns, ...]
    talking: tuple[Talking, ...]
    units: tuple[Units, ...]
    leaks: Leaks

    def to_json(self) -> dict[str, Any]:
        """The report as plain values: every reading, and what they come to. Units end the names."""
        return {
            "benchmark": "engine",
            "machine": asdict(self.machine),
            "settings": asdict(self.settings),
            "memory": {
                **asdict(self.memory),
                "idle_session_bytes": self.memory.idle_session_bytes,
                "listening_session_bytes": self.memory.listening_session_bytes,
                "active_session_bytes": self.memory.active_session_bytes,
                "growth_bytes": self.memory.growth_bytes,
                "growth_objects": self.memory.growth_objects,
            },
            "appends": [_cost(cost) for cost in self.appends],
            "barge_ins": [_barge_ins(measured) for measured in self.barge_ins],
            "talking": [_talking(measured) for measured in self.talking],
            "units": [asdict(measured) for measured in self.units],
            "leaks": {**asdict(self.leaks), "total": self.leaks.total},
        }


def _cost(cost: AppendCost) -> dict[str, Any]:
    return {
        **asdict(cost),
        "cpu_us_per_append": cost.cpu_us_per_append,
        "appends_per_s_per_core": cost.appends_per_s_per_core,
        "sessions_per_core": cost.sessions_per_core,
    }


def _barge_ins(measured: BargeIns) -> dict[str, Any]:
    return {
        **asdict(measured),
        "decide_us": _spread(measured.decide_us),
        "terminal_us": _spread(measured.terminal_us),
        "arrival_us": _spread(measured.arrival_us),
        "silence_us": _spread(measured.silence_us),
        "abort_us": _spread(measured.abort_us),
        "stale_deltas_max": measured.stale_deltas_max,
    }


def _talking(measured: Talking) -> dict[str, Any]:
    return {
        **asdict(measured),
        "lateness": _spread(measured.lateness),
        "first_audio": _spread(measured.first_audio),
        "first_audio_over_parts": measured.first_audio_over_parts,
    }


def _spread(readings: Distribution | None) -> dict[str, Any] | None:
    return None if readings is None else asdict(readings)
