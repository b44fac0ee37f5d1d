"""Invariants of a running session: its queues, its turns, and who owes what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from duplex_trio.entrypoints.duplex_omni import DuplexSessionHandle
from duplex_trio.testing.invariants.broken import TOLERANCE_MS, hold
from duplex_trio.testing.invariants.ledgers import check_ledgers

if TYPE_CHECKING:
    from duplex_trio.session.core import SessionCore
    from duplex_trio.session.state.journal import EventJournal


def core_of(handle: DuplexSessionHandle) -> SessionCore:
    """The shared parts of a live session: its ledgers in `state`, its queues, its turns."""
    return handle._core


def check_session(handle: DuplexSessionHandle, now_s: float) -> None:
    """Check a live session: its ledgers, its queues, and who owes what.

    Args:
        handle: the session.
        now_s: Trio's time.

    Raises:
        InvariantBroken: the first rule that does not hold.
    """
    core = core_of(handle)
    check_ledgers(core.state, now_s)
    _check_egress(core)
    _check_turns(core)
    if core.delivery.journal is not None:
        _check_journal(core.delivery.journal)
    hold(core.asked >= 0, f"{core.asked} requests for a response in line")
    hold(core.cancel_floor <= core.command_seq, "the floor of cancellation is a command that came")
    hold(core.input_floor <= core.command_seq, "the floor of input is a command that came")
    if core.units is not None:
        buffer = core.units.line.buffer
        hold(0 <= buffer.pending_bytes <= core.limits.pending_input_bytes_max, "waiting sound is bounded")


def _check_egress(core: SessionCore) -> None:
    queue = core.egress.queue
    media = list(queue._media)
    sound_ms = sum(entry.duration_ms for entry in media)
    size = sum(entry.size_bytes for entry in media)
    hold(abs(queue.media_ms - sound_ms) <= TOLERANCE_MS, f"{queue.media_ms} ms counted, {sound_ms} ms queued")
    hold(queue.media_bytes == size, f"{queue.media_bytes} bytes counted, {size} queued")
    hold(
        queue.epoch == core.state.epoch,
        f"the queue is in epoch {queue.epoch}, the session in {core.state.epoch}",
    )
    hold(all(entry.epoch >= queue.epoch for entry in media), "sound of an older epoch waits to be sent")
    active = core.state.active
    for entry in media:
        response = core.state.find_response(entry.response_id)
        hold(
            response is active and active is not None,
            f"media of {entry.response_id}, which is not active, waits",
        )


def _check_turns(core: SessionCore) -> None:
    state = core.state
    for request_id, turn in core.live_turns.items():
        hold(turn.request_id == request_id, f"{turn.request_id} is filed under {request_id}")
        hold(
            turn.discarded or turn.epoch == state.epoch,
            f"{request_id} of epoch {turn.epoch} is not discarded",
        )
        hold(turn.request is not None, f"{request_id} is live without a request")
    hold(state.lease._operations <= set(core.live_turns), "an operation without a turn holds the lease")
    speaking = [
        turn.request_id
        for turn in core.live_turns.values()
        if not turn.discarded and turn.response is not None and turn.response is state.active
    ]
    hold(len(speaking) <= 1, f"one response, spoken by several requests: {speaking}")
    for item_id, turn in core.transcribing.items():
        hold(turn.item_id == item_id, f"the transcript of {item_id} is owed by a turn of {turn.item_id}")
    if not core.closing:
        unowed = state.conversation.pending_transcripts - set(core.transcribing)
        hold(not unowed, f"nobody makes the transcripts of {set(unowed)}")


def _check_journal(journal: EventJournal) -> None:
    entries = list(journal._entries)
    size = sum(len(entry.text) for entry in entries)
    hold(journal.size_bytes == size, f"{journal.size_bytes} bytes counted, {size} kept")
    hold(size <= journal.bytes_max, f"{size} bytes are kept")
    numbers = [entry.seq for entry in entries]
    hold(
        numbers == list(range(journal.next_seq - len(numbers), journal.next_seq)), f"numbers kept: {numbers}"
    )


def check_settled(handle: DuplexSessionHandle) -> None:
    """Check an open session that was left alone until nothing happened any more.

    Raises:
        InvariantBroken: something is still under way that nobody will finish.
    """
    core = core_of(handle)
    hold(
        all(turn.epoch == core.state.epoch for turn in core.live_turns.values()),
        "an older epoch has live requests",
    )
    hold(len(core.live_turns) <= 1, f"several requests are live: {sorted(core.live_turns)}")
    if core.units is None:
        held = [turn.request_id for turn in core.live_turns.values() if turn is not core.prepared]
        hold(not held, f"nobody talks, yet requests are live: {held}")
        hold(core.state.active is None, "nobody talks, yet a response is in progress")
    hold(not core.state.conversation.pending_transcripts, "transcripts are still awaited")
    hold(not core.asked and not core.state.deferred.wanted, "an answer is still awaited")
    hold(
        core.egress.queue.media_ms == 0 or core.state.active is not None,
        "sound waits for a response that is over",
    )


class SessionWatch:
    """Looks at one session again and again, and also finds what fell that may only grow.

    Args:
        handle: the session.
    """

    def __init__(self, handle: DuplexSessionHandle) -> None:
        self._handle = handle
        self._last: dict[str, float] = {}
        self._status: dict[str, str] = {}

    def check(self, now_s: float) -> None:
        """Check it now.

        Raises:
            InvariantBroken: a rule of `check_session` does not hold, or a count fell.
        """
        check_session(self._handle, now_s)
        state = core_of(self._handle).state
        grown = dict(self._grown())
        for name, value in grown.items():
            hold(value >= self._last.get(name, value), f"{name} fell from {self._last.get(name)} to {value}")
        self._last = grown
        for response in state.responses_newest_first():
            if response.status is not None:
                before = self._status.setdefault(response.response_id, response.status)
                hold(
                    before == response.status, f"{response.response_id} was {before} and is {response.status}"
                )

    def _grown(self) -> Iterator[tuple[str, float]]:
        core = core_of(self._handle)
        state = core.state
        yield "epoch", state.epoch
        yield "turn_id", state.turn_id
        yield "commit_seq", state.commit_seq
        yield "config_generation", state.config_generation
        yield "command_seq", core.command_seq
        yield "state", ("open", "closing", "closed").index(state.state)
        yield "lease.generation", state.lease.generation
        yield "timeline.start", state.timeline.start
        yield "timeline.end", state.timeline.end
        yield "timeline.committed", state.timeline.committed
        for name, value in _counts(core.counters):
            yield f"counters.{name}", value
        for response in state.responses_newest_first():
            yield f"{response.response_id}.generated_ms", response.cursor.generated_ms
            yield f"{response.response_id}.sent_ms", response.cursor.sent_ms
            yield f"{response.response_id}.played_ms", response.cursor.played_ms
            if response.cursor.hard_cap_ms is not None:
                yield f"{response.response_id}.cap", -response.cursor.hard_cap_ms


def _counts(counters: Any) -> Iterator[tuple[str, float]]:
    values: Mapping[str, Any] = attrs.asdict(counters, recurse=False)
    return ((name, value) for name, value in values.items() if isinstance(value, int | float))
