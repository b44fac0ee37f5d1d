"""Where a client's command goes: acted on at once, or put in line for the actor.

Called by the socket's reader, so nothing here waits. Sound is decoded and stored here; what cancels, clears,
acknowledges or keeps alive acts here; everything whose meaning depends on what came before it goes through
the actor's channel.
"""

from __future__ import annotations

from collections.abc import Mapping

from duplex_trio.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    CloseSession,
    Commit,
    DuplexCommand,
    Heartbeat,
    RealtimeError,
    SignalTurn,
    resolve_signal,
)
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore
from duplex_trio.session.detector import SpeechDetector
from duplex_trio.session.ingress import SessionIngress
from duplex_trio.session.signals import PLAYBACK_ACK, TurnSignals
from duplex_trio.session.state.heard_input import HeardInput
from duplex_trio.session.work import CommandWork

_NEEDS: Mapping[type[DuplexCommand], str] = {
    AppendAudio: "supports_input_append",
    Commit: "supports_client_commit",
    SignalTurn: "supports_external_turn_signal",
    AckPlayback: "supports_playback_ack",
}
"""Commands that a model must be able to take, by the ability that says so."""


class SessionDispatch:
    """Entry of all client commands of one session."""

    def __init__(
        self,
        core: SessionCore,
        control: SessionControl,
        signals: TurnSignals,
        ingress: SessionIngress,
        detector: SpeechDetector,
    ) -> None:
        self._core = core
        self._control = control
        self._signals = signals
        self._ingress = ingress
        self._detector = detector

    def submit(self, command: DuplexCommand) -> None:
        """Take a command. Never blocks and never raises: a refusal reaches the client as an `error` event."""
        core = self._core
        core.command_seq += 1
        if not isinstance(command, Heartbeat):
            core.count_client_event(command.event_id)
        received_s = core.figures.received_s = core.now_s
        try:
            if core.closing:
                raise RealtimeError("session_closed", "the session is closing")
            self._take(command, core.command_seq, received_s)
        except RealtimeError as error:
            core.refuse(error, command.event_id)
        except Exception:
            # The caller is the socket's reader, which serves this client alone but is no part of the session.
            core.log.exception("session.crashed", command=command.type)
            self._control.fail(RealtimeError("internal_error", "the session failed"))
        finally:
            core.figures.received_s = None

    def _take(self, command: DuplexCommand, seq: int, received_s: float) -> None:
        self._refuse_what_the_model_cannot(command)
        control = self._control
        if isinstance(command, SignalTurn):
            # A client in this process is understood as one behind a socket is.
            command = resolve_signal(command)
        match command:
            case AppendAudio():
                self._ingress.append(command, received_s)
            case CancelResponse():
                control.cancel_response(command, seq)
            case BargeIn() | CancelInput():
                control.require_barge_in(command)
                self._ingress.round_off()
                control.barge_in(command, seq)
                self._ingress.drop()
            case ClearInput():
                self._ingress.round_off()
                control.clear_input(command, seq)
                self._ingress.drop()
            case ClearOutputAudio():
                control.clear_output(command)
            case AckPlayback():
                control.ack_playback(command)
            case Heartbeat():
                control.heartbeat(command)
            case CloseSession():
                control.close(command)
            case SignalTurn(event=event) if event == PLAYBACK_ACK:
                self._signals.acknowledge(command)
            case _:
                self._put_in_line(command, seq)

    def _refuse_what_the_model_cannot(self, command: DuplexCommand) -> None:
        need = _NEEDS.get(type(command))
        if need is not None and not getattr(self._core.state.capabilities, need):
            raise RealtimeError("unsupported", f"the model takes no {command.type}", param="type")

    def _put_in_line(self, command: DuplexCommand, seq: int) -> None:
        core, state = self._core, self._core.state
        core.require_room_in_line()
        heard = self._take_heard() if isinstance(command, Commit) else None
        timeline = state.timeline
        core.put_in_line(CommandWork(command=command, seq=seq, audio_end=timeline.end, heard=heard))
        if isinstance(command, Commit) and timeline.end > timeline.committed:
            self._detector.restart()

    def _take_heard(self) -> HeardInput:
        """What the sound up to here held; what comes later belongs to another commit."""
        core, state = self._core, self._core.state
        self._ingress.flush()
        heard = state.heard.snapshot(playing=state.spoken_over(core.now_s))
        state.heard.restart()
        return heard
