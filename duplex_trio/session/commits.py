"""Commits of the user's sound: by the client, by the detector, or by the clock; and answers that wait.

What a commit comes to is decided by `state.commit_policy`; this carries it out. Sound committed while a
response is in progress becomes an item at once, and all that was committed meanwhile is answered together
when that response is done. If it is cut or fails instead, nothing begins by itself: the items stay in the
conversation, and the next response answers them.
"""

from __future__ import annotations

from duplex_trio.protocol.duplex import Commit, InputAudioBufferTimeoutTriggered, RealtimeError
from duplex_trio.protocol.duplex.session import ServerVad
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore
from duplex_trio.session.opener import TurnOpener
from duplex_trio.session.state.commit_policy import CommitAction, CommitSituation, decide_commit
from duplex_trio.session.state.endpointing import EndpointingParams
from duplex_trio.session.state.heard_input import HeardInput
from duplex_trio.session.state.input import commit_acknowledgement, commit_audio, listening
from duplex_trio.session.turn import Turn
from duplex_trio.session.turns import TurnFlow
from duplex_trio.session.work import CommandWork, IdleWork, SpeechEndedWork


class CommitFlow:
    """Commits of one session."""

    def __init__(
        self, core: SessionCore, control: SessionControl, flow: TurnFlow, opener: TurnOpener
    ) -> None:
        self._core = core
        self._control = control
        self._flow = flow
        self._opener = opener

    # ------------------------------------------------------------------ by the client

    def by_hand(self, command: Commit, work: CommandWork) -> None:
        """`input_audio_buffer.commit`.

        Raises:
            RealtimeError: `input_audio_buffer_commit_empty`.
        """
        core, state = self._core, self._core.state
        if work.seq < core.input_floor:
            return
        heard = work.heard
        assert heard is not None, "a commit arrives with what it is about"
        action = decide_commit(
            CommitSituation(
                owns_turns=core.units is not None,
                has_audio=work.audio_end > state.timeline.committed,
                heard_speech=heard.may_hold_speech,
                stated_speech=command.is_speech,
                asks=bool(command.response_create),
                response_active=state.active is not None,
                playing=heard.playing,
                overlap_speech_ms=heard.overlap_speech_ms,
                speech_ms=heard.speech_ms,
                short_ack_ms=state.config.overlap_short_ack_ms,
            )
        )
        if action in (CommitAction.REFUSE_EMPTY, CommitAction.SILENT) and self._shows_something():
            self._control.discard_prepared()
            self._commit_frames(work)
            return
        if action is CommitAction.REFUSE_EMPTY:
            raise RealtimeError(
                "input_audio_buffer_commit_empty",
                "nothing was appended to the input audio buffer since the last commit",
            )
        self._control.discard_prepared()
        core.disarm_idle()
        if core.units is not None:
            self._hear_out(action, heard, work.audio_end)
        elif action is CommitAction.ACKNOWLEDGE:
            core.emit(commit_acknowledgement(state, work.audio_end))
        else:
            self._commit(action, heard, work)

    def _hear_out(self, action: CommitAction, heard: HeardInput, end: int) -> None:
        """A model that owns its turns hears the end of the user's."""
        core, state = self._core, self._core.state
        committed = commit_audio(
            state,
            state.timeline.start,
            end,
            empty=action is CommitAction.COMMIT_ONLY,
            untold=True,
            transcript=self._words_of(heard),
        )
        core.emit(committed.events)
        assert core.units is not None
        untold = not committed.told and action is not CommitAction.COMMIT_ONLY
        core.units.commit(committed.item_id if untold else None)

    def _commit(self, action: CommitAction, heard: HeardInput, work: CommandWork) -> None:
        core, state = self._core, self._core.state
        silent, deferred = action is CommitAction.SILENT, action is CommitAction.DEFER_ACTIVE_RESPONSE
        committed = commit_audio(
            state,
            state.timeline.start,
            work.audio_end,
            empty=silent,
            transcript=self._words_of(heard),
            deferred=deferred,
            asks=work.asks,
        )
        core.emit(committed.events)
        if silent:
            core.emit(listening(state, "silence_or_noise"))
            return
        if committed.told:
            # Its words are in the conversation: an answer to that answers them.
            turn = self._opener.new_turn() if work.asks and not deferred else None
        else:
            turn = self._opener.new_turn(pcm=committed.pcm, item_id=committed.item_id)
        if turn is not None:
            turn.timing.speech_end_s = turn.timing.committed_s = core.now_s
        self._begin(turn, committed.item_id, asks=work.asks, deferred=deferred, seq=work.seq)

    def _words_of(self, heard: HeardInput) -> str | None:
        """The client's words, unless no conversation has room for them."""
        words = heard.transcript
        return None if words is None or len(words) > self._core.limits.conversation_chars_max else words

    def _shows_something(self) -> bool:
        state = self._core.state
        needs_sound = "audio" in state.capabilities.required_input_modalities
        return self._core.units is None and not needs_sound and state.frames.held_bytes > 0

    def _commit_frames(self, work: CommandWork) -> None:
        """A user who shows something and says nothing has a turn too, of a model that need not hear."""
        core, state = self._core, self._core.state
        core.disarm_idle()
        committed = commit_audio(
            state, state.timeline.start, work.audio_end, empty=True, answered=work.asks, asks=work.asks
        )
        core.emit(committed.events)
        if not work.asks:
            return
        turn = self._opener.new_turn()
        turn.timing.committed_s = core.now_s
        if state.active is None:
            self._opener.take_up(turn, respond=True, seq=work.seq)
        elif not self._opener.hold(turn):
            state.deferred.add(committed.item_id, wanted=True)

    # ------------------------------------------------------------------ by the detector

    def speech_ended(self, work: SpeechEndedWork) -> None:
        """The detector found the end of the user's turn."""
        core, state = self._core, self._core.state
        if work.seq < core.input_floor or work.end <= state.timeline.committed:
            return
        turn, core.prepared = core.prepared, None
        if turn is not None and turn.failure is not None:
            turn = None
        action = decide_commit(self._situation_of(work, turn))
        if action is CommitAction.ACKNOWLEDGE:
            core.emit(commit_acknowledgement(state, work.end))
            self._throw_away(turn)
        else:
            self._commit_speech(action, turn, work)
        state.heard.restart()

    def _situation_of(self, work: SpeechEndedWork, turn: Turn | None) -> CommitSituation:
        core, state = self._core, self._core.state
        detection = state.config.turn_detection
        # The turn begins with what was kept in front of its speech.
        timing = detection if isinstance(detection, ServerVad) else EndpointingParams()
        spoken_ms = (work.speech_end - work.begin) * 1000 / state.timeline.sample_rate_hz
        speech_ms = max(0.0, spoken_ms - timing.prefix_padding_ms)
        return CommitSituation(
            owns_turns=False,
            has_audio=True,
            heard_speech=turn is None or not turn.silent,
            asks=work.asks,
            response_active=state.active is not None,
            playing=state.spoken_over(core.now_s),
            overlap_speech_ms=speech_ms if state.heard.over_response else 0.0,
            speech_ms=speech_ms,
            short_ack_ms=state.config.overlap_short_ack_ms,
        )

    def _commit_speech(self, action: CommitAction, turn: Turn | None, work: SpeechEndedWork) -> None:
        core, state = self._core, self._core.state
        silent, deferred = action is CommitAction.SILENT, action is CommitAction.DEFER_ACTIVE_RESPONSE
        committed = commit_audio(state, work.begin, work.end, empty=silent, deferred=deferred, asks=work.asks)
        core.emit(committed.events)
        if turn is None:
            turn = self._opener.new_turn(pcm=committed.pcm, item_id=committed.item_id)
        else:
            turn.item_id = committed.item_id
            core.counters.speculations_adopted += 1
        turn.timing.speech_end_s = state.timeline.arrival_s(work.speech_end)
        turn.timing.committed_s = core.now_s
        if silent:
            turn.discard()
            self._opener.expect_transcript(turn)
            self._flow.publish_transcript(turn)
            core.emit(listening(state, "silence_or_noise"))
            return
        self._begin(turn, committed.item_id, asks=work.asks, deferred=deferred, seq=work.seq)

    def _throw_away(self, turn: Turn | None) -> None:
        if turn is not None:
            turn.discard()
            self._core.counters.speculations_discarded += 1

    def _begin(self, turn: Turn | None, item_id: str, *, asks: bool, deferred: bool, seq: int) -> None:
        """Begin what a commit calls for: an answer now, or its transcript now and an answer later."""
        if deferred:
            if asks and turn is not None and self._opener.hold(turn):
                return
            self._core.state.deferred.add(item_id, wanted=asks)
        if turn is not None:
            self._opener.take_up(turn, respond=asks and not deferred, seq=seq)

    # ------------------------------------------------------------------ by the clock, and by a response's end

    def user_is_silent(self, work: IdleWork) -> None:
        """The user has said nothing for as long as the session waits."""
        core, state = self._core, self._core.state
        if work.withdrawn.is_set() or work.seq < core.input_floor:
            return
        if state.active is not None or state.speech_open:
            return
        committed = commit_audio(state, work.begin, work.end, empty=True, answered=True)
        triggered = InputAudioBufferTimeoutTriggered(
            event_id=state.new_id("event_"),
            audio_start_ms=state.timeline.position_ms(work.begin),
            audio_end_ms=state.timeline.position_ms(work.end),
            item_id=committed.item_id,
        )
        core.emit([triggered, *committed.events])
        self._opener.answer(self._opener.new_turn(), None, work.seq)

    def response_ended(self) -> None:
        """A response is done: answer what was committed meanwhile.

        Speech that goes on is no longer spoken over anything.
        """
        core, state = self._core, self._core.state
        state.heard.end_overlap()
        self._opener.begin_upcoming()
        if state.active is not None:
            return  # what was said behind the turn that is answered now waits for its end in turn
        wanted = state.deferred.wanted
        found = [state.conversation.find(item_id) for item_id in state.deferred.item_ids]
        state.deferred.clear()
        said = [entry for entry in found if entry is not None]
        if wanted and (self._shows_something() or any(e.text or e.transcript_pending for e in said)):
            self._opener.answer(self._opener.new_turn(), None, core.command_seq + 1)
        elif wanted and said:
            core.emit(listening(state, "silence_or_noise"))
