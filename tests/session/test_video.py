"""Pictures beside the sound.

The newest ones go to the model with its next turn or unit, and never become many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.native import NativePipeline, NativePlugin
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.turns_plugin import TurnsPlugin
from duplex_trio.pipelines.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.resumable import UnitInput
from duplex_trio.protocol.duplex import (
    AppendAudio,
    BargeIn,
    ClearInput,
    ClearOutputAudio,
    Commit,
    CreateItem,
    CreateResponse,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputImagePart,
    InputTextPart,
    MessageItem,
    ResponseCreated,
    ResponseCreateOptions,
    ResponseDone,
    ResponseListen,
    ResponseOutputAudioDelta,
)
from duplex_trio.testing import Talker, open_session
from duplex_trio.testing.pictures import PNG_URL as PNG

BY_HAND = {"turn_detection": None}
LONG = "one two three four five six seven eight nine ten"
SOUND = bytes(960)
"""20 ms of silence."""


class Watching(TurnsPlugin):
    """Keeps what it was shown; may prepare answers ahead and may do without sound."""

    def __init__(self, **abilities: Any) -> None:
        self._abilities = abilities
        self.shown: list[tuple[bool, Sequence[bytes]]] = []

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        return attrs.evolve(super().capabilities(max_sessions), **self._abilities)

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        if turn.respond:
            self.shown.append((turn.pcm is not None, turn.frames))
        return super().plan_turn(turn)


class WatchingPipeline(TurnsPipeline):
    def __init__(self, **abilities: Any) -> None:
        super().__init__(script=Script(replies={"go": LONG}))
        self.plugin = Watching(**abilities)

    def build_plugin(self) -> Watching:
        return self.plugin


SEES_ONLY: dict[str, Any] = {
    "required_input_modalities": frozenset({"video"}),
    "optional_input_modalities": frozenset({"audio"}),
}


def show(talker: Talker, *frames: bytes, sound: bytes = SOUND) -> None:
    talker.send(AppendAudio(audio=sound, video_frames=frames))


async def error(talker: Talker, number: int = 1) -> tuple[str, str | None]:
    found = (await talker.heard.nth(ErrorEvent, number)).error
    return found.code, found.param


async def test_a_turn_sees_the_newest_frames(autojump_clock: MockClock) -> None:
    """Two of them, once; the next turn sees what came later."""
    pipeline = WatchingPipeline()
    async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
        for frame in (b"1", b"2", b"3"):
            show(talker, frame)
        talker.append(1000, loud=True)
        talker.send(Commit(response_create=True))
        done = await talker.heard.nth(ResponseDone, 1)
        (item,) = done.response.output
        assert isinstance(item, MessageItem)
        assert "seeing 2 pictures" in str(item.content[0])
        talker.append(1000, loud=True)
        talker.send(Commit(response_create=True))
        await talker.heard.nth(ResponseDone, 2)
        show(talker, b"4")
        talker.append(1000, loud=True)
        talker.send(Commit(response_create=True))
        await talker.heard.nth(ResponseDone, 3)
    assert [frames for _, frames in pipeline.plugin.shown] == [(b"2", b"3"), (), (b"4",)]


async def test_a_turn_that_is_only_transcribed_leaves_them(autojump_clock: MockClock) -> None:
    """The one that is answered sees them; one outside the conversation does not take them away."""
    pipeline = WatchingPipeline()
    async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
        show(talker, b"1")
        talker.append(500, loud=True)
        talker.send(Commit(response_create=False))
        item = MessageItem(role="user", content=(InputTextPart("aside"),))
        options = ResponseCreateOptions(conversation="none", input=(item,))
        talker.send(CreateResponse(options=options))
        await talker.heard.nth(ResponseDone, 1)
        talker.send(CreateResponse())
        await talker.heard.nth(ResponseDone, 2)
    assert pipeline.plugin.shown == [(False, ()), (False, (b"1",))]


async def test_an_answer_that_was_prepared_has_seen_them(autojump_clock: MockClock) -> None:
    """If it is thrown away the next one sees them too."""
    pipeline = WatchingPipeline(speculation_pause_ms=200)
    async with open_session(pipeline=pipeline) as talker:
        await talker.speak(0.8)
        show(talker, b"1")
        await talker.pause(0.3)
        show(talker, b"2")
        await talker.speak(0.5)
        await talker.pause(0.8)
        await talker.heard.nth(ResponseDone, 1)
        await talker.turn()
        await talker.heard.nth(ResponseDone, 2)
    first, *others = [frames for _, frames in pipeline.plugin.shown]
    assert first == (b"1",)
    assert (b"1", b"2") in others
    assert others[-1] == ()


async def test_what_is_shown_behind_a_prepared_answer_is_for_the_next(autojump_clock: MockClock) -> None:
    """It was prepared in the pause, when there was less to see."""
    pipeline = WatchingPipeline(speculation_pause_ms=200)
    async with open_session(pipeline=pipeline) as talker:
        show(talker, b"1")
        await talker.speak(0.8)
        await talker.pause(0.4)
        show(talker, b"2")
        await talker.pause(0.4)
        await talker.heard.nth(ResponseDone, 1)
        await talker.turn()
        await talker.heard.nth(ResponseDone, 2)
    assert [frames for _, frames in pipeline.plugin.shown] == [(b"1",), (b"2",)]


@pytest.mark.parametrize("command", [ClearInput(), BargeIn()])
async def test_what_drops_the_sound_drops_them(
    autojump_clock: MockClock, command: ClearInput | BargeIn
) -> None:
    """They belong to it."""
    pipeline = WatchingPipeline()
    async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
        show(talker, b"1")
        talker.send(command)
        talker.append(1000, loud=True)
        talker.send(Commit(response_create=True))
        await talker.heard.nth(ResponseDone, 1)
    assert pipeline.plugin.shown == [(True, ())]


async def test_a_flood_stays_small(autojump_clock: MockClock) -> None:
    """A thousand frames of 20 kB are two, and the sound between them is all there."""
    pipeline = WatchingPipeline()
    limits = SessionLimits(pending_input_bytes_max=2_000_000)
    async with open_session(pipeline=pipeline, patch=BY_HAND, limits=limits) as talker:
        state = talker.handle._core.state
        for _ in range(1000):
            show(talker, bytes(20_000))
            await wait_all_tasks_blocked()
        assert state.frames.held_bytes == 40_000
        assert not talker.heard.of(ErrorEvent)


async def test_they_count_against_the_limit(autojump_clock: MockClock) -> None:
    """With the sound; what is refused changes nothing, and a smaller one is taken."""
    limits = SessionLimits(pending_input_bytes_max=100_000)
    async with open_session(pipeline=WatchingPipeline(), patch=BY_HAND, limits=limits) as talker:
        state = talker.handle._core.state
        show(talker, bytes(60_000))
        assert state.frames.held_bytes == 60_000
        held = state.timeline.held_bytes
        show(talker, bytes(60_000))
        assert await error(talker) == ("input_backpressure", "video_frames")
        assert (state.frames.held_bytes, state.timeline.held_bytes) == (60_000, held)
        talker.append(1000, loud=True)
        assert await error(talker, 2) == ("input_backpressure", "audio")
        show(talker, bytes(20_000))
        assert state.frames.held_bytes == 80_000


async def test_the_next_turn_has_its_own(autojump_clock: MockClock) -> None:
    """Said and shown while the answer before it is spoken; also when that answer is cut."""
    for cut in (False, True):
        pipeline = WatchingPipeline()
        pipeline.script.heard = ["go", "and?"]
        async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
            talker.append(1000, loud=True)
            talker.send(Commit(response_create=True))
            await talker.heard.nth(ResponseOutputAudioDelta, 4)
            show(talker, b"1")
            talker.append(1000, loud=True)
            talker.send(Commit(response_create=True))
            await talker.heard.nth(InputAudioBufferCommitted, 2)
            show(talker, b"2")
            if cut:
                talker.send(ClearOutputAudio())
            await talker.heard.nth(ResponseDone, 2)
            assert talker.handle._core.state.frames.peek() == (b"2",)
        assert {frames for _, frames in pipeline.plugin.shown[1:]} == {(b"1",)}


# ------------------------------------------------------------------ a model that need not hear


async def test_a_user_who_only_shows_something(autojump_clock: MockClock) -> None:
    """Is answered: by a turn without sound and an item without words."""
    pipeline = WatchingPipeline(**SEES_ONLY)
    async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
        show(talker, b"1", sound=b"")
        talker.send(Commit(response_create=True))
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "completed"
        assert len(talker.heard.of(InputAudioBufferCommitted)) == 1
        talker.send(Commit(response_create=True))
        assert await error(talker) == ("input_audio_buffer_commit_empty", None)
    assert pipeline.plugin.shown == [(False, (b"1",))]


async def test_silence_beside_what_is_shown_is_answered(autojump_clock: MockClock) -> None:
    """The client says that nothing was said."""
    pipeline = WatchingPipeline(**SEES_ONLY)
    async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
        show(talker, b"1")
        talker.send(Commit(response_create=True, is_speech=False))
        await talker.heard.nth(ResponseDone, 1)
        show(talker, b"2")
        talker.send(Commit(is_speech=False, response_create=False))
        await talker.heard.nth(InputAudioBufferCommitted, 2)
        assert len(talker.heard.of(ResponseCreated)) == 1
        assert talker.handle._core.state.frames.peek() == (b"2",)
    assert pipeline.plugin.shown == [(False, (b"1",))]


@pytest.mark.parametrize("concurrent", [True, False])
async def test_something_shown_during_an_answer(autojump_clock: MockClock, concurrent: bool) -> None:
    """Is answered behind it, whether or not the model can work ahead."""
    pipeline = WatchingPipeline(**SEES_ONLY, supports_concurrent_turn_requests=concurrent)
    async with open_session(pipeline=pipeline, patch=BY_HAND) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 2)
        show(talker, b"1", sound=b"")
        talker.send(Commit(response_create=True))
        await talker.heard.nth(ResponseDone, 2)
        assert [done.response.status for done in talker.heard.of(ResponseDone)] == ["completed"] * 2
    assert pipeline.plugin.shown[1] == (False, (b"1",))


async def test_sound_alone_is_not_enough_for_a_model_that_must_see(autojump_clock: MockClock) -> None:
    """And pictures alone not for one that must hear."""
    async with open_session(pipeline=WatchingPipeline(**SEES_ONLY), patch=BY_HAND) as talker:
        talker.append(100, loud=True)
        assert await error(talker) == ("invalid_input_modality", "video_frames")
    async with open_session(pipeline=WatchingPipeline(), patch=BY_HAND) as talker:
        show(talker, b"1", sound=b"")
        assert await error(talker) == ("invalid_input_modality", "audio")
        assert not talker.handle._core.state.frames.held_bytes


# ------------------------------------------------------------------ pictures in items


async def test_a_picture_in_the_conversation(autojump_clock: MockClock) -> None:
    """The model is told of it with the turn."""
    script = Script()
    async with open_session(pipeline=TurnsPipeline(script=script)) as talker:
        item = MessageItem(role="user", content=(InputTextPart("what is it?"), InputImagePart(PNG)))
        talker.send(CreateItem(item=item), CreateResponse())
        await talker.heard.nth(ResponseDone, 1)
    (message,) = script.asked[-1].prompt.messages
    assert (message.content, message.images) == ("what is it?", (PNG,))


async def test_a_picture_in_the_input_of_a_response(autojump_clock: MockClock) -> None:
    """Is told too; what is no picture is refused by its place."""
    script = Script()
    async with open_session(pipeline=TurnsPipeline(script=script)) as talker:
        item = MessageItem(role="user", content=(InputImagePart(PNG),))
        talker.send(CreateResponse(options=ResponseCreateOptions(conversation="none", input=(item,))))
        await talker.heard.nth(ResponseDone, 1)
        wrong = MessageItem(role="user", content=(InputImagePart("data:,"),))
        talker.send(CreateResponse(options=ResponseCreateOptions(conversation="none", input=(item, wrong))))
        assert await error(talker) == ("invalid_image", "response.input[1].content[0].image_url")
    assert script.asked[-1].prompt.messages[0].images == (PNG,)


# ------------------------------------------------------------------ units


class Looking(NativePlugin):
    """Keeps what came with each unit; the first unit may take a while to prepare."""

    def __init__(self) -> None:
        super().__init__(1000)
        self.units: list[tuple[bool, Sequence[bytes]]] = []
        self.takes_s = 0.0

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        able = super().capabilities(max_sessions)
        return attrs.evolve(able, optional_input_modalities=frozenset({"video"}))

    async def prepare_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        await trio.sleep(self.takes_s)
        self.units.append((unit.silence, unit.frames))
        return await super().prepare_append(unit, request)


def looking() -> tuple[Looking, NativePipeline]:
    pipeline = NativePipeline(answer="one")
    pipeline.plugin = Looking()
    return pipeline.plugin, pipeline


async def test_a_unit_brings_the_newest_frames(autojump_clock: MockClock) -> None:
    """Once; a unit behind it has those that came meanwhile, or none."""
    plugin, pipeline = looking()
    async with open_session(pipeline=pipeline) as talker:
        for frame in (b"1", b"2", b"3"):
            show(talker, frame)
        talker.append(1100, loud=True)
        await talker.heard.nth(ResponseListen, 1)
        talker.append(1000, loud=True)
        await talker.heard.nth(ResponseListen, 2)
        show(talker, b"4")
        talker.append(1000, loud=True)
        await talker.heard.nth(ResponseListen, 3)
    assert plugin.units == [(False, (b"2", b"3")), (False, ()), (False, (b"4",))]


async def test_a_unit_that_comes_again_has_its_frames_again(autojump_clock: MockClock) -> None:
    """Unless newer ones came; a barge-in drops them with the sound."""
    plugin, pipeline = looking()
    plugin.takes_s = 1.0
    async with open_session(pipeline=pipeline) as talker:
        show(talker, b"1", b"2")
        talker.append(1100, loud=True)
        await trio.sleep(0.5)
        show(talker, b"3")
        talker.handle._control.cancel("client_cancelled")
        await talker.heard.nth(ResponseListen, 1)
        assert plugin.units == [(False, (b"2", b"3"))]
        show(talker, b"4")
        talker.append(1000, loud=True)
        await trio.sleep(0.5)
        talker.send(BargeIn())
        await wait_all_tasks_blocked()
        assert not talker.handle._core.state.frames.held_bytes
        talker.append(1100, loud=True)
        await talker.heard.nth(ResponseListen, 2)
    assert plugin.units[1:] == [(False, ())]


@pytest.mark.parametrize(
    ("cut", "comes_back"), [("turn_detected", True), ("barge_in", False)], ids=["by speech", "by command"]
)
async def test_silence_that_does_not_reach_the_model_leaves_the_frames(
    autojump_clock: MockClock, cut: str, comes_back: bool
) -> None:
    """What was shown while the model spoke on is there for the next unit, unless the user dropped it."""
    plugin, _ = looking()
    pipeline = NativePipeline(answer="one two three four five six seven eight nine")
    pipeline.plugin = plugin
    async with open_session(pipeline=pipeline) as talker:
        talker.append(2100, loud=True)
        talker.append(2100, loud=False)
        await talker.heard.nth(ResponseOutputAudioDelta, 3)
        plugin.takes_s = 3.0
        show(talker, b"1")
        while talker.handle._core.state.frames.held_bytes:  # noqa: ASYNC110  nothing tells that a unit was begun
            await trio.sleep(0.05)
        if cut == "barge_in":
            talker.send(BargeIn())
        else:
            talker.handle._control.cancel("turn_detected")
        await wait_all_tasks_blocked()
        plugin.takes_s = 0.0
        begun = len(plugin.units)
        talker.append(1100, loud=True)
        await trio.sleep(0.5)
    assert [frames for _, frames in plugin.units[begun:]] == ([(b"1",)] if comes_back else [()])


async def test_pictures_wait_for_the_next_sound(autojump_clock: MockClock) -> None:
    """They count against the limit meanwhile, and stay few."""
    _, pipeline = looking()
    limits = SessionLimits(pending_input_bytes_max=80_000)
    async with open_session(pipeline=pipeline, limits=limits) as talker:
        core = talker.handle._core
        for _ in range(500):
            show(talker, bytes(10_000), sound=bytes(48))
        assert core.state.frames.held_bytes == 20_000
        assert not talker.heard.of(ErrorEvent)
        show(talker, bytes(70_000), bytes(20_000))
        assert await error(talker) == ("input_backpressure", "video_frames")
        assert core.state.frames.held_bytes == 20_000
