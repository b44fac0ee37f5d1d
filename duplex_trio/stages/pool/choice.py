"""Which replica a new request goes to. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen


@frozen(order=True)
class ReplicaLoad:
    """What keeps one replica busy; the smaller the better.

    Of equal ones the first comes first: requests that follow each other then find the caches of the first
    replica warm, and a pool that has little to do behaves like one stage.
    """

    live_requests: int
    queued_commands: int
    index: int


def least_loaded(loads: Iterable[ReplicaLoad]) -> int | None:
    """The index of the replica that gets the next request, None if there is none to choose from."""
    best = min(loads, default=None)
    return None if best is None else best.index
