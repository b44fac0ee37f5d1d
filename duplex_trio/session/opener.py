"""How turns begin: by a commit, by the end of speech, by a request, or ahead of all of them.

Each way makes a `Turn` and puts it in line for the appender of its epoch; what becomes of it there is
`turns`' business. A turn that answers gets its response here, so that the client learns of it at once.
"""

from __future__ import annotations

import trio

from duplex_trio.protocol.duplex import RealtimeError, ResponseCreateOptions
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore
from duplex_trio.session.planning import offered_tools
from duplex_trio.session.state.fence import stage_request_id, turn_role
from duplex_trio.session.state.response_events import opening
from duplex_trio.session.turn import Turn
from duplex_trio.session.turns import TurnFlow
from duplex_trio.stages.units import Pcm


class TurnOpener:
    """Begins the turns of one session."""

    def __init__(self, core: SessionCore, control: SessionControl, flow: TurnFlow) -> None:
        self._core = core
        self._control = control
        self._flow = flow

    def new_turn(
        self,
        *,
        pcm: Pcm | None = None,
        item_id: str | None = None,
        options: ResponseCreateOptions | None = None,
    ) -> Turn:
        """Make a turn of the current epoch; one without sound answers the conversation as it stands."""
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
            spells=self._core.trace.spells(),
        )

    def prepare(self, begin: int, end: int) -> None:
        """Compute an answer to speech that may be over, and hold it until it is known to be."""
        core, state = self._core, self._core.state
        if state.active is not None or core.prepared is not None:
            return
        turn = self.new_turn(pcm=state.timeline.read(begin, end))
        turn.frames = state.frames.peek()
        turn.speculative = turn.in_line = True
        try:
            core.turns.put_nowait(turn)
        except trio.WouldBlock:
            return
        core.prepared = turn
        core.counters.speculations_started += 1

    def take_up(self, turn: Turn, *, respond: bool, seq: int) -> None:
        """Begin the turn of a committed user item.

        Args:
            turn: the turn, prepared ahead or not.
            respond: whether it gets a response now.
            seq: the place of what asked for it among the client's commands.

        Raises:
            RealtimeError: `conversation_already_has_active_response`.
        """
        if respond:
            self.answer(turn, None, seq)
        elif turn.speculative:
            # What it would say is dropped: it has no response to say it in.
            self.expect_transcript(turn)
            self._flow.publish_transcript(turn)
            self._flow.let_speak(turn)
        else:
            self.transcribe(turn)

    def answer(self, turn: Turn, options: ResponseCreateOptions | None, seq: int) -> None:
        """Begin a response and the turn that makes it.

        If the client cancelled after it had asked, the response is over before it began.

        Raises:
            RealtimeError: `conversation_already_has_active_response`.
        """
        core, state = self._core, self._core.state
        tools, _ = offered_tools(core, options)
        response = state.begin_response(turn.turn_id, options, core.now_s, perhaps_a_call=bool(tools))
        self._give_frames(turn)
        core.disarm_idle()
        core.emit(opening(response))
        core.figures.response_created(response, prepared=turn.speculative)
        turn.respond_in(response)
        core.speaking = turn
        self.expect_transcript(turn)
        self._flow.let_speak(turn)
        if turn.speculative:
            self._flow.publish_transcript(turn)
        if seq < core.cancel_floor:
            self._control.cancel("client_cancelled")
        elif not turn.in_line:
            self._enqueue(turn)

    def transcribe(self, turn: Turn) -> None:
        """Begin a turn that only makes the transcript of its item."""
        turn.respond = False
        self.expect_transcript(turn)
        self._flow.let_speak(turn)
        self._enqueue(turn)

    def transcribe_again(self, turn: Turn) -> None:
        """Make the transcript of a turn that was cancelled before it had one: what the user said stays said."""
        if turn.item_id is not None and not self._core.closing:
            again = self.new_turn(pcm=turn.pcm, item_id=turn.item_id)
            again.replaces = True
            self.transcribe(again)

    def expect_transcript(self, turn: Turn) -> None:
        """From here on the turn owes the transcript of its item, if it has sound."""
        if turn.item_id is not None and turn.pcm is not None and not turn.told:
            self._core.transcribing[turn.item_id] = turn

    def _give_frames(self, turn: Turn) -> None:
        """What there is to see belongs to the turn that is answered; one that was prepared has seen some of it."""
        options = turn.options
        if options is not None and (options.conversation == "none" or options.input is not None):
            return
        if turn.frames is None:
            turn.frames = self._core.state.frames.take()
        elif turn.speculative:
            self._core.state.frames.forget(turn.frames)

    # ------------------------------------------------------------------ while another answer is spoken

    def hold(self, turn: Turn) -> bool:
        """Let a turn be the next one to be answered, if the model can work on it while it still speaks.

        False if it must wait for the end of the response, or of another turn that is held already. One turn
        at a time, in order of their commits: what comes behind it waits for the end of its answer.
        """
        core, speaking = self._core, self._core.speaking
        if (
            not core.state.capabilities.supports_concurrent_turn_requests
            or core.upcoming is not None
            or core.state.deferred.wanted
            or turn.in_line
            or speaking is None
            or speaking.response is not core.state.active
        ):
            return False
        core.upcoming = turn
        self._give_frames(turn)
        self.expect_transcript(turn)
        self.stages_free(speaking)
        return True

    def stages_free(self, turn: Turn) -> None:
        """A turn's request may have left the stages that the next turn enters: if so, that enters them."""
        core = self._core
        upcoming = core.upcoming
        if upcoming is None or upcoming.in_line or core.speaking is not turn or turn.answer_text is None:
            return
        self._enqueue(upcoming)

    def begin_upcoming(self) -> None:
        """Begin the response of the turn that was held while another one was in progress, if there is one."""
        core = self._core
        turn, core.upcoming = core.upcoming, None
        if turn is None or core.closing:
            return
        if turn.epoch != core.state.epoch and turn.failure is None:
            # Its request ended with the epoch. If its words are known they are in the conversation.
            again = self.new_turn() if turn.told else self.new_turn(pcm=turn.pcm, item_id=turn.item_id)
            again.replaces, again.frames, turn = True, turn.frames, again
        self.answer(turn, None, core.command_seq + 1)
        if turn.failure is not None and turn.response is not None:
            self._control.fail_response(turn.response, turn.failure)

    def _enqueue(self, turn: Turn) -> None:
        core = self._core
        turn.in_line = True
        try:
            core.turns.put_nowait(turn)
        except trio.WouldBlock:
            self._flow.fail(
                turn,
                RealtimeError(
                    "input_backpressure", f"{core.limits.pending_turns_max} turns wait for the model already"
                ),
            )
