"""Invariants of a session's ledgers, for which no loop is needed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from duplex_trio.protocol.duplex import FunctionCallOutputItem, MessageItem
from duplex_trio.testing.invariants.broken import TOLERANCE_MS, hold

if TYPE_CHECKING:
    from duplex_trio.session.state.conversation import Conversation
    from duplex_trio.session.state.engine_session import DuplexEngineSession
    from duplex_trio.session.state.input_timeline import InputTimeline
    from duplex_trio.session.state.response import Response

TAIL_S = 0.1
"""What a resampler held is taken in beyond the bound of the input line."""


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
    _check_input(state)


def _check_header(state: DuplexEngineSession, now_s: float) -> None:
    hold(
        min(state.epoch, state.turn_id, state.commit_seq, state.config_generation) >= 0,
        "counts are not negative",
    )
    active = state.active
    if active is not None:
        hold(active.status is None, f"{active.response_id} is active and {active.status}")
        hold(
            active.epoch == state.epoch, f"the active response is of epoch {active.epoch}, not {state.epoch}"
        )
        hold(active.turn_id <= state.turn_id, "the active response is of a turn that has not begun")
    ended = [response for response in state.responses_newest_first() if response is not active]
    hold(all(response.status is not None for response in ended), "what has ended has a final status")
    ids = [response.response_id for response in state.responses_newest_first()]
    hold(len(ids) == len(set(ids)), f"a response is known twice: {ids}")
    if state.input_item_id is not None:
        hold(
            state.conversation.find(state.input_item_id) is None,
            "the input's item is in the conversation already",
        )
    lease = state.lease
    hold(lease.last_activity_s <= now_s, "the last activity is in the future")
    hold(
        (lease.terminal_reason is None) == (state.state == "open"),
        f"{state.state}, lease {lease.terminal_reason}",
    )
    if lease.terminal_reason is not None:
        hold(not lease._operations and lease.detached_at_s is None, "an ended lease waits for nothing")


def _check_response(state: DuplexEngineSession, response: Response) -> None:
    cursor, name = response.cursor, response.response_id
    figures = (cursor.generated_ms, cursor.sent_ms, cursor.played_ms, cursor.committed_ms)
    hold(all(math.isfinite(figure) and figure >= 0 for figure in figures), f"{name}: {figures}")
    hold(cursor.sent_ms <= cursor.generated_ms + TOLERANCE_MS, f"{name}: more was sent than made: {figures}")
    if cursor.hard_cap_ms is not None:
        hold(cursor.committed_ms <= cursor.hard_cap_ms, f"{name}: more is heard than a truncation allows")
    hold(
        response.text.startswith(response.sent_text),
        f"{name}: {response.sent_text!r} is no beginning of its text",
    )
    marks = [(mark.text_chars, mark.audio_end_ms) for mark in response.marks]
    hold(marks == sorted(marks), f"{name}: marks out of order: {marks}")
    if marks:
        chars, end_ms = marks[-1]
        hold(chars <= len(response.text), f"{name}: a mark behind the text")
        hold(end_ms <= cursor.generated_ms + TOLERANCE_MS, f"{name}: a mark behind the sound")
    hold(response.epoch <= state.epoch, f"{name} is of an epoch that has not begun")


def _check_conversation(conversation: Conversation) -> None:
    entries = list(conversation.entries())
    ids = [entry.item.id for entry in entries]
    hold(ids == conversation._order, "entries are filed under their items' ids")
    hold(
        set(ids) == set(conversation._entries) and len(ids) == len(set(ids)), f"each item is held once: {ids}"
    )
    held = sum(entry.held_chars for entry in entries)
    hold(conversation._chars == held, f"{conversation._chars} characters counted, {held} held")
    limits = conversation.limits
    hold(held <= limits.conversation_chars_max, f"{held} characters are held")
    hold(len(ids) <= limits.conversation_items_max, f"{len(ids)} items are held")
    for entry in conversation.unanswered():
        mine = isinstance(entry.item, FunctionCallOutputItem) or (
            isinstance(entry.item, MessageItem) and entry.item.role == "user"
        )
        hold(mine and not entry.answered, f"{entry.item.id} does not wait for an answer")
    pending = {entry.item.id for entry in entries if entry.transcript_pending}
    hold(
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
        hold(entry.item.id == response.item_id, f"{entry.item.id} is filed under {entry.response_id}")
        hold(
            response.text.strip().startswith(entry.text.strip()),
            f"{response.response_id}: the model is told {entry.text!r}, said was {response.text!r}",
        )
        hold(
            response.status is not None or not entry.text, f"{response.response_id} is told before it is over"
        )


def _check_timeline(timeline: InputTimeline) -> None:
    held = sum(len(block) for block in timeline._blocks)
    hold(
        timeline._origin <= timeline.start <= timeline.end <= timeline._origin + held,
        f"[{timeline.start}, {timeline.end}) is held in {held} samples from {timeline._origin}",
    )
    spare = held - (timeline.end - timeline.start)
    hold(spare <= 2 * max(map(len, timeline._blocks), default=0), f"{spare} samples are held for nothing")
    hold(0 <= timeline.committed <= timeline.end, "nothing is committed that did not come")
    room = timeline.bytes_max + int(TAIL_S * timeline.sample_rate_hz) * 4
    hold(timeline.held_bytes <= room, f"{timeline.held_bytes} bytes held, the bound is {timeline.bytes_max}")
    arrivals = list(timeline._arrivals)
    hold(arrivals == sorted(arrivals), "sound arrives in order")


def _check_input(state: DuplexEngineSession) -> None:
    appends, heard, deferred = state.appends, state.heard, state.deferred
    hold(
        appends.accepted.epoch == state.epoch,
        f"units count in {appends.accepted}, not in epoch {state.epoch}",
    )
    hold(
        0 <= appends.turn_seq <= appends.seq,
        f"{appends.turn_seq} units in a turn, {appends.seq} in its epoch",
    )
    hold(min(heard.speech_ms, heard.overlap_speech_ms) >= 0, "speech is not negative")
    hold(len(state.frames.peek()) <= state.frames.frames_max, "only the newest pictures are held")
    hold(bool(deferred.item_ids) or not deferred.wanted, "an answer waits that nobody has asked for")
    hold(not deferred.wanted or state.active is not None, "an answer waits for the end of no response")
