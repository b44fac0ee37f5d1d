"""Input in fixed units for a model that owns its turns, and what it answers to them.

Theory of operation. Sound is cut into units as it arrives; whole units wait in a short channel. In each epoch
an appender opens one resumable request at the first unit and submits unit after unit, one at a time; a unit
counts as used up only when the stage took it, else it goes back in front. A pump turns the answers into a
response that begins with the first thing the model says and ends when its turn does. While the model speaks
and no sound comes, the silence clock feeds it silence at the pace of the units, up to a budget that stops a
model which never ends its turn.

What the user says meanwhile belongs to the next unit, so a barge-in takes nothing away: the next epoch's
request begins with the sound that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import trio

from duplex_trio.pipelines.requests import RequestView, StageForward
from duplex_trio.pipelines.results import (
    DeliveredOutput,
    FunctionCallResult,
    ListenResult,
    ModelFailure,
    ModelResult,
    SegmentEnd,
    TokenUsage,
    TurnEnd,
    UserTranscript,
)
from duplex_trio.pipelines.stage_metrics import StageMetrics
from duplex_trio.plugin.resumable import ResumableModelPlugin, UnitInput
from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.session.asides import Aside, take_aside
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore
from duplex_trio.session.epoch_request import open_epoch_request
from duplex_trio.session.failures import input_not_taken, model_failed
from duplex_trio.session.hooks import hook_faults
from duplex_trio.session.state.append_ledger import AppendReservation
from duplex_trio.session.state.function_call import call_between_responses
from duplex_trio.session.state.input import listening
from duplex_trio.session.state.response import Response
from duplex_trio.session.state.response_events import opening
from duplex_trio.session.state.silence import SilenceBudget, SpeechClock, schedule_silence
from duplex_trio.session.state.unit_clock import UnitClock
from duplex_trio.session.turn import Turn
from duplex_trio.session.turns import TurnFlow
from duplex_trio.session.unit_failures import UnitFailures
from duplex_trio.session.unit_line import UnitLine, WaitingUnit
from duplex_trio.session.unit_waits import UnitWaits

StartPump = Callable[[Turn], None]


class UnitFlow:
    """Units in, answers out, for one session."""

    def __init__(
        self, core: SessionCore, control: SessionControl, turns: TurnFlow, plugin: ResumableModelPlugin
    ) -> None:
        self.line = UnitLine(plugin.create_audio_buffer(), core.limits)
        self._core = core
        self._control = control
        self._turns = turns
        self._plugin = plugin
        self._failures = UnitFailures(core, control)
        self._turn: Turn | None = None
        self._view: RequestView | None = None
        self._requests = 0
        self._ending: Response | None = None
        self._untold: str | None = None
        self._response_over = trio.lowlevel.ParkingLot()
        self._budget = SilenceBudget()
        self._speech = SpeechClock(plugin.unit_samples / plugin.input_sample_rate_hz)
        self._answered = trio.lowlevel.ParkingLot()
        clock = UnitClock(self._speech.period_s, core.limits.unit_budget_ms / 1000)
        self.waits = UnitWaits(core.figures, clock)

    # ------------------------------------------------------------------ called as things happen

    def commit(self, item_id: str | None) -> None:
        """The user's turn ends: what is left of its sound becomes a unit.

        Args:
            item_id: the item that it has become, if nobody has told its words.
        """
        self._untold = item_id
        self.line.commit()

    def nudge(self) -> None:
        """Feed one unit of silence to a model that has been given something, unless the user's sound comes
        anyway.
        """
        timeline, now_s = self._core.state.timeline, self._core.now_s
        heard_s = timeline.arrival_s(timeline.end)
        comes = heard_s is not None and now_s - heard_s < self._speech.period_s
        unit = None if comes or self.line.has_units else self._silence(now_s, now_s)
        if unit is not None:
            self.line.put_nowait(unit)

    def response_ended(self) -> None:
        """The client has got the last of a response; the next one may begin, and need silence to go on."""
        self._ending = None
        self._response_over.unpark_all()
        self._answered.unpark_all()

    # ------------------------------------------------------------------ appender

    async def append_units(self, start_pump: StartPump) -> None:
        """Take units to the model, in order. Runs in the epoch's scope."""
        self._turn, self._view, self._ending = None, None, None
        self.line.begin_epoch()
        self._speech.reset()
        self.waits.reset()
        while True:
            unit = await self.line.next()
            if unit.stale(self._core.state.epoch) or self._core.closing:
                continue
            reservation = unit.reservation
            accepted = False
            seen: tuple[bytes, ...] = ()
            dropped_before = self._core.input_floor
            try:
                while self._speech.unanswered >= self._core.limits.units_unanswered_max:
                    await self._answered.park()
                # A cancellation may have come between the wake-up and here: the unit is for the next epoch.
                await trio.lowlevel.checkpoint_if_cancelled()
                seen = self._core.state.frames.take()
                accepted = await self._submit(unit, seen, start_pump)
            finally:
                if not accepted and self._core.input_floor == dropped_before:
                    self._core.state.frames.put_back(seen)
                if reservation is not None and reservation.active:
                    if accepted:
                        reservation.commit()
                    else:
                        reservation.rollback()

    async def _submit(self, unit: WaitingUnit, frames: Sequence[bytes], start_pump: StartPump) -> bool:
        core, ledger = self._core, self._core.state.appends
        reserved = ledger.reserve(core.state.fence)
        try:
            turn, view = self._current_request(start_pump)
            assert turn.request is not None
            with trio.fail_after(core.limits.unit_timeout_s):
                forward = await self._plan(unit, frames, reserved, view)
                # The model may have taken its time: is the unit still wanted, and by this request?
                if unit.stale(core.state.epoch) or self._turn is not turn:
                    return False
                # Before it is taken, for the answer may be here before that is known.
                self._note_submitted(unit)
                await turn.request.submit(forward)
        except RealtimeError as error:
            self._fail(error)
            return False
        except trio.TooSlowError:
            self._fail(RealtimeError("timeout", "the model took too long to accept a unit"))
            return False
        except trio.BrokenResourceError as error:
            # A request that has ended meanwhile has told why; the unit goes to the next one.
            if self._turn is not None and not self._turn.discarded:
                self._fail(input_not_taken(error, self._turn.request))
            return self._failures.stage_down
        if core.state.epoch != reserved.fence.epoch:
            # Taken by a request that a cancellation has ended since: the next one gets the sound.
            return False
        ledger.commit(reserved)
        self._failures.stage_down = False
        core.state.context_locked = True
        core.touch()
        return True

    def _note_submitted(self, unit: WaitingUnit) -> None:
        now_s = self._core.now_s
        if unit.due_s is None:
            self._budget.restart()
            self._speech.submitted(now_s, silent=False)
        else:
            self._speech.submitted(unit.due_s, silent=True)
            self.waits.silence_submitted(unit.whole_s, now_s)
        self.waits.submitted(self._turn, self._spoken, whole_s=unit.whole_s, now_s=now_s)

    @property
    def _spoken(self) -> Response | None:
        """The response that the model is making; not one that only has to be played."""
        return self._core.state.active if self._ending is None else None

    def _note_answered(self) -> None:
        self.waits.answered(self._spoken, self._core.now_s)
        self._answered.unpark_all()

    def _current_request(self, start_pump: StartPump) -> tuple[Turn, RequestView]:
        if self._turn is None or self._view is None:
            self._requests += 1
            with hook_faults(self._core):
                self._turn, self._view = open_epoch_request(self._core, self._plugin, self._requests)
            self._core.live_turns[self._turn.request_id] = self._turn
            start_pump(self._turn)
        return self._turn, self._view

    async def _plan(
        self, unit: WaitingUnit, frames: Sequence[bytes], reserved: AppendReservation, view: RequestView
    ) -> StageForward:
        given = UnitInput(
            pcm=unit.pcm,
            seq=reserved.seq,
            turn_seq=reserved.turn_seq,
            turn_id=reserved.fence.turn_id,
            silence=unit.silent_in_epoch is not None,
            force_listen=unit.force_listen,
            final=unit.final,
            frames=frames,
            runtime_config=self._core.state.runtime_config,
        )
        with hook_faults(self._core):
            return await self._plugin.prepare_append(given, view)

    # ------------------------------------------------------------------ pump

    async def pump(self, turn: Turn) -> None:
        """Carry the epoch's request: its answers to the client. Runs in the epoch's scope."""
        request = turn.request
        assert request is not None
        try:
            with turn.scope:
                async for delivered in request.outputs:
                    await self._handle(turn, delivered)
                    request.consumed(delivered)
        finally:
            if self._turn is turn:
                self._turn = None
                self._speech.reset()
                self._answered.unpark_all()
            await self._turns.release(turn, request)  # noqa: ASYNC102  shields each of its attempts

    async def _handle(self, turn: Turn, delivered: DeliveredOutput) -> None:
        self._core.touch()
        turn.stage_metrics.add(delivered.snapshots)
        for result in delivered.results:
            if turn.discarded:
                self._core.counters.stale_outputs += 1
                return  # cancelled when the output was already on its way here
            match result:
                case UserTranscript(text=text, audio_duration_s=duration_s):
                    self._transcribed(text, duration_s)
                case ModelFailure():
                    self._fail(model_failed(result))
                    return
                case SegmentEnd():
                    self._speech.spoke(self._core.now_s)
                    self._note_answered()
                case FunctionCallResult():
                    await self._called(turn, result)
                case _ if isinstance(result, Aside):
                    self._take_aside(result)
                case TokenUsage():
                    await self._until_ended()
                    turn.note_usage(result)
                case ListenResult():
                    await self._listened(turn, result)
                case TurnEnd():
                    await self._turn_ended(turn, result)
                case _:
                    response = await self._response(turn)
                    await self._turns.say(turn, response, result)

    def _transcribed(self, text: str, duration_s: float) -> None:
        """The model tells what it heard: the words of the latest committed item, if that has none yet."""
        item_id, self._untold = self._untold, None
        if item_id is not None:
            self._core.user_said(item_id, text, duration_s)

    def _take_aside(self, result: Aside) -> None:
        try:
            take_aside(self._core, result)
        except RealtimeError as error:
            self._fail(error)

    async def _called(self, turn: Turn, result: FunctionCallResult) -> None:
        """A call goes into the response in progress, or is one of its own."""
        core, state = self._core, self._core.state
        await self._until_ended()
        if state.active is not None:
            await self._turns.say(turn, state.active, result)
            return
        core.figures.function_called(result.name, result.call_id)
        core.emit(call_between_responses(state, result))

    async def _until_ended(self) -> None:
        """Wait while the sound of a response that is over for the model is still on its way."""
        while self._ending is not None:
            await self._response_over.park()
        # A cancellation may have come between the wake-up and here: old words begin nothing new.
        await trio.lowlevel.checkpoint_if_cancelled()

    async def _response(self, turn: Turn) -> Response:
        core, state = self._core, self._core.state
        await self._until_ended()
        if state.active is None:
            response = state.begin_response(state.turn_id, None, core.now_s)
            core.emit(opening(response))
            core.figures.response_created(response, prepared=False)
            turn.respond_in(response)
            turn.timing = self.waits.begin_answer()
            core.speaking = turn
        assert state.active is not None
        return state.active

    async def _listened(self, turn: Turn, result: ListenResult) -> None:
        self._fell_silent()
        state = self._core.state
        if state.active is not None and self._ending is None:
            await self._finish(turn, state.active, result)
        else:
            self._core.emit(listening(state, result.reason, model_listen=result.model_listen))

    async def _turn_ended(self, turn: Turn, result: TurnEnd) -> None:
        self._fell_silent()
        state = self._core.state
        state.next_turn()
        if state.active is not None and self._ending is None:
            await self._finish(turn, state.active, result)
        else:
            self._core.emit(listening(state, "model_turn_completed_without_output"))
        turn.usage = None

    def _fell_silent(self) -> None:
        self._speech.fell_silent()
        self._note_answered()

    async def _finish(self, turn: Turn, response: Response, result: ModelResult) -> None:
        self._ending = response
        turn.stage_metrics = StageMetrics()
        await self._turns.say(turn, response, result)

    def _fail(self, error: RealtimeError) -> None:
        spoken, turn = self._spoken, self._turn
        self._failures.failed(error, spoken)
        if self._failures.stage_down and turn is not None:
            # The next unit begins another request, when there is a stage again.
            if spoken is not None:
                self._core.state.next_turn()
            self._speech.reset()
            turn.discard()

    # ------------------------------------------------------------------ silence clock

    async def run_silence(self) -> None:
        """Feed silence while the model speaks and the user sends nothing. Runs in the epoch's scope."""
        core = self._core
        while True:
            while not self._needs_silence():
                await self._answered.park()
            due_s, period_s = self._speech.due_s, self._speech.period_s
            slot = schedule_silence(core.now_s, period_s=period_s, last_submit_s=None, deadline_s=due_s)
            planned_s = core.now_s + slot.wait_s + self._speech.grace_s
            await trio.sleep_until(planned_s)
            # Sound that came meanwhile takes the place of the silence.
            if self._needs_silence() and self._speech.due_s == due_s:
                await self._feed_silence(slot.next_deadline_s - period_s, planned_s)

    def _needs_silence(self) -> bool:
        speaks_on = self._speech.due_s is not None and not self._speech.unanswered
        return speaks_on and self._ending is None and not self.line.has_units

    async def _feed_silence(self, due_s: float, planned_s: float) -> None:
        core, state = self._core, self._core.state
        unit = self._silence(due_s, planned_s)
        if unit is not None:
            await self.line.put(unit)
            return
        response = state.active
        turn = self._turn
        state.next_turn()
        self._speech.reset()
        if turn is not None:
            # It would go on speaking: its request ends here, and the next unit begins another one.
            turn.discard()
            if response is not None:
                await self._finish(
                    turn, response, ListenResult(reason="continuation_limit", model_listen=False)
                )
        core.log.info("units.stopped", reason="continuation_limit")

    def _silence(self, due_s: float, planned_s: float) -> WaitingUnit | None:
        state, silent_max = self._core.state, self._core.limits.silence_units_max
        response = state.active
        owner = f"model-turn:{state.turn_id}" if response is None else f"response:{response.response_id}"
        if not self._budget.take(owner, silent_max):
            return None
        return WaitingUnit(
            pcm=np.zeros(self._plugin.unit_samples, np.float32),
            silent_in_epoch=state.epoch,
            due_s=due_s,
            whole_s=planned_s,
            force_listen=self._budget.is_last(silent_max),
        )
