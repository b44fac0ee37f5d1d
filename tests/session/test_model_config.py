"""What the model makes of a session's configuration.

At open, at updates, and what its refusals leave as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.turns_plugin import TurnsMemory, TurnsPlugin
from duplex_trio.pipelines.requests import TurnInput, TurnPlan
from duplex_trio.protocol.duplex import (
    CreateResponse,
    ErrorEvent,
    RealtimeError,
    ResponseCreateOptions,
    ResponseDone,
    SessionCreated,
    SessionUpdated,
    UpdateSession,
)
from duplex_trio.protocol.duplex.session import DuplexSessionConfig
from duplex_trio.testing import Talker, open_session, scripted_omni
from duplex_trio.testing.recorder import RecordingAttachment
from duplex_trio.testing.run import finish
from duplex_trio.testing.talker import open_talker

DEPTH = 3


@attrs.define(eq=False)
class Memory(TurnsMemory):
    """What the model remembers of a session."""

    turns: int = 0


class Deep(TurnsPlugin):
    """A model with a knob, `depth`; `slow_s` is how long it prepares for a session."""

    private_runtime_config_keys = frozenset({"token_ids"})
    slow_s = 0.0
    asked: list[str]

    def __init__(self) -> None:
        self.asked = []
        self.states: list[Memory] = []

    async def prepare_runtime_config(self, config: DuplexSessionConfig, model_name: str) -> Mapping[str, Any]:
        await trio.sleep(self.slow_s)
        self.asked.append(model_name)
        return self.runtime_config_for_update(config, {"served": model_name})

    def runtime_config_for_update(
        self, config: DuplexSessionConfig, current: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        depth = config.extra_body.get("depth", 1)
        if depth == "bug":
            raise RuntimeError("no such depth")
        if not isinstance(depth, int):
            raise ValueError("depth is a number")  # noqa: TRY004  what a plugin may raise
        return {**current, "depth": depth}

    def check_session(self, config: DuplexSessionConfig, runtime_config: Mapping[str, Any]) -> None:
        if runtime_config["depth"] > DEPTH:
            raise RealtimeError("unsupported", "too deep", param="session.extra_body.depth")

    def create_session_state(self) -> Memory:
        self.states.append(Memory())
        return self.states[-1]

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        turn.session_state.turns += 1
        return super().plan_turn(turn)


class DeepPipeline(TurnsPipeline):
    def __init__(self, plugin: Deep | None = None) -> None:
        super().__init__()
        self.plugin = plugin or Deep()

    def build_plugin(self) -> Deep:
        return self.plugin


async def refusal_at_open(omni: DuplexOmni, extra_body: Mapping[str, Any]) -> tuple[str, str | None]:
    with pytest.raises(RealtimeError) as caught:
        await omni.open_session(
            dialect="duplex", attachment=RecordingAttachment(), patch={"extra_body": extra_body}
        )
    assert omni.statistics().sessions == 0
    return caught.value.code, caught.value.param


async def refused(talker: Talker, patch: Mapping[str, Any]) -> tuple[str, str | None]:
    """Send an update that is refused; the code and field, and nothing of the session has changed."""
    state = talker.handle._core.state

    def snapshot() -> tuple[Any, ...]:
        runtime_config = dict(state.runtime_config)
        return state.config, runtime_config, state.config_generation, list(state.conversation.entries())

    before = snapshot()
    count = len(talker.heard.of(ErrorEvent))
    updates = len(talker.heard.of(SessionUpdated))
    talker.send(UpdateSession(patch=dict(patch), event_id="e1"))
    error = (await talker.heard.nth(ErrorEvent, count + 1)).error
    assert error.event_id == "e1"
    assert snapshot() == before
    assert len(talker.heard.of(SessionUpdated)) == updates
    return error.code, error.param


KNOB = "session.extra_body"
REFUSALS = [
    ({"depth": "deep"}, ("invalid_duplex_runtime_config", KNOB)),
    ({"depth": 9}, ("unsupported", f"{KNOB}.depth")),
    ({"token_ids": [1]}, ("invalid_duplex_runtime_config", f"{KNOB}.token_ids")),
]


@pytest.mark.parametrize(("knobs", "expected"), REFUSALS)
async def test_the_model_may_refuse_a_session(
    autojump_clock: MockClock, knobs: Mapping[str, Any], expected: tuple[str, str | None]
) -> None:
    """By any of its hooks; the slot is free again."""
    async with scripted_omni(pipeline=DeepPipeline(), max_sessions=1) as omni:
        assert await refusal_at_open(omni, knobs) == expected
        await finish(omni, await open_talker(omni))


@pytest.mark.parametrize(("knobs", "expected"), REFUSALS)
async def test_the_model_may_refuse_an_update(
    autojump_clock: MockClock, knobs: Mapping[str, Any], expected: tuple[str, str | None]
) -> None:
    """Then nothing changed, whatever else the update held."""
    async with open_session(pipeline=DeepPipeline()) as talker:
        patch = {"instructions": "Be brief.", "initial_user_text": "and now", "extra_body": knobs}
        assert await refused(talker, patch) == expected
        talker.write("go on")
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


@pytest.mark.usefixtures("faults_expected")
async def test_a_hook_that_breaks_is_a_refusal(autojump_clock: MockClock) -> None:
    """At open and in an update; whoever asked is told, and everything goes on."""
    async with scripted_omni(pipeline=DeepPipeline()) as omni:
        assert await refusal_at_open(omni, {"depth": "bug"}) == ("internal_error", None)
        talker = await open_talker(omni)
        assert await refused(talker, {"extra_body": {"depth": "bug"}}) == ("internal_error", None)
        talker.write("go on")
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        await finish(omni, talker)


async def test_an_update_starts_from_what_the_model_made_before(autojump_clock: MockClock) -> None:
    """At open it knows the served model; an update keeps that, and counts as two generations."""
    async with open_session(pipeline=DeepPipeline()) as talker:
        state = talker.handle._core.state
        opened = state.runtime_config
        assert opened == {"served": "scripted_turns", "depth": 1}
        talker.send(UpdateSession(patch={"extra_body": {"depth": 2}}))
        await talker.heard.nth(SessionUpdated, 2)
        assert state.runtime_config == {"served": "scripted_turns", "depth": 2}
        assert opened["depth"] == 1
        assert state.config_generation == 2


async def test_a_slot_is_held_while_the_model_prepares(autojump_clock: MockClock) -> None:
    """Nobody else gets it; when the client goes away meanwhile, it is free."""
    pipeline = DeepPipeline()
    pipeline.plugin.slow_s = 5.0
    async with scripted_omni(pipeline=pipeline, max_sessions=1) as omni, trio.open_nursery() as nursery:
        client = trio.CancelScope()

        async def come() -> None:
            with client:
                await open_talker(omni)

        nursery.start_soon(come)
        await trio.sleep(1.0)
        assert await refusal_of(omni) == "resource_exhausted"
        client.cancel()
        await trio.sleep(0.1)
        pipeline.plugin.slow_s = 0.0
        await finish(omni, await open_talker(omni))


async def refusal_of(omni: DuplexOmni) -> str:
    with pytest.raises(RealtimeError) as caught:
        await omni.open_session(dialect="duplex", attachment=RecordingAttachment())
    return caught.value.code


async def test_a_model_that_takes_too_long(autojump_clock: MockClock) -> None:
    """The opening is given up and the slot given back."""
    pipeline = DeepPipeline()
    pipeline.plugin.slow_s = 5.0
    limits = SessionLimits(unit_timeout_s=1.0)
    async with scripted_omni(pipeline=pipeline, max_sessions=1, limits=limits) as omni:
        assert await refusal_at_open(omni, {}) == ("timeout", None)
        pipeline.plugin.slow_s = 0.0
        await finish(omni, await open_talker(omni))


async def test_what_the_model_prepares_for_when_the_server_drains(autojump_clock: MockClock) -> None:
    """Whoever came before is let in once the model is ready, and closed at once; the drain waits for that."""
    pipeline = DeepPipeline()
    pipeline.plugin.slow_s = 5.0
    async with scripted_omni(pipeline=pipeline) as omni, trio.open_nursery() as nursery:

        async def drain() -> None:
            await trio.sleep(1.0)
            await omni.duplex_engine.manager.drain(0.1)
            assert trio.current_time() == pytest.approx(5.0, abs=0.1)

        nursery.start_soon(drain)
        attachment = RecordingAttachment()
        handle = await omni.open_session(dialect="duplex", attachment=attachment)
        assert (await handle.wait_closed()).reason == "open_abandoned"
        assert isinstance(attachment.events[0], SessionCreated)
        assert attachment.closed == (1001, "open_abandoned")
        assert await refusal_of(omni) == "resource_exhausted"
        assert omni.statistics().sessions == 0


async def test_each_session_has_a_state_of_its_own(autojump_clock: MockClock) -> None:
    """The model finds it in each of its turns; it goes with the session."""
    pipeline = DeepPipeline()
    async with scripted_omni(pipeline=pipeline) as omni:
        one, other = await open_talker(omni), await open_talker(omni)
        for number in (1, 2):
            one.write("hello")
            await one.heard.nth(ResponseDone, number)
        other.write("hello")
        await other.heard.nth(ResponseDone, 1)
        await finish(omni, one, other)
    assert [memory.turns for memory in pipeline.plugin.states] == [2, 1]


class Mimic(TurnsPlugin):
    """Speaks with the voice of a recording only."""

    requires_ref_audio = True


class MimicPipeline(TurnsPipeline):
    def build_plugin(self) -> Mimic:
        return Mimic()


async def test_a_model_that_needs_a_recording(autojump_clock: MockClock) -> None:
    """Without one it may write; sound is refused at open, in an update and for one response."""
    async with scripted_omni(pipeline=MimicPipeline()) as omni:
        with pytest.raises(RealtimeError) as caught:
            await open_talker(omni)
        assert (caught.value.code, caught.value.param) == ("ref_audio_required", "session.ref_audio")
        talker = await open_talker(omni, patch={"output_modalities": ["text"]})
        expected = ("ref_audio_required", "session.ref_audio")
        assert await refused(talker, {"output_modalities": ["audio"]}) == expected
        options = ResponseCreateOptions(output_modalities=("audio",), instructions="Speak.")
        talker.send(CreateResponse(options=options))
        error = (await talker.heard.nth(ErrorEvent, 2)).error
        assert (error.code, error.param) == ("ref_audio_required", "response.output_modalities")
        talker.write("hello")
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        await finish(omni, talker)


async def test_with_a_recording_it_speaks(autojump_clock: MockClock) -> None:
    """And the recording stays as it is."""
    patch = {"ref_audio": "data:audio/wav;base64,UklGRg=="}
    async with open_session(pipeline=MimicPipeline(), patch=patch) as talker:
        talker.write("hello")
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "completed"
        found = await refused(talker, {"ref_audio": "data:audio/wav;base64,AAAA"})
        assert found == ("ref_audio_update_unsupported", "session.ref_audio")
