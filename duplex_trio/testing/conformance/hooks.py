"""Hooks are free of side effects.

What they answer depends on the request they are asked about, and nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from duplex_trio.engine import SessionLimits
from duplex_trio.pipelines.requests import StageForward, TurnInput
from duplex_trio.pipelines.results import ListenResult, SegmentEnd, TurnEnd
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.plugin.resumable import EpochInput, ResumableModelPlugin
from duplex_trio.protocol.duplex import ResponseCreated, ResponseDone
from duplex_trio.stages.units import GenerationParams
from duplex_trio.testing.conformance.heard import Call, HookLog
from duplex_trio.testing.conformance.room import Room, owns_turns
from duplex_trio.testing.conformance.wrapped import WrappedPipeline
from duplex_trio.testing.run import finish
from duplex_trio.testing.snapshots import differences, snapshot

LISTENS_S = 4.0
"""How long the user of a model that owns its turns listens to it."""
UNIT_ENDS = (ListenResult, SegmentEnd, TurnEnd)


async def its_hooks_are_pure(room: Room) -> None:
    """The hooks of a request, called again for two fresh states side by side, answer each as they did."""
    log = await _one_turn(room)
    assert log.calls, "no hook was called"
    plugin = room.make_plugin()
    for request_id in dict.fromkeys(call.view.request_id for call in log.calls):
        calls = [call for call in log.calls if call.view.request_id == request_id]
        begun = next(given for given, state in log.begun if state is calls[0].view.state)
        memories = [plugin.create_session_state() for _ in range(2)]
        states = [await _begin(plugin, begun, memory) for memory in memories]
        for call in calls:
            for state, memory in zip(states, memories, strict=True):
                again = await _ask(plugin, call, state, memory)
                assert same(again, call.answer), (
                    f"{call.hook} of {call.arguments[0]} answered {call.answer} and then {again}"
                )


async def it_answers_every_unit_once(room: Room) -> None:
    """A model that owns its turns says for each unit, once, that it listens, goes on or has come to an end."""
    if not isinstance(room.make_pipeline().build_plugin(), ResumableModelPlugin):
        return
    log = await _one_turn(room)
    for request_id in dict.fromkeys(call.view.request_id for call in log.calls):
        calls = [call for call in log.calls if call.view.request_id == request_id]
        units = sum(call.hook == "prepare_append" for call in calls)
        ends = [
            result
            for call in calls
            if call.hook == "project"
            for result in call.answer
            if isinstance(result, UNIT_ENDS)
        ]
        # The session may be closed while the last one is being answered.
        assert units - 1 <= len(ends) <= units, f"{units} units were answered {len(ends)} times"


async def its_writers_get_generation_params(room: Room) -> None:
    """What enters an autoregressive stage is asked by `GenerationParams`, or by nothing.

    Else neither a deployment nor a constraint of the model could make anything hold.
    """
    log = await _one_turn(room)
    plugin = room.make_plugin()
    stages = room.make_pipeline().stages
    forwards: list[StageForward] = []
    for begun, _ in log.begun:
        if isinstance(begun, TurnInput):
            again = attrs.evolve(begun, session_state=plugin.create_session_state())
            forwards.append((await plugin.prepare_turn(again)).entry)
    for call in log.calls:
        if call.hook != "project":
            forwards += [call.answer] if isinstance(call.answer, StageForward) else call.answer
    for forward in forwards:
        stage = stages[forward.stage_id]
        right = forward.params is None or isinstance(forward.params, GenerationParams)
        assert stage.execution_type != "autoregressive" or right, (
            f"stage {stage.stage_id} ({stage.name}) is given a {type(forward.params).__name__} as params"
        )


async def _one_turn(room: Room) -> HookLog:
    log = HookLog()
    wrapped = WrappedPipeline(room.make_pipeline(), hook_log=log)
    async with room.engine(wrapped, limits=SessionLimits()) as omni:
        talker = await room.user(omni)
        await room.say(omni, talker)
        await room.hear(omni, talker, ResponseCreated)
        if owns_turns(omni):
            await talker.pause(LISTENS_S)
        else:
            await room.hear(omni, talker, ResponseDone)
        await finish(omni, talker)
    return log


async def _begin(plugin: DuplexModelPlugin, begun: TurnInput | EpochInput, memory: Any) -> Any:
    given = attrs.evolve(begun, session_state=memory)
    if isinstance(given, TurnInput):
        before = snapshot(memory)
        plan = await plugin.prepare_turn(given)
        again = await plugin.prepare_turn(given)
        assert same(plan.entry, again.entry), "prepare_turn planned something else another time"
        changed = differences(before, snapshot(memory))
        assert not changed, f"a turn that may be thrown away changed the session's state: {changed}"
        return plan.state
    assert isinstance(plugin, ResumableModelPlugin)
    return plugin.begin_request(given)


async def _ask(plugin: DuplexModelPlugin, call: Call, state: Any, memory: Any) -> Any:
    view = attrs.evolve(call.view, state=state, session_state=memory)
    answer = getattr(plugin, call.hook)(*call.arguments, view)
    return await answer if inspect.isawaitable(answer) else answer


def same(one: Any, other: Any) -> bool:
    """Whether two answers of hooks are equal in all their parts; sound compares by its samples."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if attrs.has(type(one)):
        if type(one) is not type(other):
            return False
        return all(same(getattr(one, a.name), getattr(other, a.name)) for a in attrs.fields(type(one)))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str | bytes):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


CHECKS = (its_hooks_are_pure, its_writers_get_generation_params, it_answers_every_unit_once)
