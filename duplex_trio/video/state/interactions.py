"""What is remembered of interactions by their ids, so that a repeated one is known and its fate can be told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal

from attrs import define, field

from duplex_trio.protocol.video import InteractionOutcome

InteractionState = Literal[
    "preparing", "ready", "started", "completed", "superseded", "interrupted", "unfinished", "failed"
]
"""How far an interaction has come (video.md 3.2)."""

LIVE: frozenset[InteractionState] = frozenset({"preparing", "ready", "started"})
"""States that something still follows."""

_OUTCOMES: Mapping[InteractionState, InteractionOutcome] = {
    "preparing": "queued",
    "ready": "queued",
    "started": "queued",
    "completed": "completed",
    "superseded": "superseded",
    "interrupted": "interrupted",
    "unfinished": "unfinished",
    "failed": "failed",
}


class LedgerFullError(Exception):
    """Nothing can be forgotten to make room."""


@define
class _Entry:
    digest: bytes
    state: InteractionState


@define
class InteractionLedger:
    """Interactions by id, in order of their admission.

    A failed one is no entry any more: its id is free for any payload. That it failed is remembered while there is room
    that entries do not need, and until the id is used again.

    Args:
        ids_max: most ids that are remembered. A live one is never forgotten.
    """

    ids_max: int
    _entries: dict[str, _Entry] = field(factory=dict, init=False)
    _failed: dict[str, None] = field(factory=dict, init=False)
    _counts: Counter[InteractionState] = field(factory=Counter, init=False)

    def digest(self, event_id: str) -> bytes | None:
        """The digest of the payload that was admitted under an id; None if the id is free."""
        entry = self._entries.get(event_id)
        return entry.digest if entry is not None else None

    def state(self, event_id: str) -> InteractionState | None:
        """How far an interaction has come; None if it is not remembered."""
        if event_id in self._failed:
            return "failed"
        entry = self._entries.get(event_id)
        return entry.state if entry is not None else None

    def in_state(self, state: InteractionState) -> int:
        """How many interactions are in a state, forgotten ones included."""
        return self._counts[state]

    def ids_in(self, *states: InteractionState) -> tuple[str, ...]:
        """The ids in some states, in order of their admission."""
        return tuple(event_id for event_id, entry in self._entries.items() if entry.state in states)

    def admit(self, event_id: str, digest: bytes) -> None:
        """Enter an interaction under a free id. The oldest one that nothing follows is forgotten if need be.

        Raises:
            LedgerFullError: all that are remembered are live; nothing has changed.
        """
        assert event_id not in self._entries
        if len(self._entries) >= self.ids_max:
            self._forget_oldest()
        self._failed.pop(event_id, None)
        self._entries[event_id] = _Entry(digest, "preparing")
        self._counts["preparing"] += 1
        self._trim_failed()

    def move(self, event_id: str, state: InteractionState) -> None:
        """An interaction that is remembered has come to another state."""
        entry = self._entries[event_id]
        self._counts[entry.state] -= 1
        self._counts[state] += 1
        entry.state = state
        if state == "failed":
            del self._entries[event_id]
            self._failed[event_id] = None
            self._trim_failed()

    def outcomes(self) -> dict[str, InteractionOutcome]:
        """What became of each one that is remembered, those that failed last; `queued` is one that is not over."""
        told = {event_id: _OUTCOMES[entry.state] for event_id, entry in self._entries.items()}
        return told | dict.fromkeys(self._failed, _OUTCOMES["failed"])

    def counts(self) -> dict[InteractionOutcome, int]:
        """How many came to each outcome, forgotten ones included."""
        told: Counter[InteractionOutcome] = Counter()
        for state, count in self._counts.items():
            told[_OUTCOMES[state]] += count
        return {outcome: count for outcome, count in told.items() if count}

    def _forget_oldest(self) -> None:
        # Few are live at any time, so what can go is found among the first ones.
        for event_id, entry in self._entries.items():
            if entry.state not in LIVE:
                del self._entries[event_id]
                return
        raise LedgerFullError

    def _trim_failed(self) -> None:
        while self._failed and len(self._entries) + len(self._failed) > self.ids_max:
            del self._failed[next(iter(self._failed))]
