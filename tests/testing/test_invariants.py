"""Each invariant finds the fault that it is there for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import InputTextPart, MessageItem, ResponseDone, ResponseOutputAudioDelta
from duplex_trio.session.state.conversation import ConversationEntry
from duplex_trio.session.state.heard_text import TextMark
from duplex_trio.testing import Talker, open_returning, open_talker, scripted_omni
from duplex_trio.testing.invariants import (
    InvariantBroken,
    SessionWatch,
    check_engine,
    check_engine_at_rest,
    check_session,
    check_settled,
    core_of,
)

LONG = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima. " * 5


async def lively(omni: Any) -> Talker:
    """A session with an answer behind it and another one in progress."""
    talker: Talker = await open_talker(omni)
    await talker.turn()
    await talker.heard.nth(ResponseDone, 1)
    await trio.sleep(2.0)
    talker.write("go on")
    await talker.heard.wait_for(ResponseOutputAudioDelta, after=len(talker.heard.events))
    await trio.sleep(1.0)
    talker.append(200, loud=False)
    await wait_all_tasks_blocked()
    return talker


def entry(item_id: str) -> ConversationEntry:
    return ConversationEntry(MessageItem(id=item_id, role="user", content=(InputTextPart("x"),)), "x")


FAULTS: dict[str, Callable[[Any], object]] = {
    "what is over has no status": lambda core: setattr(
        core.state.responses_newest_first()[1], "status", None
    ),
    "the active response is of another epoch": lambda core: setattr(core.state.active, "epoch", 7),
    "more is sent than made": lambda core: core.state.active.cursor.send(1e6),
    "more is heard than a truncation allows": lambda core: (
        core.state.active.cursor.truncate(0),
        setattr(core.state.active.cursor, "committed_ms", 5.0),
    ),
    "sent text that was not said": lambda core: setattr(core.state.active, "sent_text", "x"),
    "marks out of order": lambda core: core.state.active.marks.append(TextMark(0, 1.0)),
    "an item is not counted": lambda core: setattr(core.state.conversation, "_chars", 0),
    "an item is in no order": lambda core: core.state.conversation._entries.update(x=entry("x")),
    "the model is told what was not said": lambda core: setattr(
        core.state.conversation.get(core.state.responses_newest_first()[1].item_id), "text", "never"
    ),
    "a transcript that nobody makes": lambda core: core.state.conversation.insert(
        ConversationEntry(MessageItem(id="x", role="user", content=()), transcript_pending=True)
    ),
    "samples that are not there": lambda core: setattr(core.state.timeline, "end", 1 << 30),
    "an ended lease of an open session": lambda core: core.state.lease.mark_terminal("over"),
    "an operation of nobody": lambda core: core.state.lease.begin_operation("x"),
    "sound that is not counted": lambda core: setattr(core.egress.queue, "media_ms", 1.0),
    "bytes that are not counted": lambda core: setattr(core.egress.queue, "media_bytes", 1),
    "a queue of another epoch": lambda core: setattr(core.egress.queue, "epoch", 7),
    "a turn of an older epoch": lambda core: [setattr(t, "epoch", -1) for t in core.live_turns.values()],
    "units of another epoch": lambda core: setattr(
        core.state.appends, "accepted", attrs.evolve(core.state.appends.accepted, epoch=7)
    ),
    "an answer that nobody asked for": lambda core: setattr(core.state.deferred, "wanted", True),
    "more answers were given than asked for": lambda core: setattr(core, "asked", -1),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_broken_ledger_is_found(autojump_clock: MockClock, fault: str) -> None:
    """A session in the middle of everything is in order; with this one fault it is not."""
    async with scripted_omni(Script(otherwise=lambda _: LONG)) as omni:
        talker = await lively(omni)
        check_session(talker.handle, trio.current_time())
        check_engine(omni)
        FAULTS[fault](core_of(talker.handle))
        with pytest.raises(InvariantBroken):
            check_session(talker.handle, trio.current_time())


@pytest.mark.parametrize(
    ("path", "name"),
    [("state", "epoch"), ("state", "turn_id"), ("counters", "barge_ins"), ("", "command_seq")],
)
async def test_what_falls_is_found(autojump_clock: MockClock, path: str, name: str) -> None:
    """A count that is lower than at the last look."""
    async with scripted_omni() as omni:
        talker = await open_talker(omni)
        core = core_of(talker.handle)
        place = getattr(core, path) if path else core
        watch = SessionWatch(talker.handle)

        def put(value: int) -> None:
            setattr(place, name, value)
            if name == "epoch":  # what goes by it goes along
                core.egress.queue.epoch = value
                core.state.appends.accepted = attrs.evolve(core.state.appends.accepted, epoch=value)

        put(5)
        watch.check(trio.current_time())
        put(4)
        with pytest.raises(InvariantBroken, match=name):
            watch.check(trio.current_time())


async def test_a_session_that_is_busy_is_not_settled(autojump_clock: MockClock) -> None:
    """An answer in progress is under way; when it is over, nothing is."""
    async with scripted_omni() as omni:
        talker = await open_talker(omni)
        check_settled(talker.handle)
        talker.write("hello")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        with pytest.raises(InvariantBroken):
            check_settled(talker.handle)
        await trio.sleep(30.0)
        check_settled(talker.handle)


async def test_an_engine_with_a_session_is_not_at_rest(autojump_clock: MockClock) -> None:
    """As long as it holds a slot."""
    async with scripted_omni() as omni:
        check_engine_at_rest(omni)
        talker = await open_talker(omni)
        with pytest.raises(InvariantBroken):
            check_engine_at_rest(omni)
        talker.handle.close("over")
        await talker.handle.wait_closed()
        check_engine_at_rest(omni)


@pytest.mark.parametrize("field", ["size_bytes", "head"])
async def test_a_journal_that_miscounts_is_found(autojump_clock: MockClock, field: str) -> None:
    """Bytes and numbers are those of the events that it keeps."""
    async with scripted_omni() as omni:
        talker = await open_returning(omni)
        core = core_of(talker.handle)
        check_session(talker.handle, trio.current_time())
        journal = core.delivery.journal
        assert journal is not None
        setattr(journal, field, getattr(journal, field) + 1)
        with pytest.raises(InvariantBroken):
            check_session(talker.handle, trio.current_time())
