"""What breaks for one session stays with it."""

from __future__ import annotations

from duplex_trio.engine import SessionLimits
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.protocol.duplex import ErrorEvent, ResponseCreated, ResponseDone, ResponseOutputAudioDelta
from duplex_trio.testing.conformance.room import Room, owns_turns
from duplex_trio.testing.conformance.stuck import HeldStages
from duplex_trio.testing.conformance.wrapped import Doom, WrappedPipeline
from duplex_trio.testing.run import finish
from duplex_trio.testing.talker import Talker

TAKE_WITHIN_S = 1.0


async def a_failing_stage_fails_one_session(room: Room) -> None:
    """Whichever stage it is: the turn fails, or the session whose one request it was; all others are answered."""
    for stage in room.make_pipeline().stages:
        doom = Doom(stage_id=stage.stage_id)
        wrapped = WrappedPipeline(room.make_pipeline(), wrap_worker=doom.wrap)
        async with room.engine(wrapped) as omni:
            unlucky, other = await room.user(omni), await room.user(omni)
            doom.owner = unlucky.handle.session_id
            await room.say(omni, unlucky)
            await _it_failed(room, omni, unlucky, "engine_error")
            await room.say(omni, other)
            await room.hear(omni, other, ResponseOutputAudioDelta)
            doom.owner = None
            await _it_goes_on(room, omni, unlucky)
            await finish(omni, unlucky, other)


async def a_stuck_stage_is_given_up(room: Room) -> None:
    """A unit that is not taken in time is an error, what was reserved is given back, and nothing is left behind."""
    stages = HeldStages(threads=room.threads)
    limits = SessionLimits(unit_timeout_s=TAKE_WITHIN_S)
    async with room.engine(limits=limits, stage_factory=stages.make) as omni:
        unlucky = await room.user(omni)
        stages.hold()
        await room.say(omni, unlucky)
        await _it_failed(room, omni, unlucky, "timeout")
        stages.let_go()
        await _it_goes_on(room, omni, unlucky)
        other = await room.user(omni)
        await room.say(omni, other)
        await room.hear(omni, other, ResponseCreated)
        await finish(omni, unlucky, other)


async def _it_failed(room: Room, omni: DuplexOmni, talker: Talker, code: str) -> None:
    """The client was told why, and the response in progress, if there was one, has failed."""
    error = await talker.heard.wait_for(ErrorEvent, timeout_s=room.patience_s)
    assert error.error.code == code, f"the client was told {error.error.code!r}, not {code!r}"
    if owns_turns(omni):
        closed = await talker.heard.wait_closed(timeout_s=room.patience_s)
        assert closed == (1011, "request_cleanup"), f"the session was closed with {closed}"
    else:
        done = await talker.heard.nth(ResponseDone, 1, timeout_s=room.patience_s)
        assert done.response.status == "failed", f"the response is {done.response.status}"


async def _it_goes_on(room: Room, omni: DuplexOmni, talker: Talker) -> None:
    """The session of a model that answers turns takes the next one."""
    if owns_turns(omni):
        return
    await room.say(omni, talker)
    done = await room.hear(omni, talker, ResponseDone, 2)
    assert done.response.status in ("completed", "incomplete"), f"the next turn is {done.response.status}"


CHECKS = (a_failing_stage_fails_one_session, a_stuck_stage_is_given_up)
