"""Invariants of an engine: what it holds is what its sessions hold."""

from __future__ import annotations

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.testing.invariants.broken import hold
from duplex_trio.testing.invariants.live import core_of


def check_engine(omni: DuplexOmni) -> None:
    """Check that an engine's counts are within their bounds and equal what its sessions hold.

    Raises:
        InvariantBroken: the first rule that does not hold.
    """
    statistics = omni.statistics()
    hold(0 <= statistics.sessions <= statistics.max_sessions, f"{statistics.sessions} sessions")
    handles = list(omni.duplex_engine.manager._sessions.values())
    live = {request_id for handle in handles for request_id in core_of(handle).live_turns}
    known = set(omni.duplex_engine.orchestrator._requests)
    hold(live <= known, f"requests that the engine does not know: {sorted(live - known)}")
    owners = {handle.session_id for handle in handles}
    stray = [
        r.request_id for r in omni.duplex_engine.orchestrator._requests.values() if r.owner not in owners
    ]
    hold(not stray, f"requests of sessions that are gone: {stray}")


def check_engine_at_rest(omni: DuplexOmni) -> None:
    """Check that an engine whose sessions have all ended holds nothing of them.

    Raises:
        InvariantBroken: a slot, a request or a unit was left behind.
    """
    statistics = omni.statistics()
    hold(statistics.sessions == 0, f"{statistics.sessions} sessions kept their slots")
    hold(statistics.live_requests == 0, f"{statistics.live_requests} requests were left behind")
    for stage in statistics.stages:
        hold(stage.live_requests == 0, f"stage {stage.name} still has {stage.live_requests} requests")
        hold(not stage.alive or stage.queued_commands == 0, f"stage {stage.name} has commands waiting")
