"""What a model keeps of its sessions: each has its own, and nothing changes behind a session's back."""

from __future__ import annotations

from typing import Any

import trio

from duplex_trio.engine import SessionLimits
from duplex_trio.protocol.duplex import (
    CancelInput,
    ErrorEvent,
    ResponseDone,
    ResponseOutputAudioDelta,
    SessionUpdated,
    UpdateSession,
)
from duplex_trio.testing.conformance.heard import HookLog
from duplex_trio.testing.conformance.room import Room, owns_turns, plugin_of
from duplex_trio.testing.conformance.wrapped import WrappedPipeline
from duplex_trio.testing.invariants import core_of
from duplex_trio.testing.run import finish
from duplex_trio.testing.snapshots import Snapshot, differences, snapshot
from duplex_trio.testing.talker import Talker

SLOW_S = 30.0
"""How long a hook takes that is to be cut."""
SETTLE_S = 0.2


async def sessions_share_no_state(room: Room) -> None:
    """What one session says changes nothing of what the model remembers of another one."""
    log = HookLog()
    async with room.engine(WrappedPipeline(room.make_pipeline(), hook_log=log)) as omni:
        one, other = await room.user(omni), await room.user(omni)
        assert len(log.states) == 2, f"{len(log.states)} states were made for 2 sessions"
        mine, others = log.states
        assert mine is not others or mine is None, "two sessions have one state"
        before = snapshot(others)
        await room.say(omni, one)
        await room.hear(omni, one, ResponseOutputAudioDelta)
        if not owns_turns(omni):
            await room.hear(omni, one, ResponseDone)
        changed = differences(before, snapshot(others))
        assert not changed, f"one session changed the state of another one: {changed}"
        seen = {id(call.view.session_state) for call in log.calls}
        assert seen == {id(mine)}, "a hook was shown another session's state"
        await finish(omni, one, other)


async def configurations_stay_as_they_were(room: Room) -> None:
    """A configuration that a hook made is not changed afterwards, whatever is said and updated."""
    log = HookLog()
    async with room.engine(WrappedPipeline(room.make_pipeline(), hook_log=log)) as omni:
        talker = await room.user(omni)
        talker.send(UpdateSession(patch={"instructions": "Be brief."}))
        await talker.heard.nth(SessionUpdated, 2)
        await room.say(omni, talker)
        await room.hear(omni, talker, ResponseOutputAudioDelta)
        talker.send(UpdateSession(patch={"instructions": "Be kind."}))
        await trio.sleep(SETTLE_S)
        await finish(omni, talker)
    for kept in log.kept:
        changed = differences(kept.picture, snapshot(kept.config))
        assert not changed, f"a runtime configuration was changed: {changed}"


async def a_refused_update_changes_nothing(room: Room) -> None:
    """An update that holds a fault leaves the configurations, their generation and the state as they were."""
    async with room.engine() as omni:
        talker = await room.user(omni)
        private = sorted(plugin_of(omni).private_runtime_config_keys)
        patches: list[dict[str, Any]] = [{"speed": "fast"}, *({"extra_body": {key: 1}} for key in private)]
        for number, patch in enumerate(patches, start=1):
            before = _configuration(talker)
            talker.send(UpdateSession(patch={"instructions": "Be loud.", **patch}))
            await talker.heard.nth(ErrorEvent, number)
            changed = differences(before, _configuration(talker))
            assert not changed, f"the refused update {patch} changed {changed}"
        await finish(omni, talker)


async def slow_hooks_are_cut(room: Room) -> None:
    """A cancellation reaches a hook that prepares something at once, and the next turn is answered."""
    log = HookLog(takes_s=SLOW_S)
    wrapped = WrappedPipeline(room.make_pipeline(), hook_log=log)
    limits = SessionLimits(unit_timeout_s=2 * SLOW_S)
    async with room.engine(wrapped, limits=limits) as omni:
        talker = await room.user(omni)
        await room.say(omni, talker)
        await trio.sleep(SETTLE_S)
        assert (log.entered, log.cut) == (1, 0), f"{log.entered} hooks began, {log.cut} were cut"
        talker.send(CancelInput())
        await trio.sleep(SETTLE_S)
        assert log.cut == 1, "the hook was not cut"
        log.takes_s = 0.0
        await room.say(omni, talker)
        await room.hear(omni, talker, ResponseOutputAudioDelta)
        await finish(omni, talker)


def _configuration(talker: Talker) -> Snapshot:
    state = core_of(talker.handle).state
    return snapshot((state.config, state.runtime_config, state.config_generation, state.model_state))


CHECKS = (
    sessions_share_no_state,
    configurations_stay_as_they_were,
    a_refused_update_changes_nothing,
    slow_hooks_are_cut,
)
