"""A refusal changes nothing: every fault that a command can have, tried on a session in the middle of
everything.

The session has a spoken turn behind it that was half acknowledged, written items, a function call, sound that
is not committed yet, and a response that is being spoken. Then the faulty command comes. Behind it the
ledgers are compared with a picture taken before, place by place; so are the line of commands, the media
queue, the live turns, the detector and what sound waits. What a refusal may change is that it was counted and
told.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import numpy as np
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.engine import SessionLimits
from duplex_trio.models.cascade.plugin import CascadePlugin
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    AppendText,
    BargeIn,
    CancelResponse,
    ClearOutputAudio,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    DuplexCommand,
    ErrorEvent,
    FunctionCallItem,
    FunctionCallOutputItem,
    InputAudioPart,
    InputImagePart,
    InputTextPart,
    ItemReference,
    MessageItem,
    RealtimeError,
    ResponseCreateOptions,
    ResponseDone,
    ResponseOutputAudioDelta,
    RetrieveItem,
    SignalTurn,
    TruncateItem,
    UpdateSession,
)
from duplex_trio.protocol.duplex.session import DuplexSessionConfig
from duplex_trio.testing import (
    ResumableRecorder,
    ReturningTalker,
    Talker,
    finish,
    open_returning,
    open_session,
    scripted_omni,
)
from duplex_trio.testing.invariants import check_session, core_of
from duplex_trio.testing.pictures import PNG_URL as PNG
from duplex_trio.testing.snapshots import differences, snapshot

LONG = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima. " * 5
TOLD = ("['media'].control_peak", "['media']._control", "['core'].egress", "['core'].delivery")
MAY_CHANGE = (
    *TOLD,
    "['core'].counters.commands_refused",
    "['core'].command_seq",
    "['core'].client_event_count",
    "['core'].last_client_event_id",
)
"""A command that came has a number, and its refusal is counted and told. It is no sign of life."""
PATCH = {"instructions": "Be kind.", "extra_body": {"knob": 1}}
BY_HAND = PATCH | {"turn_detection": None}


class _Strict(ScriptedPipeline):
    """The scripted model with other abilities and knobs that it checks."""

    def __init__(self, script: Script, **abilities: Any) -> None:
        super().__init__(script=script)
        self._abilities = abilities

    def build_plugin(self) -> CascadePlugin:
        return _StrictPlugin(self._abilities)


class _StrictPlugin(CascadePlugin):
    def __init__(self, abilities: dict[str, Any]) -> None:
        super().__init__(ChatProfile(default_instructions=None), voices=("tone",))
        self._abilities = abilities

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        return attrs.evolve(super().capabilities(max_sessions), **self._abilities)

    def validate_client_extra_body(self, extra_body: Mapping[str, Any]) -> None:
        if extra_body.get("knob") != 1:
            raise ValueError("the knob is set to 1")

    def runtime_config_for_update(
        self, config: DuplexSessionConfig, current: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        if config.instructions == "Break.":
            raise RuntimeError("the hook is broken")
        return super().runtime_config_for_update(config, current)


def strict(**abilities: Any) -> Pipeline:
    script = Script(heard=["hello"], replies={"hello": "good day to you"}, otherwise=lambda _: LONG)
    return _Strict(script, **abilities)


@asynccontextmanager
async def lively(
    pipeline: Pipeline | None = None, *, limits: SessionLimits | None = None, patch: Mapping[str, Any] = PATCH
) -> AsyncIterator[Talker]:
    """A session in the middle of everything."""
    async with open_session(pipeline=pipeline or strict(), limits=limits, patch=patch) as talker:
        await talker.turn()
        if core_of(talker.handle).state.config.turn_detection is None:
            talker.send(Commit(response_create=True))
        done = await talker.heard.nth(ResponseDone, 1)
        talker.send(
            AckPlayback(played_ms=400, response_id=done.response.id),
            CreateItem(item=MessageItem(id="a", role="user", content=(InputTextPart("a"),))),
            CreateItem(item=FunctionCallItem(id="c1", call_id="call_1", name="f", arguments="{}")),
            CreateItem(item=FunctionCallItem(id="c2", call_id="call_2", name="f", arguments="{}")),
            CreateItem(item=FunctionCallOutputItem(id="o1", call_id="call_1", output="1")),
        )
        await trio.sleep(3.0)
        talker.write("go on")
        await talker.heard.wait_for(ResponseOutputAudioDelta, after=len(talker.heard.events))
        talker.append(210, loud=False)
        await trio.sleep(0.5)
        talker.append(33, loud=False)
        await wait_all_tasks_blocked()
        yield talker


def picture(talker: Talker) -> dict[str, Any]:
    """All of a session that a command can change."""
    core, dispatch = core_of(talker.handle), talker.handle._dispatch
    queue = core.egress.queue
    parts = {"media": queue, "core": core, "ingress": dispatch._ingress, "detector": dispatch._detector}
    return snapshot(parts) | {"line": core.work.statistics().current_buffer_used}


async def refused(talker: Talker, command: DuplexCommand) -> tuple[str, str | None]:
    """Send a faulty command, check that it changed nothing, and return what it was told."""
    before, count = picture(talker), len(talker.heard.events)
    talker.send(attrs.evolve(command, event_id="mine"))
    await wait_all_tasks_blocked()
    (event,) = talker.heard.events[count:]
    assert isinstance(event, ErrorEvent), event
    assert not (changes := differences(before, picture(talker), ignoring=MAY_CHANGE)), "\n".join(changes)
    check_session(talker.handle, trio.current_time())
    assert event.error.event_id == "mine"
    assert talker.handle.counters.commands_refused == 1
    return event.error.code, event.error.param


def message(text: str, item_id: str, previous: str | None = None) -> CreateItem:
    item = MessageItem(id=item_id, role="user", content=(InputTextPart(text),))
    return CreateItem(item=item, previous_item_id=previous)


def sounding(part: InputAudioPart, *more: InputTextPart) -> CreateItem:
    return CreateItem(item=MessageItem(role="user", content=(part, *more)))


SOUND = base64.b64encode(bytes(4800)).decode()
NOT_FINITE = np.full(100, np.nan, np.float32).tobytes()
Faulty = DuplexCommand | Callable[[Talker], DuplexCommand]


def spoken_item(talker: Talker) -> str:
    return talker.heard.of(ResponseDone)[0].response.output[0].id


def active_id(talker: Talker) -> str:
    active = core_of(talker.handle).state.active
    assert active is not None
    return active.response_id


def update(**patch: Any) -> UpdateSession:
    return UpdateSession(patch={"instructions": "Be brief.", **patch})


FAULTS: dict[str, tuple[Faulty, str, str | None]] = {
    # sound
    "an append without sound": (AppendAudio(), "invalid_input_modality", "audio"),
    "an append with pictures": (
        AppendAudio(audio=bytes(480), video_frames=(b"jpeg",)),
        "invalid_input_modality",
        "video_frames",
    ),
    "an append in no format": (
        AppendAudio(audio=bytes(480), format="mp3"),
        "unsupported_audio_format",
        "format",
    ),
    "an append at no rate": (
        AppendAudio(audio=bytes(480), format={"type": "audio/pcm", "rate": 7}),
        "bad_event",
        "format.rate",
    ),
    "an append of no numbers": (
        AppendAudio(audio=NOT_FINITE, format="pcm_f32le", sample_rate_hz=16_000),
        "bad_audio",
        "audio",
    ),
    "text while it listens": (AppendText(text="x"), "native_text_append_unsupported", None),
    # responses
    "a second response": (CreateResponse(), "conversation_already_has_active_response", None),
    "a second response, outside": (
        CreateResponse(options=ResponseCreateOptions(conversation="none")),
        "conversation_already_has_active_response",
        None,
    ),
    "a response in haste": (
        CreateResponse(options=ResponseCreateOptions(speed=9.0)),
        "invalid_value",
        "response.audio.output.speed",
    ),
    "a response in its own format": (
        CreateResponse(options=ResponseCreateOptions(output_format="mp3")),
        "unsupported_audio_format",
        "response.audio.output.format",
    ),
    "a response to what is unknown": (
        CreateResponse(options=ResponseCreateOptions(input=(ItemReference(id="nowhere"),))),
        "item_not_found",
        "response.input[0].id",
    ),
    "a cancel of another response": (
        CancelResponse(response_id="another"),
        "response_cancel_not_active",
        "response_id",
    ),
    "a clear of another response": (
        ClearOutputAudio(response_id="another"),
        "response_not_active",
        "response_id",
    ),
    # items
    "an item twice": (message("x", "a"), "item_create_duplicate_item_id", "item.id"),
    "an item behind what is unknown": (message("x", "b", "nowhere"), "item_not_found", "previous_item_id"),
    "an item with the name of the front": (message("x", "root"), "invalid_value", "item.id"),
    "an item with an endless name": (message("x", "x" * 257), "invalid_value", "item.id"),
    "an item too long": (message("x" * 8_000_001, "b"), "input_backpressure", "item.content"),
    "an item with a picture": (
        CreateItem(item=MessageItem(role="user", content=(InputImagePart("data:image/png;base64,AAAA"),))),
        "unsupported",
        "item.content[0]",
    ),
    "an item with nothing in it": (sounding(InputAudioPart()), "invalid_value", "item.content[0].audio"),
    "an item with sound in no format": (
        sounding(InputAudioPart(audio=SOUND, format="mp3")),
        "unsupported_audio_format",
        "item.content[0].format",
    ),
    "an item with sound, twice": (
        CreateItem(item=MessageItem(id="a", role="user", content=(InputAudioPart(audio=SOUND),))),
        "item_create_duplicate_item_id",
        "item.id",
    ),
    "an output without a call": (
        CreateItem(item=FunctionCallOutputItem(call_id="call_9", output="1")),
        "invalid_function_call_output",
        "item.call_id",
    ),
    "an output twice": (
        CreateItem(item=FunctionCallOutputItem(call_id="call_1", output="2")),
        "invalid_function_call_output",
        "item.call_id",
    ),
    "a deletion of what is unknown": (DeleteItem(item_id="nowhere"), "item_not_found", "item_id"),
    "a look at what is unknown": (
        RetrieveItem(item_id="nowhere"),
        "item_retrieve_invalid_item_id",
        "item_id",
    ),
    "a truncation of what is unknown": (
        TruncateItem(item_id="nowhere", audio_end_ms=0),
        "item_not_found",
        "item_id",
    ),
    "a truncation of the user": (TruncateItem(item_id="a", audio_end_ms=0), "bad_event", "item_id"),
    "a truncation of another part": (
        lambda talker: TruncateItem(item_id=spoken_item(talker), content_index=1, audio_end_ms=0),
        "bad_event",
        "content_index",
    ),
    "a truncation behind the end": (
        lambda talker: TruncateItem(item_id=spoken_item(talker), audio_end_ms=60_000),
        "bad_event",
        "audio_end_ms",
    ),
    # playback, signals
    "playback of another response": (
        AckPlayback(played_ms=1, response_id="another"),
        "playback_item_not_found",
        "response_id",
    ),
    "playback of another item": (
        AckPlayback(played_ms=1, item_id="item_another"),
        "playback_item_not_found",
        "item_id",
    ),
    "playback of two things": (
        lambda talker: AckPlayback(played_ms=1, response_id=active_id(talker), item_id=spoken_item(talker)),
        "playback_item_mismatch",
        "item_id",
    ),
    "a signal of no playback": (SignalTurn(event="playback_ack"), "bad_event", "payload.played_ms"),
    "a signal of playback at no time": (
        SignalTurn(event="playback_ack", payload={"played_ms": "soon"}),
        "bad_event",
        "payload.played_ms",
    ),
    "a signal of another's playback": (
        SignalTurn(event="playback_ack", payload={"played_ms": 1, "response_id": "another"}),
        "playback_item_not_found",
        "payload.response_id",
    ),
    "a signal to delete nothing": (
        SignalTurn(event="conversation.item.delete"),
        "missing_item_id",
        "payload.item_id",
    ),
    # the session
    "an update in haste": (
        update(audio={"output": {"speed": 9}}),
        "invalid_value",
        "session.audio.output.speed",
    ),
    "an update to no format": (
        update(input_audio_format="mp3"),
        "unsupported_audio_format",
        "session.input_audio_format",
    ),
    "an update to no detection": (
        update(turn_detection={"type": "psychic_vad"}),
        "unsupported_turn_detection",
        "session.turn_detection.type",
    ),
    "an update of the voice": (update(voice="another"), "cannot_update_voice", "session.voice"),
    "an update of the reference": (
        update(ref_audio="file:///x"),
        "ref_audio_update_unsupported",
        "session.ref_audio",
    ),
    "an update of a knob": (
        update(extra_body={"knob": 2}),
        "invalid_duplex_runtime_config",
        "session.extra_body",
    ),
    "an update with seed text too long": (
        update(initial_user_text="x" * 8_000_001),
        "input_backpressure",
        "item.content",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_refused_command_changes_nothing(autojump_clock: MockClock, fault: str) -> None:
    """One error with code, field and the client's own event id, and the session is as it was."""
    faulty, code, param = FAULTS[fault]
    async with lively() as talker:
        command = faulty(talker) if callable(faulty) else faulty
        assert await refused(talker, command) == (code, param)


# ------------------------------------------------------------------ a session where nothing has happened


IDLE: dict[str, tuple[DuplexCommand, str, str | None]] = {
    "a cancel": (CancelResponse(), "response_cancel_not_active", None),
    "a response": (CreateResponse(), "response_create_without_input", None),
    "a commit": (Commit(response_create=True), "input_audio_buffer_commit_empty", None),
    "playback": (AckPlayback(played_ms=1), "playback_item_not_found", None),
}


@pytest.mark.parametrize("fault", IDLE)
async def test_a_refused_command_begins_nothing(autojump_clock: MockClock, fault: str) -> None:
    """Where there is nothing to cancel, to answer, to commit or to acknowledge, there is nothing afterwards."""
    command, code, param = IDLE[fault]
    patch = {"turn_detection": {"idle_timeout_ms": 5000}}
    async with open_session(strict_script(), patch=patch) as talker:
        assert await refused(talker, command) == (code, param)


async def test_a_refused_commit_leaves_the_timer_of_a_silent_user(autojump_clock: MockClock) -> None:
    """The commit of nothing does not take back that the user will be prompted."""
    patch = {"turn_detection": {"idle_timeout_ms": 5000}}
    async with open_session(strict_script(), patch=patch) as talker:
        talker.write("hello")
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(3.0)
        talker.send(Commit())
        await talker.heard.nth(ErrorEvent, 1)
        await talker.heard.nth(ResponseDone, 2)


# ------------------------------------------------------------------ other models, other bounds


async def test_a_model_that_cannot_be_interrupted(autojump_clock: MockClock) -> None:
    """Its response goes on as if nobody had asked."""
    async with lively(strict(supports_barge_in=False)) as talker:
        assert await refused(talker, BargeIn()) == ("barge_in_unsupported", None)


async def test_a_model_that_answers_speech_only(autojump_clock: MockClock) -> None:
    """It is asked nothing."""
    async with open_session(
        pipeline=strict(supports_text_only_turn=False, supports_chat_completions=False), patch=PATCH
    ) as talker:
        talker.send(message("a", "a"))
        await trio.sleep(0.1)
        assert await refused(talker, CreateResponse()) == ("text_only_turn_unsupported", None)


async def test_a_model_whose_context_is_locked(autojump_clock: MockClock) -> None:
    """It keeps its instructions."""
    async with lively(strict(locks_context_after_input=True)) as talker:
        assert await refused(talker, update()) == ("instructions_update_unsupported", "session.instructions")


async def test_sound_that_does_not_fit(autojump_clock: MockClock) -> None:
    """Uncommitted sound beyond the bound leaves no trace, not even in the resampler."""
    limits = SessionLimits(pending_input_bytes_max=200_000)
    async with lively(limits=limits, patch=BY_HAND) as talker:
        assert await refused(talker, AppendAudio(audio=bytes(200_001))) == ("input_backpressure", "audio")


async def test_sound_that_does_not_fit_into_the_line_of_units(autojump_clock: MockClock) -> None:
    """The same for a model that takes units."""
    limits = SessionLimits(pending_input_bytes_max=200_000)
    async with open_session(pipeline=NativePipeline(answer="one two three"), limits=limits) as talker:
        talker.append(700, loud=True)
        await wait_all_tasks_blocked()
        assert await refused(talker, AppendAudio(audio=bytes(200_001))) == ("input_backpressure", "audio")


OWN_TURNS: dict[str, tuple[DuplexCommand, str, str | None]] = {
    "a response": (CreateResponse(), "unsupported", "type"),
    "an item with sound": (sounding(InputAudioPart(audio=SOUND)), "unsupported", "item.content[0]"),
    "a commit": (Commit(), "input_audio_buffer_commit_empty", None),
    "a cancel": (CancelResponse(), "response_cancel_not_active", None),
}


@pytest.mark.parametrize("fault", OWN_TURNS)
async def test_a_model_that_owns_its_turns(autojump_clock: MockClock, fault: str) -> None:
    """It is not made to speak, nor to hear what is not in the input."""
    command, code, param = OWN_TURNS[fault]
    async with open_session(pipeline=NativePipeline()) as talker:
        assert await refused(talker, command) == (code, param)


@pytest.mark.parametrize("last", [Commit(), message("x", "late"), CreateResponse()], ids=lambda c: c.type)
async def test_a_command_too_many(autojump_clock: MockClock, last: DuplexCommand) -> None:
    """What does not fit into the line is not half done: the sound stays as it was, resampler included."""
    async with lively(limits=SessionLimits(pending_commands_max=4), patch=BY_HAND) as talker:
        # The first one goes to the actor, which waits; four stand in line.
        talker.send(*(RetrieveItem(item_id="a") for _ in range(5)))
        before = picture(talker)
        talker.send(last)
        changes = differences(before, picture(talker), ignoring=MAY_CHANGE)
        assert not changes, "\n".join(changes)
        await wait_all_tasks_blocked()
        assert talker.heard.of(ErrorEvent)[-1].error.code == "input_backpressure"


def pictured(*urls: str) -> CreateItem:
    return CreateItem(item=MessageItem(role="user", content=tuple(InputImagePart(url) for url in urls)))


PICTURES: dict[str, tuple[DuplexCommand, str, str | None]] = {
    "no picture": (pictured("data:image/png;base64,AAAA"), "invalid_image", "item.content[0].image_url"),
    "too many pictures": (pictured(*[PNG] * 9), "input_backpressure", "item.content"),
}


@pytest.mark.parametrize("fault", PICTURES)
async def test_a_model_that_sees(autojump_clock: MockClock, fault: str) -> None:
    """It is shown what can be seen, and not too much of it."""
    command, code, param = PICTURES[fault]
    async with lively(strict(supports_image_input=True)) as talker:
        assert await refused(talker, command) == (code, param)


@pytest.mark.usefixtures("faults_expected")
async def test_a_model_whose_hook_breaks(autojump_clock: MockClock) -> None:
    """An update is refused with it; the session keeps what it had."""
    async with lively() as talker:
        command = UpdateSession(patch={"instructions": "Break."})
        assert await refused(talker, command) == ("internal_error", None)


# ------------------------------------------------------------------ connections


CONNECTIONS: dict[str, tuple[Callable[[ReturningTalker], object], str]] = {
    "an acknowledgement of what was not sent": (lambda t: t.handle.ack_events(10**6), "invalid_event_ack"),
    "a return that knows too little": (
        lambda t: t.handle.resume(ResumableRecorder(9), expected_generation=9, control_id="x", last_seq=0),
        "session_resume_conflict",
    ),
    "a return that knows too much": (
        lambda t: t.handle.resume(
            ResumableRecorder(9), expected_generation=t.handle.generation, control_id="x", last_seq=10**6
        ),
        "session_resume_conflict",
    ),
    "a detachment by one that was replaced": (lambda t: t.handle.detach(9), "session_resume_conflict"),
}


@pytest.mark.parametrize("fault", CONNECTIONS)
async def test_a_refused_connection_changes_nothing(autojump_clock: MockClock, fault: str) -> None:
    """Whoever is attached stays, and what is kept for it stays too."""
    act, code = CONNECTIONS[fault]
    async with scripted_omni(Script(otherwise=lambda _: LONG)) as omni:
        talker = await open_returning(omni)
        talker.write("go on")
        await talker.heard.nth(ResponseOutputAudioDelta, 2)
        await wait_all_tasks_blocked()
        before, delivery = picture(talker), snapshot(core_of(talker.handle).delivery)
        with pytest.raises(RealtimeError) as caught:
            act(talker)
        assert caught.value.code == code
        await wait_all_tasks_blocked()
        assert not (changes := differences(before, picture(talker))), "\n".join(changes)
        assert snapshot(core_of(talker.handle).delivery) == delivery
        await finish(omni, talker)


# ------------------------------------------------------------------ an answer that was prepared ahead


PREPARED: dict[str, tuple[DuplexCommand, str]] = {
    "an item": (message("x", "b", "nowhere"), "item_not_found"),
    "a deletion": (DeleteItem(item_id="nowhere"), "item_not_found"),
    "a truncation": (TruncateItem(item_id="nowhere", audio_end_ms=0), "item_not_found"),
    "an update": (update(input_audio_format="mp3"), "unsupported_audio_format"),
    "a cancel": (CancelResponse(), "response_cancel_not_active"),
}


@pytest.mark.parametrize("fault", PREPARED)
async def test_a_refused_command_leaves_what_was_prepared(autojump_clock: MockClock, fault: str) -> None:
    """An answer computed ahead of the end of speech knows all there is to know, and is used."""
    command, code = PREPARED[fault]
    async with open_session(strict_script()) as talker:
        await talker.speak(0.6)
        while core_of(talker.handle).prepared is None:
            await talker.pause(0.02)
        await wait_all_tasks_blocked()
        assert (await refused(talker, command))[0] == code
        await talker.pause(0.6)
        await talker.heard.nth(ResponseDone, 1)
        assert talker.handle.counters.speculations_adopted == 1


def strict_script() -> Script:
    return Script(heard=["hello"], otherwise=lambda _: "good day")
