"""The decisions of a session that keep the order of arrival: commits, items, responses, updates.

One task works through `SessionCore.work`. A command that was overtaken by a cancellation keeps its meaning: a
commit older than the cancel still commits, but the response it asked for is over before it began.
"""

from __future__ import annotations

from duplex_trio.protocol.duplex import (
    AppendText,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    RealtimeError,
    RetrieveItem,
    SignalTurn,
    TruncateItem,
    UpdateSession,
)
from duplex_trio.session.client_items import ClientItems
from duplex_trio.session.commits import CommitFlow
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore
from duplex_trio.session.opener import TurnOpener
from duplex_trio.session.signals import TurnSignals
from duplex_trio.session.state.items import (
    check_pictures_of_input,
    delete_item,
    retrieve_item,
    truncate_item,
)
from duplex_trio.session.update import SessionUpdater
from duplex_trio.session.work import CommandWork, IdleWork, ResponseEndedWork, SpeechEndedWork, Work


class SessionActor:
    """Ordered decisions of one session."""

    def __init__(
        self,
        core: SessionCore,
        control: SessionControl,
        commits: CommitFlow,
        opener: TurnOpener,
        updater: SessionUpdater,
        items: ClientItems,
        signals: TurnSignals,
    ) -> None:
        self._core = core
        self._control = control
        self._commits = commits
        self._opener = opener
        self._updater = updater
        self._items = items
        self._signals = signals

    async def run(self) -> None:
        """Work through the channel until cancelled."""
        async for work in self._core.work_receive:
            self._core.asked -= work.asks
            self.perform(work)
            if isinstance(work, SpeechEndedWork):
                work.done.set()
            self._core.progressed.unpark_all()

    def perform(self, work: Work) -> None:
        """Carry out one piece of work, unless the session ends; a refusal is told to the client."""
        if self._core.closing:
            return
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
                self._items.create(command)
            case DeleteItem() as command:
                core.emit(delete_item(state, command))
            case RetrieveItem() as command:
                core.emit(retrieve_item(state, command))
            case TruncateItem() as command:
                core.emit(truncate_item(state, command))
            case UpdateSession() as command:
                self._updater.update(command)
            case SignalTurn() as command:
                self._signals.perform(command)
            case AppendText():
                raise RealtimeError(
                    "native_text_append_unsupported", "the model takes no text while it listens"
                )
            case other:
                raise AssertionError(f"{type(other).__name__} is handled as it arrives")
        changes = isinstance(work.command, CreateItem | DeleteItem | TruncateItem | UpdateSession)
        if changes and core.prepared is not None:
            # It does not know of that.
            self._control.discard_prepared()
            core.prepare_anew()

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
            check_pictures_of_input(state, options.input)
        state.refuse_second_response()
        self._opener.answer(self._opener.new_turn(options=options), options, seq)
