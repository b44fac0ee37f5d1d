"""The decisions of a session that keep the order of arrival: commits, items, responses, updates.

One task works through `SessionCore.work`. A command that was overtaken by a cancellation keeps its meaning: a
commit older than the cancel still commits, but the response it asked for is over before it began.
"""

from __future__ import annotations

import base64

import attrs
import numpy as np
import trio

from duplex_trio.protocol.duplex import (
    AppendText,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    InputAudioPart,
    MessageItem,
    RealtimeError,
    ResponseCreateOptions,
    ResponseListen,
    RetrieveItem,
    SignalTurn,
    TruncateItem,
    TurnEvent,
    UpdateSession,
)
from duplex_trio.protocol.duplex.audio import AudioInputDecoder, parse_format
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore
from duplex_trio.session.state.conversation import ConversationEntry
from duplex_trio.session.state.fence import stage_request_id, turn_role
from duplex_trio.session.state.input import commit_audio
from duplex_trio.session.state.items import (
    create_item,
    delete_item,
    item_announced,
    retrieve_item,
    truncate_item,
)
from duplex_trio.session.turn import Turn
from duplex_trio.session.turns import TurnFlow
from duplex_trio.session.update import SessionUpdater
from duplex_trio.session.work import CommandWork, ResponseEndedWork, SpeechEndedWork, Work
from duplex_trio.stages.units import Pcm


class SessionActor:
    """Ordered decisions of one session."""

    def __init__(
        self, core: SessionCore, control: SessionControl, flow: TurnFlow, updater: SessionUpdater
    ) -> None:
        self._core = core
        self._control = control
        self._flow = flow
        self._updater = updater

    async def run(self) -> None:
        """Work through the channel until cancelled."""
        async for work in self._core.work_receive:
            if not self._core.closing:
                self.perform(work)

    def perform(self, work: Work) -> None:
        """Carry out one piece of work; a refusal is told to the client."""
        event_id = work.command.event_id if isinstance(work, CommandWork) else None
        try:
            match work:
                case CommandWork():
                    self._perform_command(work)
                case SpeechEndedWork():
                    self._speech_ended(work)
                case ResponseEndedWork():
                    self._response_ended()
        except RealtimeError as error:
            self._core.refuse(error, event_id)

    # ------------------------------------------------------------------ commands

    def _perform_command(self, work: CommandWork) -> None:
        core, state = self._core, self._core.state
        match work.command:
            case Commit() as command:
                self._commit(command, work)
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

    def _commit(self, command: Commit, work: CommandWork) -> None:
        core, state = self._core, self._core.state
        if work.seq < core.input_floor:
            return
        self._control.discard_prepared()
        committed = commit_audio(
            state, state.timeline.start, work.audio_end, empty=command.is_speech is False
        )
        core.emit(committed.events)
        if command.is_speech is False:
            self._listen("silence_or_noise")
            return
        turn = self._new_turn(pcm=committed.pcm, item_id=committed.item_id)
        turn.timing.speech_end_s = turn.timing.committed_s = core.now_s
        wants_response = bool(command.response_create)
        if wants_response and state.active is not None:
            core.respond_when_done = True
            wants_response = False
        if wants_response:
            self._answer(turn, None, work.seq)
        else:
            self._transcribe(turn)

    def _create_response(self, command: CreateResponse, seq: int) -> None:
        state, options = self._core.state, command.options
        self._updater.check_response_options(options)
        outside = options.conversation == "none" or options.input is not None
        if not outside and not state.conversation and not (options.instructions or state.config.instructions):
            raise RealtimeError(
                "response_create_without_input", "there is nothing to answer: the conversation is empty"
            )
        if not state.capabilities.supports_text_only_turn and not state.conversation.pending_transcripts:
            raise RealtimeError("text_only_turn_unsupported", "the model answers speech only")
        self._answer(self._new_turn(pcm=None, item_id=None, options=options), options, seq)

    def _create_item(self, command: CreateItem) -> None:
        core, state = self._core, self._core.state
        item = command.item
        sound = _sound_of(item)
        if sound is None:
            core.emit(create_item(state, command))
            return
        pcm = self._decode_item(sound)
        assert isinstance(item, MessageItem)
        item = attrs.evolve(
            item,
            id=item.id or state.new_id("item_"),
            content=(InputAudioPart(transcript=sound.transcript),),
        )
        entry = ConversationEntry(item, sound.transcript or "", transcript_pending=not sound.transcript)
        previous = state.conversation.insert(entry, command.previous_item_id)
        core.emit(item_announced(state, item, previous))
        if not sound.transcript:
            self._transcribe(self._new_turn(pcm=pcm, item_id=item.id))

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

    # ------------------------------------------------------------------ turns

    def _speech_ended(self, work: SpeechEndedWork) -> None:
        core, state = self._core, self._core.state
        if work.seq < core.input_floor or work.end <= state.timeline.committed:
            return
        turn = core.prepared
        core.prepared = None
        if turn is not None and turn.failure is not None:
            turn = None
        empty = turn is not None and turn.silent
        committed = commit_audio(state, work.begin, work.end, empty=empty)
        core.emit(committed.events)
        if turn is None:
            turn = self._new_turn(pcm=committed.pcm, item_id=committed.item_id)
        else:
            turn.item_id = committed.item_id
            core.counters.speculations_adopted += 1
        turn.timing.speech_end_s = state.timeline.arrival_s(work.speech_end)
        turn.timing.committed_s = core.now_s
        if empty:
            turn.discard()
            self._flow.publish_transcript(turn)
            self._listen("silence_or_noise")
            return
        detection = state.config.turn_detection
        wants_response = detection is not None and detection.create_response
        if wants_response and state.active is not None:
            core.respond_when_done = True
            wants_response = False
        if wants_response:
            self._answer(turn, None, work.seq)
        elif turn.speculative:
            # What it would say is dropped: it has no response to say it in.
            self._expect_transcript(turn)
            self._flow.publish_transcript(turn)
            turn.released.set()
        else:
            self._transcribe(turn)

    def _response_ended(self) -> None:
        core = self._core
        if core.respond_when_done and core.state.active is None:
            core.respond_when_done = False
            self._answer(self._new_turn(pcm=None, item_id=None), None, core.command_seq + 1)

    def prepare(self, begin: int, end: int) -> None:
        """Compute an answer to speech that may be over, and hold it until it is known to be."""
        core, state = self._core, self._core.state
        if state.active is not None or core.prepared is not None:
            return
        turn = self._new_turn(pcm=state.timeline.read(begin, end), item_id=None)
        turn.speculative = True
        try:
            core.turns.send_nowait(turn)
        except trio.WouldBlock:
            return
        core.prepared = turn
        core.counters.speculations_started += 1

    def _answer(self, turn: Turn, options: ResponseCreateOptions | None, seq: int) -> None:
        core, state = self._core, self._core.state
        response = state.begin_response(turn.turn_id, options, core.now_s)
        core.emit(response.opening())
        turn.response = response
        core.speaking = turn
        self._expect_transcript(turn)
        turn.released.set()
        if turn.speculative:
            self._flow.publish_transcript(turn)
        if seq < core.cancel_floor:
            self._control.cancel("client_cancelled")
        elif not turn.speculative:
            self._enqueue(turn)

    def _transcribe(self, turn: Turn) -> None:
        turn.respond = False
        self._expect_transcript(turn)
        turn.released.set()
        self._enqueue(turn)

    def transcribe_again(self, turn: Turn) -> None:
        """Make the transcript of a turn that was cancelled before it had one: what the user said stays said."""
        if turn.item_id is not None and not self._core.closing:
            self._transcribe(self._new_turn(pcm=turn.pcm, item_id=turn.item_id))

    def _expect_transcript(self, turn: Turn) -> None:
        if turn.item_id is not None and turn.pcm is not None:
            self._core.transcribing[turn.item_id] = turn

    def _enqueue(self, turn: Turn) -> None:
        core = self._core
        try:
            core.turns.send_nowait(turn)
        except trio.WouldBlock:
            self._flow.fail(
                turn,
                RealtimeError(
                    "input_backpressure", f"{core.limits.pending_turns_max} turns wait for the model already"
                ),
            )

    def _new_turn(
        self, *, pcm: Pcm | None, item_id: str | None, options: ResponseCreateOptions | None = None
    ) -> Turn:
        state = self._core.state
        turn_id = state.next_turn()
        return Turn(
            turn_id=turn_id,
            epoch=state.epoch,
            request_id=stage_request_id(state.session_id, state.epoch, turn_role(turn_id)),
            pcm=pcm,
            item_id=item_id,
            options=options,
            awaits=state.conversation.pending_transcripts if pcm is None else frozenset(),
        )

    def _listen(self, reason: str) -> None:
        state = self._core.state
        self._core.emit(
            [
                ResponseListen.because(
                    reason, session_id=state.session_id, epoch=state.epoch, event_id=state.new_id("event_")
                )
            ]
        )


def _sound_of(item: object) -> InputAudioPart | None:
    if isinstance(item, MessageItem):
        for part in item.content:
            if isinstance(part, InputAudioPart) and part.audio:
                return part
    return None
