"""What the tasks of one session share, and how events leave it. Behaviour is in the modules that use this."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import structlog
import trio
from attrs import frozen

from duplex_trio.deploy import SessionLimits
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.protocol.duplex import (
    DuplexEvent,
    ErrorEvent,
    RealtimeError,
    SessionClosed,
    SessionExpired,
)
from duplex_trio.session.counters import SessionCounters
from duplex_trio.session.delivery import Delivery
from duplex_trio.session.egress import Egress
from duplex_trio.session.figures import SessionFigures
from duplex_trio.session.port import DuplexStagePort
from duplex_trio.session.state.egress_queue import EgressOverflowError
from duplex_trio.session.state.engine_session import DuplexEngineSession
from duplex_trio.session.state.input import transcript_completed
from duplex_trio.session.turn import Turn
from duplex_trio.session.turn_queue import TurnQueue
from duplex_trio.session.work import Work
from duplex_trio.tracing import SessionTrace

if TYPE_CHECKING:
    from duplex_trio.session.units import UnitFlow

log = structlog.get_logger("duplex_trio.session")

CROWDED_SHARE = 0.25
"""How full a line may be before the reader waits. A command makes a handful of events, so what is taken from
there on still fits into the control lane."""


@frozen
class SessionEnd:
    """Why a session ended, and the WebSocket close code that says so."""

    reason: str
    code: int = 1000
    expired: bool = False


SLOW_READER = SessionEnd("slow_reader", code=1008)


def _ignore(_: object) -> None:
    """Until the session is wired, nobody is told."""


class SessionCore:
    """The shared parts of one session.

    Attributes:
        state: the ledgers; changed in synchronous code only.
        counters: what the session counts and measures.
        figures: takes what is measured, and writes the lines about it.
        trace: who traces the session.
        egress: everything for the client goes through it.
        delivery: who gets what has left the egress.
        work: the actor's channel.
        units: the flow of units of a model that owns its turns; None for one that answers turns.
        turns: turns on their way to the stages.
        live_turns: turns whose stage request is not released, by request id.
        prepared: the turn that was prepared ahead of the end of speech.
        upcoming: the committed turn whose answer follows the response in progress and may be computed
        meanwhile.
        command_seq: number of the last client command.
        client_event_count: messages of the client so far that it would have to send again if they were lost.
        last_client_event_id: what the client called the last of them.
        asked: how much of the work in line asks for a response.
        speaking: the turn that the latest response belongs to.
        transcribing: turns that owe the transcript of a committed user item, by item id.
        on_prepared_transcript: told what was said in a turn that was prepared ahead.
        prepare_anew: told when a prepared turn is of no use any more though the user may have finished.
        on_stages_free: told of a turn whose request left the stages that the next turn enters.
        begin_upcoming: begins the response of `upcoming`, if there is one, now that none is in progress.
        transcribe_again: makes the transcript of a turn that was cancelled before it had one.
        disarm_idle: told of everything for which a silent user need not be prompted.
        attendance_changed: told when the client has left or is there again.
        cancel_floor: commands below it asked for responses that were cancelled before they began.
        input_floor: commits below it took sound that was dropped.
        detects: whether the server itself finds out where speech begins and ends; kept by the detector.
        progressed: where the socket's reader waits while much of what it brought is still to be worked off.
        patience_changed: where who watches the client's silence waits to learn that it may last another time.
        playout_changed: where who watches the client's player waits to learn that it has more or less to play.
    """

    def __init__(
        self,
        state: DuplexEngineSession,
        *,
        plugin: DuplexModelPlugin,
        port: DuplexStagePort,
        limits: SessionLimits,
        trace: SessionTrace,
    ) -> None:
        self.state = state
        self.counters = SessionCounters()
        self.plugin = plugin
        self.units: UnitFlow | None = None
        self.port = port
        self.limits = limits
        self.egress: Egress
        self.delivery: Delivery
        self.work, self.work_receive = trio.open_memory_channel[Work](limits.pending_commands_max)
        self.turns = TurnQueue(limits.pending_turns_max)
        self.live_turns: dict[str, Turn] = {}
        self.prepared: Turn | None = None
        self.upcoming: Turn | None = None
        self.speaking: Turn | None = None
        self.transcribing: dict[str, Turn] = {}
        self.on_prepared_transcript: Callable[[str], None] = _ignore
        self.prepare_anew: Callable[[], None] = lambda: None
        self.on_stages_free: Callable[[Turn], None] = _ignore
        self.begin_upcoming: Callable[[], None] = lambda: None
        self.transcribe_again: Callable[[Turn], None] = _ignore
        self.disarm_idle: Callable[[], None] = lambda: None
        self.attendance_changed: Callable[[], None] = lambda: None
        self.command_seq = 0
        self.client_event_count = 0
        self.last_client_event_id: str | None = None
        self.asked = 0
        self.cancel_floor = 0
        self.input_floor = 0
        self.detects = False
        self.epoch_scope: trio.CancelScope | None = None
        self.lease_scope: trio.CancelScope | None = None
        self.egress_scope = trio.CancelScope(shield=True)
        self.end: SessionEnd | None = None
        self.ended = trio.Event()
        self.transcripts_settled = trio.lowlevel.ParkingLot()
        self.progressed = trio.lowlevel.ParkingLot()
        self.patience_changed = trio.lowlevel.ParkingLot()
        self.playout_changed = trio.lowlevel.ParkingLot()
        self.trace = trace
        self.log = log.bind(session_id=state.session_id, **trace.log_fields)
        self.figures = SessionFigures(self.counters, self.log, trace)

    @property
    def now_s(self) -> float:
        """The session's clock, in seconds."""
        return trio.current_time()

    @property
    def crowded(self) -> bool:
        """Whether so much waits for the actor or for the client that more commands would be refused soon."""
        commands, events = self.work.statistics().current_buffer_used, self.egress.queue.control_waiting
        limits = self.limits
        return (
            commands > CROWDED_SHARE * limits.pending_commands_max
            or events > CROWDED_SHARE * limits.control_events_max
        )

    @property
    def closing(self) -> bool:
        """Whether the session is on its way out."""
        return self.state.state != "open"

    def emit(self, events: Iterable[DuplexEvent]) -> None:
        """Send events ahead of media; nothing once the session has said that it ends.

        A client that no longer takes them ends the session.
        """
        if self.end is not None:
            return
        try:
            for event in events:
                self.egress.put(event)
        except EgressOverflowError as error:
            self.finish(SLOW_READER, why=str(error))

    def user_said(self, item_id: str, text: str, duration_s: float) -> None:
        """The words of a committed item of the user are known."""
        self.emit(transcript_completed(self.state, item_id, text, duration_s))
        self.figures.user_said(item_id, text)

    def count_client_event(self, event_id: str | None) -> None:
        """A message of the client has arrived that counts, whatever becomes of it."""
        self.client_event_count += 1
        self.last_client_event_id = event_id

    def refuse(self, error: RealtimeError, event_id: str | None = None) -> None:
        """Tell the client that something it sent was refused."""
        self.counters.commands_refused += 1
        self.log.info("command.refused", code=error.code, param=error.param, message=error.message)
        self.emit(
            [ErrorEvent.from_error(error.with_event_id(event_id), event_id=self.state.new_id("event_"))]
        )

    def finish(self, end: SessionEnd, *, why: str | None = None) -> None:
        """Let the session end; the first reason stands. What is queued for the client still goes out.

        Nothing is sent behind the terminal event that this queues.
        """
        if self.end is not None:
            return
        self.end = end
        # The end has a line of its own; here is what only this place knows.
        (self.log.info if why else self.log.debug)("session.ending", reason=end.reason, why=why)
        state = self.state
        state.state = "closing"
        state.lease.mark_terminal(end.reason)
        terminal = SessionExpired if end.expired else SessionClosed
        farewell = terminal(event_id=state.new_id("event_"), session_id=state.session_id, reason=end.reason)
        self.egress.finish(farewell)
        self.egress_scope.deadline = self.now_s + self.limits.goodbye_timeout_s
        self.progressed.unpark_all()

    def require_room_in_line(self) -> None:
        """Refuse a command that the actor has no room for, before anything is done about it.

        Raises:
            RealtimeError: `input_backpressure`.
        """
        waiting = self.work.statistics()
        if waiting.current_buffer_used >= waiting.max_buffer_size:
            raise RealtimeError(
                "input_backpressure", f"{self.limits.pending_commands_max} commands are waiting already"
            )

    def put_in_line(self, work: Work) -> None:
        """Give work to the actor, for which there is room."""
        self.work.send_nowait(work)
        self.asked += work.asks

    async def wait_in_line(self, work: Work) -> None:
        """Give work to the actor, waiting for room."""
        taken = False
        self.asked += work.asks
        try:
            await self.work.send(work)
            taken = True
        finally:
            if not taken:
                self.asked -= work.asks

    def touch(self, at_s: float | None = None) -> None:
        """Something happened that keeps the session alive, now or a moment ago."""
        lease = self.state.lease
        if lease.terminal_reason is None:
            lease.touch(self.now_s if at_s is None else at_s)
            self.reset_lease_deadline()

    def reset_lease_deadline(self) -> None:
        """Bring forward the deadline that the lease task sleeps towards; what moves it back, it finds when it
        wakes.

        Every append moves it back, and Trio's deadlines are dear to move.
        """
        scope, deadline_s = self.lease_scope, self.state.lease.deadline_s()
        if scope is not None and deadline_s < scope.deadline:
            scope.deadline = deadline_s
