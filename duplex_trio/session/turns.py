"""How turns reach the model and what it says comes back: the appender and the pump of an epoch.

The appender takes turns one at a time: it plans a turn with the plugin, opens its stage request and hands it
the input. From then on a pump of its own carries the turn: it turns results into events, waits where the
client is slow (which closes the request's window and so pauses the stage), and releases the request whatever
happens.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio

from duplex_trio.pipelines.results import (
    DeliveredOutput,
    FunctionCallArguments,
    FunctionCallBegin,
    FunctionCallEnd,
    FunctionCallResult,
    ListenResult,
    ModelFailure,
    ModelResult,
    SpeechResult,
    TextResult,
    TurnEnd,
    UserTranscript,
)
from duplex_trio.protocol.duplex import (
    RealtimeError,
    ResponseListen,
)
from duplex_trio.session.asides import Aside, take_aside
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore
from duplex_trio.session.failures import input_not_taken, model_failed
from duplex_trio.session.planning import planned
from duplex_trio.session.port import DuplexStageRequest, StageRequestContext
from duplex_trio.session.state.fence import DuplexFence
from duplex_trio.session.state.input import transcript_failed
from duplex_trio.session.state.response import Response
from duplex_trio.session.state.token_usage import shown_usage
from duplex_trio.session.turn import Turn

RELEASE_RETRY_S, RELEASE_RETRY_S_MAX = 0.1, 5.0
"""How long to wait before a release of a stage request is tried again: at first, and after many failures."""

StartPump = Callable[[Turn], None]
"""Starts the pump of a turn in the epoch's nursery."""


class TurnFlow:
    """Appender and pump."""

    def __init__(self, core: SessionCore, control: SessionControl) -> None:
        self._core = core
        self._control = control

    async def append_turns(self, start_pump: StartPump) -> None:
        """Take turns of the current epoch to the stages, in order. Runs in the epoch's scope."""
        core = self._core
        while True:
            turn = await core.turns.get()
            carried = False
            try:
                await self._open_or_fail(turn)
                if turn.request is not None and turn.failure is None:
                    start_pump(turn)
                    carried = True
            finally:
                if turn.request is not None and not carried:
                    await self.release(turn, turn.request)  # noqa: ASYNC102  shields each of its attempts

    async def pump(self, turn: Turn) -> None:
        """Carry one turn from its request to the client. Runs in the epoch's scope."""
        request = turn.request
        assert request is not None
        try:
            with turn.scope:
                async for delivered in request.outputs:
                    await self._handle_output(turn, delivered)
                    request.consumed(delivered)
                if not turn.discarded:
                    self._give_up_transcript(turn, _no_transcript())
        finally:
            await self.release(turn, request)  # noqa: ASYNC102  shields each of its attempts

    # ------------------------------------------------------------------ appender

    async def _open_or_fail(self, turn: Turn) -> None:
        try:
            with turn.opening, trio.fail_after(self._core.limits.unit_timeout_s):
                await self._open(turn)
        except RealtimeError as error:
            self.fail(turn, error)
        except trio.TooSlowError:
            self.fail(turn, RealtimeError("timeout", "the model took too long to accept the input"))
        except trio.BrokenResourceError as error:
            if not turn.discarded:
                self.fail(turn, input_not_taken(error, turn.request))

    async def _open(self, turn: Turn) -> None:
        core = self._core
        while turn.awaits & core.state.conversation.pending_transcripts:
            await core.transcripts_settled.park()
        turn.timing.opened_s = core.now_s
        plan = await planned(core, turn)
        if turn.discarded or turn.epoch != core.state.epoch or core.closing:
            return
        fence = DuplexFence(core.state.session_id, turn.epoch, turn.turn_id)
        request = core.port.ensure_request(
            StageRequestContext(
                request_id=turn.request_id,
                fence=fence,
                final_stage_id=plan.final_stage_id,
                state=plan.state,
                session_state=core.state.model_state,
                on_stages_free=partial(self._stages_free, turn)
                if core.state.capabilities.supports_concurrent_turn_requests
                else None,
                on_usage=turn.note_usage,
                spells=turn.spells,
            )
        )
        turn.request = request
        core.live_turns[turn.request_id] = turn
        self._hold_lease(turn)
        await request.submit(plan.entry)
        core.state.context_locked |= turn.pcm is not None
        core.touch()

    def let_speak(self, turn: Turn) -> None:
        """What the turn says may be said from now on."""
        turn.released.set()
        self._hold_lease(turn)

    def _hold_lease(self, turn: Turn) -> None:
        # One that nobody has asked for yet, and perhaps never will, does not keep the session alive.
        if turn.released.is_set() and turn.request_id in self._core.live_turns:
            self._core.state.lease.begin_operation(turn.request_id)
            self._core.reset_lease_deadline()

    def _stages_free(self, turn: Turn, text: str) -> None:
        turn.answer_text = text
        self._core.on_stages_free(turn)

    def fail(self, turn: Turn, error: RealtimeError) -> None:
        """A turn failed: tell the client through its response and its user item."""
        core = self._core
        turn.failure = error
        core.log.warning("turn.failed", request_id=turn.request_id, code=error.code, message=error.message)
        if core.prepared is turn:
            self._control.discard_prepared()
        self._give_up_transcript(turn, error)
        if turn.response is not None:
            self._control.fail_response(turn.response, error)

    # ------------------------------------------------------------------ pump

    async def _handle_output(self, turn: Turn, delivered: DeliveredOutput) -> None:
        self._core.touch()
        turn.stage_metrics.add(delivered.snapshots)
        for result in delivered.results:
            if turn.discarded:
                self._core.counters.stale_outputs += 1
                return  # cancelled when the output was already on its way here
            if isinstance(result, UserTranscript):
                self.note_transcript(turn, result)
                continue
            if isinstance(result, ModelFailure):
                self.fail(turn, model_failed(result))
                return
            await turn.released.wait()
            response = turn.response
            if response is None or turn.discarded:
                continue
            if isinstance(result, Aside):
                self._take_aside(turn, result)
            else:
                await self.say(turn, response, result)

    def _take_aside(self, turn: Turn, result: Aside) -> None:
        try:
            take_aside(self._core, result)
        except RealtimeError as error:
            self.fail(turn, error)
            turn.discard()

    async def say(self, turn: Turn, response: Response, result: ModelResult) -> None:
        """Turn one result of the model into what the client gets; waits where the client is slow."""
        core = self._core
        match result:
            case SpeechResult(pcm=pcm, sample_rate_hz=rate, text=text, aligned=aligned):
                if text:
                    turn.timing.note_text(core.now_s)
                core.emit(core.state.open_message(response))
                gap = " " if response.text and text and not text[0].isspace() else ""
                # A model that was asked to speak before the session chose text goes on speaking.
                said = (
                    response.speech(pcm, rate, gap + text, aligned=aligned)
                    if response.speaks
                    else response.written(gap + text)
                )
                for entry in said:
                    await core.egress.put_media(entry)
            case TextResult(text=text):
                if text:
                    turn.timing.note_text(core.now_s)
                    core.emit(core.state.open_message(response))
                for entry in response.written(text):
                    await core.egress.put_media(entry)
            case FunctionCallResult(name=name, arguments=arguments, call_id=call_id):
                for step in (
                    FunctionCallBegin(name=name, call_id=call_id),
                    FunctionCallArguments(arguments),
                    FunctionCallEnd(),
                ):
                    await self.say(turn, response, step)
            case FunctionCallBegin() | FunctionCallArguments() | FunctionCallEnd():
                if isinstance(result, FunctionCallBegin):
                    core.figures.function_called(result.name, result.call_id, response)
                await core.egress.put_media(response.call_entry(result))
            case ListenResult(reason=reason, model_listen=model_listen):
                listen = ResponseListen.because(
                    reason,
                    session_id=core.state.session_id,
                    epoch=core.state.epoch,
                    response_id=response.response_id,
                    model_listen=model_listen,
                    event_id=core.state.new_id("event_"),
                )
                core.emit([listen])
                response.listened = True
                for entry in response.sound_tail():
                    await core.egress.put_media(entry)
                await core.egress.put_media(response.end_marker())
            case TurnEnd():
                response.finish_reason = result.finish_reason
                if response.request_metrics is None:
                    response.request_metrics = turn.request_metrics()
                response.usage = shown_usage(result)
                for entry in response.sound_tail():
                    await core.egress.put_media(entry)
                await core.egress.put_media(response.end_marker())

    def note_transcript(self, turn: Turn, result: UserTranscript) -> None:
        """The user's words of a turn are known; tell the client once the sound is a committed item."""
        turn.transcript = result.text
        turn.transcript_duration_s = result.audio_duration_s
        turn.timing.transcript_s = self._core.now_s
        if self._core.prepared is turn:
            self._core.on_prepared_transcript(result.text)
        self.publish_transcript(turn)

    def publish_transcript(self, turn: Turn) -> None:
        """Send the transcript of a turn whose sound is committed; nothing before both are there."""
        core = self._core
        if turn.item_id is None or turn.transcript is None or not self._owes_transcript(turn):
            return
        del core.transcribing[turn.item_id]
        turn.told = True
        core.user_said(turn.item_id, turn.transcript, turn.transcript_duration_s)
        core.transcripts_settled.unpark_all()

    def _give_up_transcript(self, turn: Turn, error: RealtimeError) -> None:
        """If a turn still owes a transcript, it will not come: nobody may wait for it."""
        core = self._core
        if turn.item_id is None or not self._owes_transcript(turn):
            return
        del core.transcribing[turn.item_id]
        turn.told = True
        core.emit(transcript_failed(core.state, turn.item_id, error))
        core.transcripts_settled.unpark_all()

    def _owes_transcript(self, turn: Turn) -> bool:
        # After a cancellation another turn may make the transcript of the same item.
        return turn.item_id is not None and self._core.transcribing.get(turn.item_id) is turn

    def note_first_audio(self, response: Response) -> None:
        """The first sound of a response leaves for the client: the parts of the wait for it are known now."""
        core = self._core
        turn = core.speaking
        if turn is None or turn.response is not response:
            return
        timing = turn.timing
        timing.first_audio_s = core.now_s
        response.request_metrics = turn.request_metrics()
        if timing.speech_end_s is not None:
            core.counters.speech_stop_to_first_audio_ms.observe((core.now_s - timing.speech_end_s) * 1000)

    async def release(self, turn: Turn, request: DuplexStageRequest) -> None:
        """Abort what is left of a turn's request and let the stages forget it, however long that takes them.

        A release that fails is tried again: until it succeeds the session keeps its slot.
        """
        core = self._core
        request.abort()
        delay_s = RELEASE_RETRY_S
        while not await self._released(turn, request):
            core.counters.cleanup_retries += 1
            with trio.CancelScope(shield=True):
                await trio.sleep(delay_s)
            delay_s = min(RELEASE_RETRY_S_MAX, delay_s * 2)
        if not turn.metrics_claimed:
            core.state.held_metrics.merge(turn.stage_metrics)
        core.live_turns.pop(turn.request_id, None)
        core.figures.request_released(turn.request_id)
        core.state.lease.end_operation(turn.request_id, core.now_s)
        core.reset_lease_deadline()

    async def _released(self, turn: Turn, request: DuplexStageRequest) -> bool:
        core = self._core
        try:
            with trio.move_on_after(core.limits.cleanup_timeout_s, shield=True):
                await core.port.cleanup(request)
                return True
        except Exception:
            core.log.exception("turn.release_failed", request_id=turn.request_id)
        else:
            core.log.warning("turn.release_slow", request_id=turn.request_id)
        return False


def _no_transcript() -> RealtimeError:
    return RealtimeError("runtime_data_plane_stream_failed", "the model gave no transcript of the sound")
