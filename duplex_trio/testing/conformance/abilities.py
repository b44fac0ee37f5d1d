"""What a model says that it cannot do is refused with the right code, and what it says that it can do works."""

from __future__ import annotations

import trio

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.pipelines.requests import TurnInput
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.resumable import UnitInput
from duplex_trio.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    BargeIn,
    Commit,
    ConversationItemAdded,
    CreateItem,
    CreateResponse,
    DuplexCommand,
    ErrorEvent,
    Heartbeat,
    InputImagePart,
    InputTextPart,
    MessageItem,
    RealtimeError,
    ResponseCreated,
    ResponseCreateOptions,
    ResponseDone,
    ResponseOutputAudioDelta,
    SessionHeartbeatAck,
    SessionUpdated,
    SignalTurn,
    TurnEvent,
    UpdateSession,
)
from duplex_trio.testing.conformance.heard import HookLog
from duplex_trio.testing.conformance.room import BY_HAND, Room, owns_turns, plugin_of
from duplex_trio.testing.conformance.wrapped import WrappedPipeline
from duplex_trio.testing.pictures import JPEG as FRAME
from duplex_trio.testing.pictures import PNG_URL as PIXEL
from duplex_trio.testing.returning import open_returning
from duplex_trio.testing.run import finish
from duplex_trio.testing.talker import CHUNK_MS, Talker, open_talker

SETTLE_S = 0.5
"""Time for a command to have its effect, in seconds of Trio's clock."""


async def barge_in_is_as_declared(room: Room) -> None:
    """`barge_in` ends the response of a model that can be interrupted, and is refused for one that cannot."""
    async with room.engine() as omni:
        talker = await room.user(omni)
        await room.say(omni, talker)
        await room.hear(omni, talker, ResponseOutputAudioDelta)
        if _able(omni).supports_barge_in:
            talker.send(BargeIn())
            done = await talker.heard.nth(ResponseDone, 1)
            assert done.response.status == "cancelled", f"the response is {done.response.status}"
        else:
            await _refused(talker, BargeIn(event_id="e1"), "barge_in_unsupported")
            assert all(done.response.status != "cancelled" for done in talker.heard.of(ResponseDone))
        await finish(omni, talker)


async def written_turns_are_as_declared(room: Room) -> None:
    """A written turn is answered, or refused; so is any `response.create` of a model that owns its turns."""
    async with room.engine() as omni:
        talker = await room.user(omni)
        item = MessageItem(role="user", content=(InputTextPart("Hello!"),))
        talker.send(CreateItem(item=item))
        create = CreateResponse(event_id="e1")
        if owns_turns(omni):
            await _refused(talker, create, "unsupported")
        elif not _able(omni).supports_text_only_turn:
            await _refused(talker, create, "text_only_turn_unsupported")
        else:
            talker.send(create)
            done = await room.hear(omni, talker, ResponseDone)
            assert done.response.status in ("completed", "incomplete"), f"it is {done.response.status}"
        await finish(omni, talker)


async def images_are_as_declared(room: Room) -> None:
    """An image becomes part of the conversation, or is refused by its place in the item."""
    async with room.engine() as omni:
        talker = await room.user(omni)
        create = CreateItem(
            item=MessageItem(role="user", content=(InputImagePart(image_url=PIXEL),)), event_id="e1"
        )
        if _able(omni).supports_image_input:
            talker.send(create)
            await talker.heard.nth(ConversationItemAdded, 1)
        else:
            await _refused(talker, create, "unsupported", "item.content[0]")
            assert not talker.heard.of(ConversationItemAdded), "the item was taken all the same"
        await finish(omni, talker)


async def appends_are_as_declared(room: Room) -> None:
    """Video that is not taken and sound that is missing are refused by field; the next turn is answered."""
    async with room.engine() as omni:
        talker = await room.user(omni)
        able = _able(omni)
        if "video" not in able.required_input_modalities | able.optional_input_modalities:
            append = AppendAudio(audio=bytes(2), video_frames=(FRAME,), event_id="e1")
            await _refused(talker, append, "invalid_input_modality", "video_frames")
        if "audio" in able.required_input_modalities:
            await _refused(talker, AppendAudio(event_id="e1"), "invalid_input_modality", "audio")
        await room.say(omni, talker)
        await room.hear(omni, talker, ResponseCreated)
        await finish(omni, talker)


async def commands_are_as_declared(room: Room) -> None:
    """Commits, turn signals and acknowledgements are refused by a model that takes none of them."""
    commands: dict[str, DuplexCommand] = {
        "supports_client_commit": Commit(event_id="e1"),
        "supports_external_turn_signal": SignalTurn(event="user_started", event_id="e2"),
        "supports_playback_ack": AckPlayback(played_ms=0, event_id="e3"),
    }
    async with room.engine() as omni:
        talker = await room.user(omni)
        for ability, command in commands.items():
            if not getattr(_able(omni), ability):
                await _refused(talker, command, "unsupported", "type")
        if _able(omni).supports_external_turn_signal:
            talker.send(commands["supports_external_turn_signal"])
            await talker.heard.nth(TurnEvent, 1)
        await finish(omni, talker)


async def pictures_are_as_declared(room: Room) -> None:
    """Frames that a model takes come with its next turn or unit, the newest two of them."""
    log = HookLog()
    async with room.engine(WrappedPipeline(room.make_pipeline(), hook_log=log)) as omni:
        talker = await room.user(omni)
        if "video" in _able(omni).required_input_modalities | _able(omni).optional_input_modalities:
            for number in range(4):
                talker.send(AppendAudio(audio=bytes(960), video_frames=(FRAME + bytes([number]),)))
            await room.say(omni, talker)
            await room.hear(omni, talker, ResponseCreated)
            units = [call.arguments[0] for call in log.calls if call.hook == "prepare_append"]
            first = units[0] if owns_turns(omni) else log.begun[0][0]
            assert isinstance(first, UnitInput | TurnInput)
            assert first.frames == (FRAME + b"\2", FRAME + b"\3"), f"{len(first.frames)} frames came"
        await finish(omni, talker)


async def turns_overlap_as_declared(room: Room) -> None:
    """The next turn is planned while the answer before it is spoken, or when that is over.

    Of an answer that is over before the user has said the next turn there is nothing to see.
    """
    log = HookLog()
    async with room.engine(WrappedPipeline(room.make_pipeline(), hook_log=log)) as omni:
        talker = await room.user(omni)
        if not owns_turns(omni):
            await room.say(omni, talker)
            await room.hear(omni, talker, ResponseOutputAudioDelta)
            await room.say(omni, talker)
            planned = None
            while not talker.heard.of(ResponseDone):
                planned = sum(isinstance(begun, TurnInput) and begun.respond for begun, _ in log.begun)
                await trio.sleep(CHUNK_MS / 1000)
            overlap = _able(omni).supports_concurrent_turn_requests
            assert planned in (None, 2 if overlap else 1), f"{planned} turns were planned while it spoke"
            await room.hear(omni, talker, ResponseDone, 2)
        await finish(omni, talker)


async def tools_are_as_declared(room: Room) -> None:
    """Tools for one response are refused by a model that takes none."""
    async with room.engine() as omni:
        talker = await room.user(omni)
        if not owns_turns(omni) and _able(omni).supports_text_only_turn and not _able(omni).supports_tools:
            tool = {"type": "function", "name": "look_up", "parameters": {"type": "object"}}
            options = ResponseCreateOptions(instructions="Be kind.", tools=(tool,))
            create = CreateResponse(options=options, event_id="e1")
            await _refused(talker, create, "unsupported_native_response_options", "response.tools")
        await finish(omni, talker)


async def its_context_is_locked_as_declared(room: Room) -> None:
    """Instructions change after the first sound, or are refused."""
    async with room.engine() as omni:
        talker = await room.user(omni)
        await room.say(omni, talker)
        await room.hear(omni, talker, ResponseCreated)
        update = UpdateSession(patch={"instructions": "Be brief."}, event_id="e1")
        if _able(omni).locks_context_after_input:
            await _refused(talker, update, "instructions_update_unsupported")
        else:
            count = len(talker.heard.of(SessionUpdated))
            talker.send(update)
            updated = await talker.heard.nth(SessionUpdated, count + 1)
            assert updated.session["instructions"] == "Be brief."
        await finish(omni, talker)


async def lost_connections_are_as_declared(room: Room) -> None:
    """A session that can be resumed goes on without its client, who misses nothing; any other one ends."""
    async with room.engine() as omni:
        talker = await open_returning(omni, patch=BY_HAND)
        await room.say(omni, talker)
        await room.hear(omni, talker, ResponseOutputAudioDelta)
        talker.lose()
        if _able(omni).supports_session_resume:
            await trio.sleep(SETTLE_S)
            talker.resume()
            talker.send(Heartbeat())
            await talker.heard.wait_for(SessionHeartbeatAck)
            assert talker.gapless, "events were lost, or came twice"
        else:
            end = await talker.handle.wait_closed()
            assert end.reason == "disconnect", f"it ended as {end.reason}"
        await finish(omni, talker)


async def server_vad_is_offered_or_refused(room: Room) -> None:
    """With a detector a session takes server VAD, at whatever rate the model hears; else its client is told."""
    pipeline = room.make_pipeline()
    offered = pipeline.build_vad_worker() is not None
    async with room.engine() as omni:
        talker = await open_talker(omni, patch={"turn_detection": {"type": "server_vad"}})
        await talker.pause(1.0)
        await trio.sleep(SETTLE_S)
        told = [event.error.code for event in talker.heard.of(ErrorEvent)]
        assert told == ([] if offered else ["server_vad_unavailable"]), f"the client was told {told}"
        await finish(omni, talker)


async def knobs_are_read_or_refused(room: Room) -> None:
    """Any `extra_body` either opens a session or is refused with the code for it."""
    async with room.engine() as omni:
        refusal = None
        talkers = []
        try:
            patch = {"turn_detection": None, "extra_body": {"no_such_knob": 1}}
            talkers.append(await open_talker(omni, patch=patch))
        except RealtimeError as error:
            refusal = error.code
        assert refusal in (None, "invalid_duplex_runtime_config"), f"it is refused with {refusal}"
        await finish(omni, *talkers)


async def _refused(talker: Talker, command: DuplexCommand, code: str, param: str | None = None) -> None:
    before = len(talker.heard.of(ErrorEvent))
    talker.send(command)
    error = (await talker.heard.nth(ErrorEvent, before + 1)).error
    assert error.event_id == command.event_id, f"the refusal names {error.event_id!r}"
    assert error.code == code, f"it is refused with {error.code!r}, not {code!r}"
    if param is not None:
        assert error.param == param, f"the refusal names {error.param!r}, not {param!r}"


def _able(omni: DuplexOmni) -> DuplexCapabilities:
    return plugin_of(omni).capabilities(omni.statistics().max_sessions)


CHECKS = (
    barge_in_is_as_declared,
    written_turns_are_as_declared,
    images_are_as_declared,
    appends_are_as_declared,
    commands_are_as_declared,
    pictures_are_as_declared,
    turns_overlap_as_declared,
    tools_are_as_declared,
    its_context_is_locked_as_declared,
    lost_connections_are_as_declared,
    server_vad_is_offered_or_refused,
    knobs_are_read_or_refused,
)
