"""The rules of event streams find what they are there to find.

Each test takes the events of a whole conversation, which keep the rules, and breaks them in one place.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from trio.testing import MockClock

from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    ConversationItemDone,
    ConversationItemInputAudioTranscriptionCompleted,
    DuplexEvent,
    InputAudioBufferSpeechStopped,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioTranscriptDelta,
    SessionClosed,
    SessionCreated,
)
from duplex_trio.testing import check_stream, finish, open_talker, scripted_omni
from duplex_trio.testing.stream_rules import StreamRuleBroken

Events = list[DuplexEvent]


async def events_of_a_conversation() -> Events:
    """Two turns, the second over the first."""
    async with scripted_omni(Script(otherwise=lambda _: "alpha bravo charlie delta echo")) as omni:
        talker = await open_talker(omni)
        await talker.turn()
        await talker.turn()
        await talker.heard.nth(ResponseDone, 2)
        await finish(omni, talker)
    return talker.heard.events


def first(events: Events, cls: type[DuplexEvent]) -> int:
    return next(position for position, event in enumerate(events) if isinstance(event, cls))


def renamed(event: DuplexEvent) -> DuplexEvent:
    return attrs.evolve(event, event_id=f"{event.event_id}-again")


def without(cls: type[DuplexEvent]) -> Callable[[Events], Events]:
    return lambda events: [event for event in events if not isinstance(event, cls)]


def twice(cls: type[DuplexEvent]) -> Callable[[Events], Events]:
    """The first event of a class comes a second time, under another id, right behind itself."""

    def broken(events: Events) -> Events:
        at = first(events, cls)
        return [*events[: at + 1], renamed(events[at]), *events[at + 1 :]]

    return broken


def late(cls: type[DuplexEvent], behind: type[DuplexEvent]) -> Callable[[Events], Events]:
    """The first event of a class comes behind the first one of another class."""

    def broken(events: Events) -> Events:
        event = events[first(events, cls)]
        rest = [other for other in events if other is not event]
        at = first(rest, behind)
        return [*rest[: at + 1], event, *rest[at + 1 :]]

    return broken


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (without(SessionCreated), "session.created is the first"),
        (twice(SessionCreated), "session.created is the first"),
        (lambda events: [*events, renamed(events[5])], "nothing follows the terminal"),
        (lambda events: [*events[:9], events[3], *events[9:]], "no id comes twice"),
        (without(SessionClosed), "no terminal"),
        (without(ResponseDone), "still open"),
        (twice(ResponseDone), "belongs to the response in progress"),
        (late(ResponseOutputAudioTranscriptDelta, ResponseDone), "deltas join to"),
        (without(ResponseCreated), "belongs to the response in progress"),
        (twice(ConversationItemDone), "done once"),
        (twice(ConversationItemInputAudioTranscriptionCompleted), "one transcript"),
        (without(InputAudioBufferSpeechStopped), "speech stops before it starts again"),
    ],
)
async def test_a_broken_stream_is_found(
    autojump_clock: MockClock, damage: Callable[[Events], Events], complaint: str
) -> None:
    """The complaint says which rule; the stream as it was keeps them all."""
    events = await events_of_a_conversation()
    check_stream(events, ended=True)
    with pytest.raises(StreamRuleBroken, match=complaint):
        check_stream(damage(events), ended=True)
