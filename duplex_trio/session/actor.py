"""The decisions of a session that keep the order of arrival: commits, items, responses, updates.

One task works through `SessionCore.work`. A command that was overtaken by a cancellation keeps its meaning: a
commit older than the cancel still commits, but the response it asked for is over before it began.
"""

from __future__ import annotations

import base64

import attrs
import numpy as np

from duplex_trio.protocol.duplex import (
    AppendText,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    FunctionCallOutputItem,
    InputAudioPart,
    MessageItem,
    RealtimeError,
    RetrieveItem,
    SignalTurn,
    TruncateItem,
    TurnEvent,
    UpdateSession,
)
from duplex_trio.protocol.duplex.audio import AudioInputDecoder, parse_format
from duplex_trio.session.commits import CommitFlow
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore
from duplex_trio.session.model_config import answered_runtime_config
from duplex_trio.session.opener import TurnOpener
from duplex_trio.session.state.conversation import ConversationEntry
from duplex_trio.session.state.items import (
    check_call_output,
    check_item_id,
    create_item,
    delete_item,
    item_announced,
    refuse_unsupported,
    retrieve_item,
    truncate_item,
)
from duplex_trio.session.update import SessionUpdater
from duplex_trio.session.work import CommandWork, IdleWork, ResponseEndedWork, SpeechEndedWork, Work
from duplex_trio.stages.units import Pcm


class SessionActor:
    """Ordered decisions of one session."""

    def __init__(
        self,
        core: SessionCore,
        control: SessionControl,
        commits: CommitFlow,
        opener: TurnOpener,
        updater: SessionUpdater,
    ) -> None:
        self._core = core
        self._control = control
        self._commits = commits
        self._opener = opener
        self._updater = updater

    async def run(self) -> None:
        """Work through the channel until cancelled."""
        async for work in self._core.work_receive:
            self._core.asked -= work.asks
            if not self._core.closing:
                self.perform(work)
            if isinstance(work, SpeechEndedWork):
                work.done.set()
            self._core.progressed.unpark_all()

    def perform(self, work: Work) -> None:
        """Carry out one piece of work; a refusal is told to the client."""
        event_id = work.command.event_id if isinstance(work, CommandWork) else None
        try:
            match work:
                case CommandWork():
                    self._perform_command(work)
                case SpeechEndedWork():
                    self._commits.speech_ended(work)
                case ResponseEndedWork():
                    self._commits.response_ended()
                case IdleWork():
                    self._commits.user_is_silent(work)
        except RealtimeError as error:
            self._core.refuse(error, event_id)

    # ------------------------------------------------------------------ commands

    def _perform_command(self, work: CommandWork) -> None:
        core, state = self._core, self._core.state
        match work.command:
            case Commit() as command:
                self._commits.by_hand(command, work)
            case CreateResponse() as command:
                self._create_response(command, work.seq)
            case CreateItem() as command:
                self._create_item(command)
            case DeleteItem() as command:
                core.emit(delete_item(state, command))
            case RetrieveItem() as command:
                core.emit(retrieve_item(state, command))
            case TruncateItem() as command:
                core.emit(truncate_item(state, command))
            case UpdateSession() as command:
                self._updater.update(command)
            case SignalTurn() as command:
                self._signal(command)
            case AppendText():
                raise RealtimeError(
                    "native_text_append_unsupported", "the model takes no text while it listens"
                )
            case other:
                raise AssertionError(f"{type(other).__name__} is handled as it arrives")
        if isinstance(work.command, CreateItem | DeleteItem | TruncateItem | UpdateSession):
            # An answer that was prepared before does not know of it.
            self._control.discard_prepared()

    def _create_response(self, command: CreateResponse, seq: int) -> None:
        state, options = self._core.state, command.options
        if self._core.units is not None:
            raise RealtimeError("unsupported", "the model decides itself when to speak", param="type")
        self._updater.check_response_options(options)
        outside = options.conversation == "none" or options.input is not None
        if not outside and not state.conversation and not (options.instructions or state.config.instructions):
            raise RealtimeError(
                "response_create_without_input", "there is nothing to answer: the conversation is empty"
            )
        if not state.capabilities.supports_text_only_turn and not state.conversation.pending_transcripts:
            raise RealtimeError("text_only_turn_unsupported", "the model answers speech only")
        if options.input is not None:
            # Looked up again when the turn begins; here so that an unknown reference begins nothing.
            state.conversation.messages_of(options.input)
        state.refuse_second_response()
        self._opener.answer(self._opener.new_turn(options=options), options, seq)

    def _create_item(self, command: CreateItem) -> None:
        core, state = self._core, self._core.state
        item = command.item
        refuse_unsupported(state, item)
        sound = _sound_of(item)
        if isinstance(item, FunctionCallOutputItem):
            self._answer_call(command, item)
            return
        if sound is None:
            core.emit(create_item(state, command))
            return
        if core.units is not None:
            raise RealtimeError(
                "unsupported", "the model hears sound in the input buffer only", param="item.content[0]"
            )
        pcm = self._decode_item(sound)
        assert isinstance(item, MessageItem)
        item = attrs.evolve(
            item,
            id=item.id or state.new_id("item_"),
            content=(InputAudioPart(transcript=sound.transcript),),
        )
        check_item_id(item.id)
        entry = ConversationEntry(item, sound.transcript or "", transcript_pending=not sound.transcript)
        previous = state.conversation.insert(entry, command.previous_item_id)
        core.emit(item_announced(state, item, previous))
        if not sound.transcript:
            self._opener.transcribe(self._opener.new_turn(pcm=pcm, item_id=item.id))

    def _answer_call(self, command: CreateItem, item: FunctionCallOutputItem) -> None:
        core, state = self._core, self._core.state
        check_call_output(state, item)
        changed = answered_runtime_config(core.plugin, state.config, state.runtime_config, item)
        events = create_item(state, command)
        state.adopt_runtime_config(changed)
        core.emit(events)
        if core.units is not None:
            core.units.nudge()

    def _decode_item(self, sound: InputAudioPart) -> Pcm:
        declared = parse_format(
            sound.format,
            direction="input",
            rate=sound.sample_rate_hz,
            param="item.content[0].format",
            current=self._core.state.config.input_format,
            duplex_names=self._core.state.dialect == "duplex",
        )
        decoder = AudioInputDecoder(declared, self._core.plugin.input_sample_rate_hz)
        pcm = decoder.feed(base64.b64decode(sound.audio or ""))
        return np.concatenate([pcm, decoder.flush()])

    def _signal(self, command: SignalTurn) -> None:
        core, state = self._core, self._core.state
        if command.event in ("close", "timeout"):
            raise RealtimeError(
                "bad_event", f"use session.close to end a session, not {command.event!r}", param="event"
            )
        if command.event == "user_started":
            state.turn_state = "user_speaking"
        elif command.event == "user_committed":
            state.turn_state = "user_committed"
        elif command.event == "assistant_started":
            state.turn_state = "assistant_generating"
        elif command.event == "assistant_done" and state.active is None:
            state.turn_state = "idle"
        core.emit(
            [
                TurnEvent(
                    event_id=state.new_id("event_"),
                    session_id=state.session_id,
                    event=command.event,
                    turn_state=state.turn_state,
                    epoch=state.epoch,
                )
            ]
        )


def _sound_of(item: object) -> InputAudioPart | None:
    if isinstance(item, MessageItem):
        for part in item.content:
            if isinstance(part, InputAudioPart) and part.audio:
                return part
    return None
