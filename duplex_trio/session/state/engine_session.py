"""The one authority over a session: its header and its ledgers, and the transitions that couple them.

Everything here is synchronous and takes the time as an argument; a transition is atomic because nothing in it
can wait. It returns the events that tell the client about it, in order, and leaves what must happen elsewhere
(aborting stage requests, dropping queued media, cancelling scopes) to its caller, who learns of it from
`Cancellation`.

The epoch is the generation of the assistant's voice: each cancellation raises it, and whatever was made for
an older one is stale from then on. It never falls.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import Factory, define, field, frozen

from duplex_trio.deploy import SessionLimits
from duplex_trio.pipelines.stage_metrics import StageMetrics
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex import (
    DuplexEvent,
    DuplexExtension,
    Modality,
    OutputAudioBufferCleared,
    RealtimeError,
    ResponseCreateOptions,
    StatusDetails,
    StatusError,
)
from duplex_trio.protocol.duplex.session import DuplexSessionConfig
from duplex_trio.protocol.sampling import Sampling
from duplex_trio.session.state.append_ledger import AppendLedger
from duplex_trio.session.state.conversation import Conversation, ConversationEntry
from duplex_trio.session.state.fence import DuplexFence
from duplex_trio.session.state.frame_slot import FrameSlot
from duplex_trio.session.state.function_call import close_call
from duplex_trio.session.state.heard_input import DeferredCommits, InputLedger
from duplex_trio.session.state.input_timeline import InputTimeline
from duplex_trio.session.state.lease import DuplexLeaseState
from duplex_trio.session.state.playback import PlayoutClock
from duplex_trio.session.state.response import FinalStatus, NewId, Response
from duplex_trio.session.state.response_events import closing, message_opening
from duplex_trio.session.state.response_start import modalities_of, new_response

CancelReason = Literal[
    "client_cancelled", "barge_in", "turn_detected", "output_audio_buffer_clear", "session_closed"
]
TurnState = Literal[
    "idle", "user_speaking", "user_committed", "assistant_generating", "assistant_playing", "barge_in"
]
ACK_SLACK_S = 2.0
"""How long after its estimated end a response without acknowledgements still counts as being played."""


@frozen
class Cancellation:
    """What a cancellation did: everything below `epoch` is stale; `events` tell the client."""

    epoch: int
    events: Sequence[DuplexEvent]


@define(eq=False, kw_only=True)
class DuplexEngineSession:
    """All state of one session."""

    session_id: str
    dialect: Literal["ga", "beta", "duplex"]
    config: DuplexSessionConfig
    capabilities: DuplexCapabilities
    lease: DuplexLeaseState
    timeline: InputTimeline
    output_sample_rate_hz: int
    new_id: NewId
    conversation_id: str
    model_name: str
    limits: SessionLimits = field(factory=SessionLimits)
    default_voice: str | None = None
    stretches_speech: bool = False
    runtime_config: Mapping[str, Any] = field(factory=dict)
    model_state: Any = None
    sampling: Sampling = field(factory=Sampling)
    frames: FrameSlot = field(
        default=Factory(lambda self: FrameSlot(self.limits.video_frames_max), takes_self=True)
    )
    state: Literal["open", "closing", "closed"] = "open"
    turn_state: TurnState = "idle"
    epoch: int = 0
    turn_id: int = 0
    commit_seq: int = 0
    config_generation: int = 0
    context_locked: bool = False
    voice_spoken: bool = False
    playback_acked: bool = False
    input_item_id: str | None = None
    speech_open: bool = False
    active: Response | None = None
    heard: InputLedger = field(factory=InputLedger)
    deferred: DeferredCommits = field(
        default=Factory(lambda self: DeferredCommits(self.limits.conversation_items_max), takes_self=True)
    )
    appends: AppendLedger = field(
        default=Factory(lambda self: AppendLedger(DuplexFence(self.session_id, 0, 0)), takes_self=True)
    )
    conversation: Conversation = field(
        default=Factory(lambda self: Conversation(self.limits), takes_self=True)
    )
    playout: PlayoutClock = field(factory=PlayoutClock)
    held_metrics: StageMetrics = field(factory=StageMetrics)
    _ended: OrderedDict[str, Response] = field(factory=OrderedDict)

    @property
    def fence(self) -> DuplexFence:
        """The current point in the session's history of turns."""
        return DuplexFence(self.session_id, self.epoch, self.turn_id)

    @property
    def acks_playback(self) -> bool:
        """Whether heard text follows the client's acknowledgements and not the server's estimate."""
        return self.config.playback_commit_policy == "ack_only"

    def adopt_runtime_config(self, changed: Mapping[str, Any] | None) -> None:
        """Take what a hook of the model made of its configuration; nothing for None."""
        if changed is not None:
            self.runtime_config = changed
            self.config_generation += 1

    def next_turn(self) -> int:
        """Begin a model turn and return its number."""
        self.turn_id += 1
        return self.turn_id

    # ------------------------------------------------------------------ responses

    def begin_response(
        self,
        turn_id: int,
        options: ResponseCreateOptions | None,
        now_s: float,
        *,
        perhaps_a_call: bool = False,
    ) -> Response:
        """Make the active response.

        Args:
            turn_id: the turn that makes it.
            options: what the client wants of it.
            now_s: the session's clock.
            perhaps_a_call: it may be nothing but calls, so it has no message before there is something to say.

        Raises:
            RealtimeError: `conversation_already_has_active_response`.
        """
        self.refuse_second_response()
        response = new_response(self, turn_id, options, now_s)
        self.held_metrics = StageMetrics()
        if response.conversation_id is not None:
            self.conversation.mark_answered()
        if not perhaps_a_call:
            self._add_message(response)
        self.active = response
        self.turn_state = "assistant_generating"
        return response

    def open_message(self, response: Response) -> list[DuplexEvent]:
        """The response is about to say something: it gets its message, unless it has it."""
        if response.message_index is not None:
            return []
        self._add_message(response)
        return message_opening(response)

    def _add_message(self, response: Response) -> None:
        response.message_index = response.next_output_index()
        if response.conversation_id is not None:
            item = response.shown_item("")
            entry = ConversationEntry(item, response_id=response.response_id, answered=True)
            response.previous_item_id = self.conversation.insert(entry, make_room=True)

    def refuse_second_response(self) -> None:
        """There is one active response at a time.

        Raises:
            RealtimeError: `conversation_already_has_active_response`.
        """
        if self.active is not None:
            raise RealtimeError(
                "conversation_already_has_active_response",
                f"response {self.active.response_id} is still in progress; cancel it or wait for response.done",
            )

    def response_modalities(self, options: ResponseCreateOptions | None) -> tuple[Modality, ...]:
        """The modalities of a response: its own, else the session's."""
        return modalities_of(self.config, options)

    def find_response(self, response_id: str) -> Response | None:
        """The active response or a recently ended one."""
        if self.active is not None and self.active.response_id == response_id:
            return self.active
        return self._ended.get(response_id)

    def responses_newest_first(self) -> list[Response]:
        """The active response and the recently ended ones."""
        return [*([self.active] if self.active is not None else []), *reversed(self._ended.values())]

    @property
    def last_response(self) -> Response | None:
        """The active response, else the one that ended last."""
        return self.active or (next(reversed(self._ended.values())) if self._ended else None)

    def note_sent(self, response: Response, duration_ms: float, now_s: float) -> None:
        """Sound of a response is on its way to the client."""
        self.playout.send(duration_ms, now_s)
        response.play_end_s = self.playout.play_end_s
        self.turn_state = "assistant_playing"
        self.voice_spoken = True

    def heard_ms(self, response: Response, now_s: float) -> float:
        """How much of a response's sound was heard by now.

        Acknowledged, or estimated where nobody acknowledges.
        """
        cursor = response.cursor
        if self.acks_playback:
            return cursor.heard_ms
        played = max(0.0, cursor.sent_ms - max(0.0, (response.play_end_s - now_s) * 1000))
        return played if cursor.hard_cap_ms is None else min(played, cursor.hard_cap_ms)

    def complete_response(self, response: Response, now_s: float) -> list[DuplexEvent]:
        """The model has said everything and all of it was sent."""
        details: StatusDetails | None = StatusDetails(type="completed")
        status: FinalStatus = "completed"
        if response.listened:
            details = None
        elif response.finish_reason == "length":
            status, details = "incomplete", StatusDetails(type="incomplete", reason="max_output_tokens")
        shown_text = response.text
        if response.cursor.hard_cap_ms is not None:
            shown_text = response.heard_text(self.heard_ms(response, now_s))
        return self._close(response, status, details, shown_text, now_s)

    def fail_response(self, response: Response, error: RealtimeError, now_s: float) -> list[DuplexEvent]:
        """The response ends because something failed.

        What was said meanwhile is not answered by itself; the next response does it.
        """
        self.deferred.clear()
        status_error = StatusError(type=error.error_class, code=error.code, message=error.message)
        details = StatusDetails(type="failed", error=status_error)
        return self._close(
            response, "failed", details, response.heard_text(self.heard_ms(response, now_s)), now_s
        )

    def cancel(self, reason: CancelReason, now_s: float) -> Cancellation:
        """Raise the epoch.

        End the active response, and name every response whose sound is still being played.
        """
        response = self.active
        shown = response.heard_text(self.heard_ms(response, now_s)) if response is not None else ""
        self.epoch += 1
        self.appends.raise_epoch(self.fence)
        self.heard.end_overlap()
        self.deferred.clear()
        events: list[DuplexEvent] = self.clear_playback(now_s)
        self.turn_state = "barge_in"
        if response is not None:
            wire_reason: Literal["turn_detected", "client_cancelled"] = (
                "turn_detected" if reason == "turn_detected" else "client_cancelled"
            )
            details = StatusDetails(type="cancelled", reason=wire_reason)
            events += self._close(response, "cancelled", details, shown, now_s, cancel_reason=reason)
            self.turn_state = "barge_in"
        return Cancellation(self.epoch, events)

    def clear_playback(self, now_s: float) -> list[DuplexEvent]:
        """Tell the client to stop playing; names every response with unplayed sound, oldest first."""
        events: list[DuplexEvent] = [self.stop_playing(response, now_s) for response in self.unplayed(now_s)]
        self.playout.clear()
        return events

    def stop_playing(self, response: Response, now_s: float) -> OutputAudioBufferCleared:
        """Tell the client to stop playing one response; what it has not heard by now it will not hear."""
        if response is not self.active and not response.cleared:
            self._credit(response, self.heard_ms(response, now_s))
        self._move_up(response, now_s)
        response.play_end_s = float("-inf")
        response.cleared = True
        return self.cleared_event(response.response_id)

    def cleared_event(self, response_id: str | None) -> OutputAudioBufferCleared:
        """The event that tells a client to stop playing a response."""
        return OutputAudioBufferCleared(
            event_id=self.new_id("event_"),
            response_id=response_id,
            duplex=DuplexExtension(epoch=self.epoch, turn_id=self.turn_id),
        )

    def unplayed(self, now_s: float) -> list[Response]:
        """Responses whose sound the client is still playing, oldest first."""
        candidates = [*self._ended.values(), *([self.active] if self.active is not None else [])]
        return [response for response in candidates if self._is_playing(response, now_s)]

    def interruptible(self, now_s: float) -> bool:
        """Whether there is something that a barge-in would interrupt."""
        if self.active is not None:
            return True
        # Asked with every append: nothing plays longer than the clock of all sound says.
        return now_s < self.playout.play_end_s + ACK_SLACK_S and bool(self.unplayed(now_s))

    def spoken_over(self, now_s: float) -> bool:
        """Whether what the user says now is said over a response.

        Of a client that has never acknowledged playback only the estimate is known, and no slack counts: what it
        would flush in vain is harmless, what would be taken for a listener's sign is lost.
        """
        if self.active is not None or now_s < self.playout.play_end_s:
            return True
        return self.playback_acked and self.interruptible(now_s)

    def credit_heard(self, response: Response) -> bool:
        """Let history follow a new playback position of an ended response; true if its item changed."""
        cursor = response.cursor
        if response.status is None or not (self.acks_playback or cursor.hard_cap_ms is not None):
            return False
        return self._credit(response, cursor.heard_ms)

    # ------------------------------------------------------------------ inner workings

    def _move_up(self, stopped: Response, now_s: float) -> None:
        """What was sent behind the sound of a response that is stopped is played earlier by what is left of it."""
        left_s = min(stopped.cursor.sent_ms / 1000, max(0.0, stopped.play_end_s - now_s))
        if left_s <= 0:
            return
        for response in self.responses_newest_first():
            if response.play_end_s > stopped.play_end_s:
                response.play_end_s -= left_s
        self.playout.play_end_s -= left_s

    def _is_playing(self, response: Response, now_s: float) -> bool:
        if response.cursor.sent_ms <= 0 or response.cleared:
            return False
        if self.acks_playback:
            return response.cursor.unheard and now_s < response.play_end_s + ACK_SLACK_S
        return response.play_end_s > now_s

    def _close(
        self,
        response: Response,
        status: FinalStatus,
        details: StatusDetails | None,
        shown_text: str,
        now_s: float,
        *,
        cancel_reason: str | None = None,
    ) -> list[DuplexEvent]:
        events = close_call(self.conversation, response)
        if not response.calls:
            events += self.open_message(response)
        response.end(status)
        entry = self._entry_of(response)
        if entry is None:
            response.item_deleted = True
        events += closing(
            response, details, epoch=self.epoch, shown_text=shown_text, cancel_reason=cancel_reason
        )
        self._ended[response.response_id] = response
        while len(self._ended) > self.limits.ended_responses_max:
            self._ended.popitem(last=False)
        if self.active is response:
            self.active = None
            self.turn_state = "idle"
        if entry is not None:
            self.conversation.replace_item(response.item_id, response.shown_item(shown_text))
            entry.text = shown_text.strip()
            if status in ("completed", "incomplete") and self.acks_playback and response.speaks:
                entry.text = response.heard_text(self.heard_ms(response, now_s))
        return events

    def _entry_of(self, response: Response) -> ConversationEntry | None:
        """The response's own item.

        A client may have deleted it, and may even have used its id for another one.
        """
        entry = self.conversation.find(response.item_id)
        return entry if entry is not None and entry.response_id == response.response_id else None

    def _credit(self, response: Response, heard_ms: float) -> bool:
        entry = self._entry_of(response)
        if entry is None:
            return False
        text = response.heard_text(heard_ms)
        if text == entry.text:
            return False
        entry.text = text
        if response.status != "completed" or response.cursor.hard_cap_ms is not None:
            self.conversation.replace_item(response.item_id, response.shown_item(text))
        return True
