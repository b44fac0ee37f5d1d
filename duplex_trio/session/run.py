"""The task tree of one session.

    session[id]                   run: the supervisor; nothing escapes it
    |- egress                     empties the lanes; shielded, so that no event is cut in the middle
    |  |- replay                  sends a new attachment what it missed
    |  `- parting                 tells an attachment that it is not the session's any more
    `- tasks                      cancelled when the egress has said goodbye
       |- detector                has turns committed whose end was heard
       |- actor                   ordered decisions
       |- lease                   sleeps towards a deadline that activity moves
       |- idle                    waits for a user who says nothing
       |- playout                 waits for the sound of responses to have been played
       `- epochs                  one nursery after another; a cancellation ends the current one
          |- appender[epoch]      one turn, or one unit, at a time to the stages
          |- silence[epoch]       feeds a model that owns its turns while nobody else does
          `- pump[request]  x N   one for each live request

A failure in one session ends that session: `run_session` records it, tells the client, and returns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import trio

from duplex_trio.deploy import SessionLimits
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.plugin.resumable import ResumableModelPlugin
from duplex_trio.protocol.duplex import (
    Conversation as ConversationObject,
)
from duplex_trio.protocol.duplex import (
    ConversationCreated,
    DuplexEvent,
    OutputAudioBufferStarted,
    RealtimeError,
    SessionCreated,
    SessionUpdated,
)
from duplex_trio.protocol.duplex.session import DuplexSessionConfig
from duplex_trio.session.actor import SessionActor
from duplex_trio.session.attachment import Attachment, ResumableAttachment, ResumeGrant
from duplex_trio.session.client_items import ClientItems
from duplex_trio.session.commits import CommitFlow
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore, SessionEnd
from duplex_trio.session.delivery import Delivery
from duplex_trio.session.detector import SpeechDetector
from duplex_trio.session.dispatch import SessionDispatch
from duplex_trio.session.egress import Egress
from duplex_trio.session.handle import DuplexSessionHandle
from duplex_trio.session.idle import IdlePrompter
from duplex_trio.session.ingress import SessionIngress
from duplex_trio.session.opener import TurnOpener
from duplex_trio.session.overlap import OverlapJudge
from duplex_trio.session.playout import PlayoutWatch
from duplex_trio.session.port import DuplexStagePort
from duplex_trio.session.presence import Presence
from duplex_trio.session.signals import TurnSignals
from duplex_trio.session.state.egress_queue import MediaEntry
from duplex_trio.session.state.engine_session import DuplexEngineSession
from duplex_trio.session.state.function_call import advance_call
from duplex_trio.session.state.input import speech_stopped
from duplex_trio.session.state.items import seed_user_text
from duplex_trio.session.state.journal import EventJournal, EventNumbers
from duplex_trio.session.turn import Turn
from duplex_trio.session.turns import TurnFlow
from duplex_trio.session.units import UnitFlow
from duplex_trio.session.update import SessionUpdater, session_object
from duplex_trio.session.work import ResponseEndedWork
from duplex_trio.tracing import NO_SESSION_TRACE, SessionTrace


class DuplexSessionRunner:
    """The parts of one session, wired together, and the tasks that carry them."""

    def __init__(
        self,
        state: DuplexEngineSession,
        *,
        plugin: DuplexModelPlugin,
        port: DuplexStagePort,
        limits: SessionLimits,
        attachment: Attachment,
        trace: SessionTrace = NO_SESSION_TRACE,
    ) -> None:
        self.core = SessionCore(state, plugin=plugin, port=port, limits=limits, trace=trace)
        self.control = SessionControl(self.core)
        self.presence = Presence(self.core, self.control)
        self._grant = _grant(state, attachment)
        self.core.delivery = Delivery(
            state.session_id,
            attachment,
            numbers=_numbers(state, attachment, self._grant, limits),
            limits=limits,
            new_id=state.new_id,
            on_lost=self.presence.lost,
        )
        self.core.egress = Egress(
            self.core.delivery.deliver,
            ahead_ms=lambda: state.playout.ahead_ms(self.core.now_s),
            on_media_sent=self._media_sent,
            figures=self.core.figures,
            on_end_marker=self._end_marker,
            on_progress=self.core.progressed.unpark_all,
            limits=limits,
        )
        self.flow = TurnFlow(self.core, self.control)
        if isinstance(plugin, ResumableModelPlugin):
            self.core.units = UnitFlow(self.core, self.control, self.flow, plugin)
        updater = SessionUpdater(self.core, self._config_adopted)
        opener = TurnOpener(self.core, self.control, self.flow)
        commits = CommitFlow(self.core, self.control, self.flow, opener)
        items = ClientItems(self.core, opener)
        signals = TurnSignals(self.core, self.control)
        self.actor = SessionActor(self.core, self.control, commits, opener, updater, items, signals)
        overlap = OverlapJudge(self.core, self.control)
        self.detector = SpeechDetector(self.core, self.control, overlap, opener.prepare)
        ingress = SessionIngress(self.core, self.detector, overlap)
        self.idle = IdlePrompter(self.core, lambda: self.detector.scored)
        self.core.disarm_idle = self.idle.disarm
        self.core.attendance_changed = self.idle.attendance_changed
        self.core.transcribe_again = opener.transcribe_again
        self.core.on_stages_free = opener.stages_free
        self.core.begin_upcoming = opener.begin_upcoming
        self.core.on_prepared_transcript = self.detector.note_prepared_transcript
        self.core.prepare_anew = self.detector.prepare_anew
        dispatch = SessionDispatch(self.core, self.control, signals, ingress, self.detector)
        self.handle = DuplexSessionHandle(self.core, self.control, dispatch, self.presence)
        self._written = trio.Event()

    # ------------------------------------------------------------------ tasks

    async def run(
        self, *, task_status: trio.TaskStatus[DuplexSessionHandle] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Live through the session; see the module's tree. Raises nothing but `trio.Cancelled`."""
        core = self.core
        core.emit(self._opening())
        task_status.started(self.handle)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run_egress, name="egress")
                try:
                    await self._run_tasks()
                except* Exception as group:
                    # The supervisor of the session: whatever broke in it stays in it.
                    self._crashed(group)
                finally:
                    self.control.end(SessionEnd("server_shutdown", code=1001))
        finally:
            core.counters.leaked_requests += len(core.live_turns)
            core.state.state = "closed"
            core.ended.set()

    async def _run_egress(self) -> None:
        """Write until the last event is sent, then close; never cut in the middle of an event."""
        with self.core.egress_scope:
            if self._grant is None:
                await self._write()
            else:
                async with trio.open_nursery() as nursery:

                    def start(job: Callable[[], Awaitable[None]], name: str) -> None:
                        nursery.start_soon(self._carry, job, name=name)

                    self.core.delivery.use(start)
                    await self._write()
        self._written.set()

    async def _write(self) -> None:
        await self._carry(self.core.egress.run)
        await self._say_goodbye()

    async def _carry(self, job: Callable[[], Awaitable[None]]) -> None:
        try:
            await job()
        except Exception as error:
            self._crashed(error)

    async def _run_tasks(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.detector.run, name="detector")
            nursery.start_soon(self.actor.run, name="actor")
            nursery.start_soon(self._run_lease, name="lease")
            nursery.start_soon(self.idle.run, name="idle")
            nursery.start_soon(PlayoutWatch(self.core).run, name="playout")
            nursery.start_soon(self._run_epochs, name="epochs")
            await self._written.wait()
            nursery.cancel_scope.cancel()

    async def _run_epochs(self) -> None:
        core = self.core
        while True:
            epoch = core.state.epoch
            async with trio.open_nursery() as nursery:
                core.epoch_scope = nursery.cancel_scope
                await self._run_epoch(epoch, nursery)
            await trio.lowlevel.checkpoint()

    async def _run_epoch(self, epoch: int, nursery: trio.Nursery) -> None:
        units = self.core.units
        pump = self.flow.pump if units is None else units.pump

        def start_pump(turn: Turn) -> None:
            nursery.start_soon(pump, turn, name=f"pump[{turn.request_id}]")

        if self.core.state.epoch != epoch:
            return
        if units is None:
            await self.flow.append_turns(start_pump)
        else:
            nursery.start_soon(units.run_silence, name="silence")
            await units.append_units(start_pump)

    async def _run_lease(self) -> None:
        core, lease = self.core, self.core.state.lease
        while True:
            with trio.CancelScope(deadline=lease.deadline_s()) as scope:
                core.lease_scope = scope
                await trio.sleep_forever()
            reason = lease.expiry_reason(core.now_s)
            if reason is not None:
                self.control.expire(reason)
                return

    # ------------------------------------------------------------------ joints

    def _media_sent(self, entry: MediaEntry) -> DuplexEvent | None:
        core, state = self.core, self.core.state
        response = state.find_response(entry.response_id)
        if response is None:
            return None
        if entry.step is not None:
            # In the control lane, which is empty while media leaves, they are the next to go.
            core.emit(advance_call(state.conversation, response, entry.step))
            return None
        begins = entry.duration_ms > 0 and response.cursor.sent_ms == 0
        if begins:
            self.flow.note_first_audio(response)
            core.figures.first_sound(response)
        if entry.duration_ms > 0:
            state.note_sent(response, entry.duration_ms, core.now_s)
        response.note_sent(entry)
        if not begins:
            return None
        return OutputAudioBufferStarted(event_id=state.new_id("event_"), response_id=response.response_id)

    def _end_marker(self, response_id: str) -> None:
        core, state = self.core, self.core.state
        response = state.active
        if response is None or response.response_id != response_id:
            return
        core.counters.responses_completed += 1
        core.figures.response_done(response, "completed")
        core.emit(state.complete_response(response, core.now_s))
        core.playout_changed.unpark_all()
        core.touch()
        if core.units is not None:
            core.units.response_ended()
        self.idle.arm()
        self.actor.perform(ResponseEndedWork(response_id=response_id))

    def _config_adopted(self, before: DuplexSessionConfig, after: DuplexSessionConfig) -> None:
        if before.idle_timeout_s != after.idle_timeout_s:
            self.core.patience_changed.unpark_all()
        if before.turn_detection != after.turn_detection:
            self.idle.disarm()
            if before.turn_detection is None:
                # Speech that was heard without a detector ends here: the detector finds its own.
                self.core.emit(speech_stopped(self.core.state, self.core.state.timeline.end))
            self.detector.configure(after.turn_detection)

    def _opening(self) -> list[DuplexEvent]:
        state = self.core.state
        shown = session_object(state)
        created = SessionCreated(event_id=state.new_id("event_"), session=shown)
        if self._grant is not None:
            created = attrs.evolve(
                created,
                attachment_generation=self._grant.attachment_generation,
                resume_token=self._grant.resume_token,
            )
        events: list[DuplexEvent] = [created]
        if state.dialect == "duplex":
            events.append(SessionUpdated(event_id=state.new_id("event_"), session=shown))
        conversation = ConversationObject(id=state.conversation_id)
        events.append(ConversationCreated(event_id=state.new_id("event_"), conversation=conversation))
        return [*events, *seed_user_text(state, state.config.initial_user_text)]

    def _crashed(self, error: BaseException) -> None:
        self.core.log.exception("session.crashed", exc_info=error)
        self.control.fail(RealtimeError("internal_error", "the session failed"))

    async def _say_goodbye(self) -> None:
        core = self.core
        try:
            await core.egress.run()
            if core.end is not None:
                await core.delivery.close(core.end.code, core.end.reason)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            core.log.debug("session.goodbye_unheard")
        except Exception:
            # What cannot be written may be what the session broke of; it must not end the others.
            core.log.exception("session.goodbye_failed")


def _grant(state: DuplexEngineSession, attachment: Attachment) -> ResumeGrant | None:
    """What the client is told for a later resume; None if the session ends with its first attachment."""
    if state.dialect != "duplex" or not state.capabilities.supports_session_resume:
        return None
    return attachment.grant if isinstance(attachment, ResumableAttachment) else None


def _numbers(
    state: DuplexEngineSession, attachment: Attachment, grant: ResumeGrant | None, limits: SessionLimits
) -> EventNumbers | None:
    """What numbers the events; None where the dialect or the consumer has no place for numbers."""
    if grant is not None:
        return EventJournal(limits.journal_ttl_s, limits.journal_bytes_max)
    numbered = state.dialect == "duplex" and isinstance(attachment, ResumableAttachment)
    return EventNumbers() if numbered else None
