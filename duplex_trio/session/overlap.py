"""Sound that comes while the assistant speaks: asks what is to become of it, and sees to it.

Without a detector, and wherever the client says itself what it wants, the question is asked of every append
as it arrives; else the detector asks it when speech begins. The answer is `state.overlap`'s. Each answer is
told before anything follows from it; the same answer again and again is told once, because appends come fifty
times a second and the client's queue of events is short.

In OpenAI's dialects nobody judges sound that the client appends by hand: it all belongs to the buffer, and
its commit says what it is. Explicit hints are obeyed in every dialect.

Sound that is dropped, or listened to but not kept, enters the input line as silence of its length. So the
line's clock stays the client's, a pause within an utterance stays a pause, and the detector hears one.
"""

from __future__ import annotations

from duplex_trio.protocol.duplex import NO_HINTS, AppendAudio, AppendHints, OverlapDecision, RealtimeError
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore
from duplex_trio.session.state.input import listening, speech_started
from duplex_trio.session.state.overlap import OverlapRuling, OverlapSituation, decide_overlap
from duplex_trio.session.state.speech_verdict import holds_speech
from duplex_trio.stages.units import Pcm

_SILENCE = "silence_or_noise"
_DETECTED_LISTEN = AppendHints(force_listen=True)
"""What the client said before about sound in which the detector finds speech only now."""


class OverlapJudge:
    """Verdicts and overlap decisions of one session."""

    def __init__(self, core: SessionCore, control: SessionControl) -> None:
        self._core = core
        self._control = control

    @property
    def judges(self) -> bool:
        """Whether appends without hints are judged one by one.

        No detector does it, and the dialect has verdicts.
        """
        return self._core.state.dialect == "duplex" and not self._core.detects

    def hear(self, command: AppendAudio, pcm: Pcm) -> bool:
        """Take an append that a decision or a verdict may be about, before it is stored.

        Args:
            command: the append.
            pcm: its sound at the model's rate.

        Returns:
            Whether its sound enters the input; else silence does in its place. Pictures show what is now, whoever
            speaks, so only the client's own `drop` means them too.
        """
        core, state = self._core, self._core.state
        hints = command.hints
        judged, detects = self.judges, self._core.detects
        speech = len(pcm) > 0 and holds_speech(hints, pcm, silence_rms=state.config.overlap_silence_rms)
        vision = bool(command.video_frames) and "audio" not in state.capabilities.required_input_modalities
        kept = True
        asks = hints.decides_overlap or (judged and core.units is None)
        if not len(pcm) and not vision:
            # The resampler holds all of it, or there are only pictures: there is nothing to judge in it.
            asks = hints.asks_barge_in
        over = state.interruptible if hints.decides_overlap else state.spoken_over
        if asks and over(core.now_s):
            ruling = decide_overlap(
                self._situation(
                    hints,
                    speech=speech,
                    duration_ms=self._duration_ms(hints, pcm),
                    vad_started=False if detects else None,
                    vision_follow=vision,
                )
            )
            self._obey(ruling, command)
            kept = ruling.buffer
            if not kept:
                speech = False
            elif detects and ruling.action == "listen":
                state.heard.listens_until = state.timeline.end + len(pcm)
        elif judged and not speech and core.units is None and len(pcm):
            self._tell_silence()
        self._note(hints, pcm, speech=speech, judged=judged)
        return kept

    def speech_began(self, begin: int, end: int) -> None:
        """The detector heard speech begin in [begin, end) of the input line."""
        core, state = self._core, self._core.state
        if not state.interruptible(core.now_s):
            return
        cuts = state.capabilities.supports_barge_in and state.config.overlap_policy == "barge_in_on_speech"
        if core.units is not None and not cuts:
            return
        timeline = state.timeline
        hinted = end <= state.heard.listens_until
        ruling = decide_overlap(
            self._situation(
                _DETECTED_LISTEN if hinted else NO_HINTS,
                speech=True,
                duration_ms=max(0, end - begin) * 1000 / timeline.sample_rate_hz,
                vad_started=not hinted,
            )
        )
        listens = ruling.action == "listen" and state.dialect == "duplex"
        state.heard.over_response = listens and state.spoken_over(core.now_s)
        self._tell(ruling, NO_HINTS, since_s=timeline.arrival_s(end))

    # ------------------------------------------------------------------ asking

    def _situation(
        self,
        hints: AppendHints,
        *,
        speech: bool,
        duration_ms: float,
        vad_started: bool | None,
        vision_follow: bool = False,
    ) -> OverlapSituation:
        state = self._core.state
        config, capabilities = state.config, state.capabilities
        return OverlapSituation(
            policy=config.overlap_policy,
            supports_barge_in=capabilities.supports_barge_in,
            owns_turns=self._core.units is not None,
            hints=hints,
            speech=speech,
            vad_started=vad_started,
            vision_follow=vision_follow,
            duration_ms=duration_ms,
            overlap_speech_ms=state.heard.overlap_speech_ms,
            short_ack_ms=config.overlap_short_ack_ms,
            barge_in_ms=config.overlap_barge_in_ms,
        )

    def _duration_ms(self, hints: AppendHints, pcm: Pcm) -> float:
        if hints.duration_ms is not None:
            return max(0.0, hints.duration_ms)
        return len(pcm) * 1000 / self._core.state.timeline.sample_rate_hz

    # ------------------------------------------------------------------ obeying

    def _obey(self, ruling: OverlapRuling, command: AppendAudio) -> None:
        self._core.state.heard.overlap_speech_ms = ruling.overlap_speech_ms
        self._tell(ruling, command.hints, event_id=command.event_id)

    def _tell(
        self,
        ruling: OverlapRuling,
        hints: AppendHints,
        *,
        event_id: str | None = None,
        since_s: float | None = None,
    ) -> None:
        core, state = self._core, self._core.state
        last = state.last_response
        heard_over = None if last is None else last.response_id
        if not state.heard.tells((heard_over, state.epoch, ruling.action, ruling.reason, ruling.buffer)):
            return
        if ruling.refused:
            param = "force_barge_in" if hints.force_barge_in else "overlap_action"
            error = RealtimeError("barge_in_unsupported", "the model cannot be interrupted", param=param)
            core.refuse(error, event_id)
        event = self._event(ruling)
        if ruling.cancel_reason is None:
            core.emit([event])
        else:
            self._control.cancel(ruling.cancel_reason, first=[event], since_s=since_s)

    def _event(self, ruling: OverlapRuling) -> OverlapDecision:
        state = self._core.state
        return OverlapDecision(
            event_id=state.new_id("event_"),
            session_id=state.session_id,
            epoch=state.epoch,
            policy=state.config.overlap_policy,
            action=ruling.action,
            reason=ruling.reason,
            metadata={
                "duration_ms": ruling.duration_ms,
                "overlap_speech_ms": ruling.overlap_speech_ms,
                "buffer_audio": ruling.buffer,
                "defer_runtime_append": ruling.defer,
                "force_listen": ruling.force_listen,
                "cancel_reason": ruling.cancel_reason,
            },
        )

    def _tell_silence(self) -> None:
        if self._core.state.heard.tells(_SILENCE):
            self._core.emit(listening(self._core.state, _SILENCE))

    def _note(self, hints: AppendHints, pcm: Pcm, *, speech: bool, judged: bool) -> None:
        state = self._core.state
        heard = state.heard
        if not judged:
            heard.unjudged = True
        elif speech:
            heard.speech_ms += self._duration_ms(hints, pcm)
            if not state.spoken_over(self._core.now_s):
                heard.forget_told()
            if not state.speech_open:
                self._core.emit(speech_started(state, state.timeline.end))
        if hints.transcript is not None and (speech or not judged):
            heard.note_transcript(hints.transcript)
