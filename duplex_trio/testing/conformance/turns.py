"""Sessions with the model end as they must: every response is done once, nothing is left, nothing is mixed up.

Each check ends with `finish`, which holds the streams against `stream_rules` and looks for requests left
behind.
"""

from __future__ import annotations

from duplex_trio.protocol.duplex import (
    CancelResponse,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
)
from duplex_trio.testing.conformance.room import Room, owns_turns
from duplex_trio.testing.run import finish
from duplex_trio.testing.talker import Talker

LISTENS_S = 4.0
"""How long the user of a model that owns its turns listens to it."""


async def opening_and_closing_leaves_nothing(room: Room) -> None:
    """Sessions that say nothing begin no response and leave no request."""
    async with room.engine() as omni:
        talkers = [await room.user(omni) for _ in range(2)]
        await finish(omni, *talkers)
        assert all(not talker.heard.of(ResponseCreated) for talker in talkers)


async def a_spoken_turn_is_answered_once(room: Room) -> None:
    """Speech and the end of it make one response with sound, and it is done once."""
    async with room.engine() as omni:
        talker = await room.user(omni)
        await room.say(omni, talker)
        await room.hear(omni, talker, ResponseOutputAudioDelta)
        if owns_turns(omni):
            await talker.pause(LISTENS_S)
        else:
            done = await room.hear(omni, talker, ResponseDone)
            assert done.response.status in ("completed", "incomplete"), f"it is {done.response.status}"
            assert len(talker.heard.of(ResponseCreated)) == 1, "there is more than one response"
        await finish(omni, talker)
        assert _ids_done(talker) == _ids_created(talker)


async def a_second_turn_is_answered(room: Room) -> None:
    """A conversation goes on after a cancelled answer, whose rest is not heard."""
    async with room.engine() as omni:
        talker = await room.user(omni)
        await room.say(omni, talker)
        await room.hear(omni, talker, ResponseOutputAudioDelta)
        talker.send(CancelResponse())
        cut = await talker.heard.nth(ResponseDone, 1)
        assert cut.response.status == "cancelled", f"a cancelled response is {cut.response.status}"
        await room.say(omni, talker)
        second = await room.hear(omni, talker, ResponseCreated, 2)
        assert second.response.id != cut.response.id
        if not owns_turns(omni):
            done = await room.hear(omni, talker, ResponseDone, 2)
            assert done.response.status in ("completed", "incomplete"), f"it is {done.response.status}"
        await finish(omni, talker)
        assert _ids_done(talker) == _ids_created(talker)


async def a_session_may_end_in_the_middle_of_an_answer(room: Room) -> None:
    """Closed while it speaks, the response is done and its request let go."""
    async with room.engine() as omni:
        talker = await room.user(omni)
        await room.say(omni, talker)
        await room.hear(omni, talker, ResponseOutputAudioDelta)
        await finish(omni, talker)
        assert _ids_done(talker) == _ids_created(talker)


async def sessions_are_not_mixed(room: Room) -> None:
    """Who says nothing hears nothing; both at once hear each their own; one that leaves does not cut the other."""
    async with room.engine() as omni:
        one, other = await room.user(omni), await room.user(omni)
        await room.say(omni, one)
        await room.hear(omni, one, ResponseOutputAudioDelta)
        assert not other.heard.of(ResponseCreated), "a silent session got a response"
        await room.say(omni, other)
        await room.hear(omni, other, ResponseCreated)
        assert not set(_ids_created(one)) & set(_ids_created(other)), "two sessions share a response"
        one.handle.close("over")
        heard = len(other.heard.of(ResponseOutputAudioDelta))
        await room.hear(omni, other, ResponseOutputAudioDelta, heard + 2)
        await finish(omni, one, other)


def _ids_created(talker: Talker) -> list[str]:
    return [event.response.id for event in talker.heard.of(ResponseCreated)]


def _ids_done(talker: Talker) -> list[str]:
    return [event.response.id for event in talker.heard.of(ResponseDone)]


CHECKS = (
    opening_and_closing_leaves_nothing,
    a_spoken_turn_is_answered_once,
    a_second_turn_is_answered,
    a_session_may_end_in_the_middle_of_an_answer,
    sessions_are_not_mixed,
)
