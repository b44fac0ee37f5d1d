"""What must hold inside a session and an engine at any moment, whatever happened before.

`stream_rules` is about what the client is sent, this is about the ledgers behind it: sums equal their parts,
positions are in order, no response is both active and over, whoever is owed something has somebody who owes
it. A `SessionWatch` remembers, and so also finds what fell that may only grow.

Everything is checked from the outside; nothing here changes a session.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from duplex_trio.entrypoints.duplex_omni import DuplexOmni, DuplexSessionHandle
from duplex_trio.protocol.duplex import FunctionCallOutputItem, MessageItem

if TYPE_CHECKING:
    from duplex_trio.session.core import SessionCore
    from duplex_trio.session.state.conversation import Conversation
    from duplex_trio.session.state.engine_session import DuplexEngineSession
    from duplex_trio.session.state.input_timeline import InputTimeline
    from duplex_trio.session.state.response import Response

TOLERANCE_MS = 0.01
"""Sums of durations may differ by rounding."""
TAIL_S = 0.1
"""What a resampler held is taken in beyond the bound of the input line."""


class InvariantBroken(AssertionError):
    """Something that must always hold does not; the message says what."""


def core_of(handle: DuplexSessionHandle) -> SessionCore:
    """The shared parts of a live session: its ledgers in `state`, its queues, its turns."""
    return handle._core


# ------------------------------------------------------------------ the ledgers alone


def check_ledgers(state: DuplexEngineSession, now_s: float) -> None:
    """Check a session's ledgers; needs no loop.

    Args:
        state: the ledgers.
        now_s: the session's time.

    Raises:
        InvariantBroken: the first rule that does not hold.
    """
    _check_header(state, now_s)
    for response in state.responses_newest_first():
        _check_response(state, response)
    _check_conversation(state.conversation)
    _check_told(state)
    _check_timeline(state.timeline)


def _check_header(state: DuplexEngineSession, now_s: float) -> None:
    _hold(
        min(state.epoch, state.turn_id, state.commit_seq, state.config_generation) >= 0,
        "counts are not negative",
    )
    active = state.active
    if active is not None:
        _hold(active.status is None, f"{active.response_id} is active and {active.status}")
        _hold(
            active.epoch == state.epoch, f"the active response is of epoch {active.epoch}, not {state.epoch}"
        )
        _hold(active.turn_id <= state.turn_id, "the active response is of a turn that has not begun")
    ended = [response for response in state.responses_newest_first() if response is not active]
    _hold(all(response.status is not None for response in ended), "what has ended has a final status")
    ids = [response.response_id for response in state.responses_newest_first()]
    _hold(len(ids) == len(set(ids)), f"a response is known twice: {ids}")
    if state.input_item_id is not None:
        _hold(
            state.conversation.find(state.input_item_id) is None,
            "the input's item is in the conversation already",
        )
    lease = state.lease
    _hold(lease.last_activity_s <= now_s, "the last activity is in the future")
    _hold(
        (lease.terminal_reason is None) == (state.state == "open"),
        f"{state.state}, lease {lease.terminal_reason}",
    )
    if lease.terminal_reason is not None:
        _hold(not lease._operations and lease.detached_at_s is None, "an ended lease waits for nothing")


def _check_response(state: DuplexEngineSession, response: Response) -> None:
    cursor, name = response.cursor, response.response_id
    figures = (cursor.generated_ms, cursor.sent_ms, cursor.played_ms, cursor.committed_ms)
    _hold(all(math.isfinite(figure) and figure >= 0 for figure in figures), f"{name}: {figures}")
    _hold(cursor.sent_ms <= cursor.generated_ms + TOLERANCE_MS, f"{name}: more was sent than made: {figures}")
    if cursor.hard_cap_ms is not None:
        _hold(cursor.committed_ms <= cursor.hard_cap_ms, f"{name}: more is heard than a truncation allows")
    _hold(
        response.text.startswith(response.sent_text),
        f"{name}: {response.sent_text!r} is no beginning of its text",
    )
    marks = [(mark.text_chars, mark.audio_end_ms) for mark in response.marks]
    _hold(marks == sorted(marks), f"{name}: marks out of order: {marks}")
    if marks:
        chars, end_ms = marks[-1]
        _hold(chars <= len(response.text), f"{name}: a mark behind the text")
        _hold(end_ms <= cursor.generated_ms + TOLERANCE_MS, f"{name}: a mark behind the sound")
    _hold(response.epoch <= state.epoch, f"{name} is of an epoch that has not begun")


def _check_conversation(conversation: Conversation) -> None:
    entries = list(conversation.entries())
    ids = [entry.item.id for entry in entries]
    _hold(ids == conversation._order, "entries are filed under their items' ids")
    _hold(
        set(ids) == set(conversation._entries) and len(ids) == len(set(ids)), f"each item is held once: {ids}"
    )
    held = sum(entry.held_chars for entry in entries)
    _hold(conversation._chars == held, f"{conversation._chars} characters counted, {held} held")
    limits = conversation.limits
    _hold(held <= limits.conversation_chars_max, f"{held} characters are held")
    _hold(len(ids) <= limits.conversation_items_max, f"{len(ids)} items are held")
    for entry in conversation.unanswered():
        mine = isinstance(entry.item, FunctionCallOutputItem) or (
            isinstance(entry.item, MessageItem) and entry.item.role == "user"
        )
        _hold(mine and not entry.answered, f"{entry.item.id} does not wait for an answer")
    pending = {entry.item.id for entry in entries if entry.transcript_pending}
    _hold(
        conversation.pending_transcripts == pending,
        f"pending: {conversation.pending_transcripts} / {pending}",
    )


def _check_told(state: DuplexEngineSession) -> None:
    for entry in state.conversation.entries():
        if entry.response_id is None:
            continue
        response = state.find_response(entry.response_id)
        if response is None:
            continue
        _hold(entry.item.id == response.item_id, f"{entry.item.id} is filed under {entry.response_id}")
        _hold(
            response.text.strip().startswith(entry.text.strip()),
            f"{response.response_id}: the model is told {entry.text!r}, said was {response.text!r}",
        )
        _hold(
            response.status is not None or not entry.text, f"{response.response_id} is told before it is over"
        )


def _check_timeline(timeline: InputTimeline) -> None:
    held = sum(len(block) for block in timeline._blocks)
    _hold(
        timeline._origin <= timeline.start <= timeline.end <= timeline._origin + held,
        f"[{timeline.start}, {timeline.end}) is held in {held} samples from {timeline._origin}",
    )
    spare = held - (timeline.end - timeline.start)
    _hold(spare <= 2 * max(map(len, timeline._blocks), default=0), f"{spare} samples are held for nothing")
    _hold(0 <= timeline.committed <= timeline.end, "nothing is committed that did not come")
    room = timeline.bytes_max + int(TAIL_S * timeline.sample_rate_hz) * 4
    _hold(timeline.held_bytes <= room, f"{timeline.held_bytes} bytes held, the bound is {timeline.bytes_max}")
    arrivals = list(timeline._arrivals)
    _hold(arrivals == sorted(arrivals), "sound arrives in order")


# ------------------------------------------------------------------ a live session


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
    _hold(core.asked >= 0, f"{core.asked} requests for a response in line")
    _hold(core.cancel_floor <= core.command_seq, "the floor of cancellation is a command that came")
    _hold(core.input_floor <= core.command_seq, "the floor of input is a command that came")
    if core.units is not None:
        buffer = core.units.line.buffer
        _hold(0 <= buffer.pending_bytes <= core.limits.pending_input_bytes_max, "waiting sound is bounded")


def _check_egress(core: SessionCore) -> None:
    queue = core.egress.queue
    media = list(queue._media)
    sound_ms = sum(entry.duration_ms for entry in media)
    size = sum(entry.size_bytes for entry in media)
    _hold(
        abs(queue.media_ms - sound_ms) <= TOLERANCE_MS, f"{queue.media_ms} ms counted, {sound_ms} ms queued"
    )
    _hold(queue.media_bytes == size, f"{queue.media_bytes} bytes counted, {size} queued")
    _hold(
        queue.epoch == core.state.epoch,
        f"the queue is in epoch {queue.epoch}, the session in {core.state.epoch}",
    )
    _hold(all(entry.epoch >= queue.epoch for entry in media), "sound of an older epoch waits to be sent")
    active = core.state.active
    for entry in media:
        response = core.state.find_response(entry.response_id)
        _hold(
            response is active and active is not None,
            f"media of {entry.response_id}, which is not active, waits",
        )


def _check_turns(core: SessionCore) -> None:
    state = core.state
    for request_id, turn in core.live_turns.items():
        _hold(turn.request_id == request_id, f"{turn.request_id} is filed under {request_id}")
        _hold(
            turn.discarded or turn.epoch == state.epoch,
            f"{request_id} of epoch {turn.epoch} is not discarded",
        )
        _hold(turn.request is not None, f"{request_id} is live without a request")
    _hold(state.lease._operations <= set(core.live_turns), "an operation without a turn holds the lease")
    speaking = [
        turn.request_id
        for turn in core.live_turns.values()
        if not turn.discarded and turn.response is not None and turn.response is state.active
    ]
    _hold(len(speaking) <= 1, f"one response, spoken by several requests: {speaking}")
    for item_id, turn in core.transcribing.items():
        _hold(turn.item_id == item_id, f"the transcript of {item_id} is owed by a turn of {turn.item_id}")
    if not core.closing:
        unowed = state.conversation.pending_transcripts - set(core.transcribing)
        _hold(not unowed, f"nobody makes the transcripts of {set(unowed)}")


def check_settled(handle: DuplexSessionHandle) -> None:
    """Check an open session that was left alone until nothing happened any more.

    Raises:
        InvariantBroken: something is still under way that nobody will finish.
    """
    core = core_of(handle)
    _hold(
        all(turn.epoch == core.state.epoch for turn in core.live_turns.values()),
        "an older epoch has live requests",
    )
    _hold(len(core.live_turns) <= 1, f"several requests are live: {sorted(core.live_turns)}")
    if core.units is None:
        held = [turn.request_id for turn in core.live_turns.values() if turn is not core.prepared]
        _hold(not held, f"nobody talks, yet requests are live: {held}")
        _hold(core.state.active is None, "nobody talks, yet a response is in progress")
    _hold(not core.state.conversation.pending_transcripts, "transcripts are still awaited")
    _hold(not core.asked and not core.state.deferred.wanted, "an answer is still awaited")
    _hold(
        core.egress.queue.media_ms == 0 or core.state.active is not None,
        "sound waits for a response that is over",
    )


# ------------------------------------------------------------------ an engine


def check_engine(omni: DuplexOmni) -> None:
    """Check that an engine's counts are within their bounds and equal what its sessions hold.

    Raises:
        InvariantBroken: the first rule that does not hold.
    """
    statistics = omni.statistics()
    _hold(0 <= statistics.sessions <= statistics.max_sessions, f"{statistics.sessions} sessions")
    handles = list(omni.duplex_engine.manager._sessions.values())
    live = {request_id for handle in handles for request_id in core_of(handle).live_turns}
    known = set(omni.duplex_engine.orchestrator._requests)
    _hold(live <= known, f"requests that the engine does not know: {sorted(live - known)}")
    owners = {handle.session_id for handle in handles}
    stray = [
        r.request_id for r in omni.duplex_engine.orchestrator._requests.values() if r.owner not in owners
    ]
    _hold(not stray, f"requests of sessions that are gone: {stray}")


def check_engine_at_rest(omni: DuplexOmni) -> None:
    """Check that an engine whose sessions have all ended holds nothing of them.

    Raises:
        InvariantBroken: a slot, a request or a unit was left behind.
    """
    statistics = omni.statistics()
    _hold(statistics.sessions == 0, f"{statistics.sessions} sessions kept their slots")
    _hold(statistics.live_requests == 0, f"{statistics.live_requests} requests were left behind")
    for stage in statistics.stages:
        _hold(stage.live_requests == 0, f"stage {stage.name} still has {stage.live_requests} requests")
        _hold(not stage.alive or stage.queued_commands == 0, f"stage {stage.name} has commands waiting")


# ------------------------------------------------------------------ what may only grow


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
            _hold(value >= self._last.get(name, value), f"{name} fell from {self._last.get(name)} to {value}")
        self._last = grown
        for response in state.responses_newest_first():
            if response.status is not None:
                before = self._status.setdefault(response.response_id, response.status)
                _hold(
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


def _hold(condition: bool, message: str) -> None:
    if not condition:
        raise InvariantBroken(message)
