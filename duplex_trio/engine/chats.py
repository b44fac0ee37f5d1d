"""Chats: sessions that are asked once, beside the voice sessions and apart from them.

They have a bound of their own, so that no number of chats takes a voice session's slot, and limits that suit an
answer which nobody plays while it comes: sound is not held back to the pace of a player. They are not counted as
sessions either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import attrs
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from duplex_trio.deploy import SessionLimits
from duplex_trio.engine.tally import SessionTally
from duplex_trio.engine.turn.manager import CHAT_READ_TIMEOUT_S
from duplex_trio.session.counters import SessionCounters

CHAT_TURNS_MAX = 32
"""Pieces of sound in one request that may wait for their transcripts, and the answer behind them."""


def chat_limits(limits: SessionLimits) -> SessionLimits:
    """The limits of a chat on an engine whose sessions have `limits`."""
    return attrs.evolve(
        limits,
        idle_ttl_s=None,
        media_lead_ms=math.inf,
        pending_turns_max=max(limits.pending_turns_max, CHAT_TURNS_MAX),
        history_messages_max=limits.conversation_items_max,
        send_timeout_s=CHAT_READ_TIMEOUT_S,
    )


class ChatTally(SessionTally, Collector):
    """What became of chats, for a scrape.

    Args:
        live: chats that hold a slot now.
        on_ended: told what each counted, for the figures that concern the engine whoever asked.
    """

    def __init__(self, live: Callable[[], int], on_ended: Callable[[SessionCounters], None]) -> None:
        self._live = live
        self._on_ended = on_ended
        self._ended = SessionCounters()
        self._refused = 0

    def session_opened(self) -> None:
        """Chats are counted at their end."""

    def session_refused(self) -> None:
        """There was no place for a chat."""
        self._refused += 1

    def session_ended(self, counters: SessionCounters) -> None:
        """A chat is over."""
        self._ended.add(counters)
        self._on_ended(counters)

    def collect(self) -> Iterable[Metric]:
        """The figures."""
        live = GaugeMetricFamily("duplex_chats", "Chat completions that hold a slot")
        live.add_metric([], self._live())
        ended = CounterMetricFamily(
            "duplex_chat_completions", "Chat completions by how they ended", labels=["status"]
        )
        for status in ("completed", "cancelled", "failed"):
            ended.add_metric([status], getattr(self._ended, f"responses_{status}"))
        ended.add_metric(["refused"], self._refused)
        return [live, ended]
