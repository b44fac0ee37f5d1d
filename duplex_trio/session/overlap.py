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
        self._has_verdicts = core.state.dialect == "duplex"

    @property
    def judges(self) -> bool:
        """Whether appends without hints are judged one by one.

        No detector does it, and the dialect has verdicts.
        """
        return self._has_verdicts and not self._core.detects

    def hear(self, command: AppendAudio, pcm: Pcm, now_s: float) -> bool:
        """Take an append that a decision or a verdict may be about, before it is stored.

        Args:
            command: the append.
            pcm: its sound at the model's rate.
            now_s: when it came.

        Returns:
            Whether its sound enters the input; else silence does in its place. Pictures show what is now,
            whoever speaks, so only the client's own `drop` means them too.
        """
        core, state = self._core, self._core.state
        hints, judged = command.hints, self.judges
        said = hints is not NO_HINTS and hints.decides_overlap
        speech = len(pcm) > 0 and holds_speech(hints, pcm, silence_rms=state.config.overlap_silence_rms)
        over = state.interruptible(now_s) if said else state.spoken_over(now_s)
        kept = True
        if over and (said or (judged and core.units is None)) and self._has_matter(command, pcm):
            ruling = self._rule_on(command, pcm, speech=speech)
            kept = ruling.buffer
            speech = speech and kept
            if kept and core.detects and ruling.action == "listen":
                state.heard.listens_until = state.timeline.end + len(pcm)
            over = ruling.cancel_reason is None
        elif judged and not speech and core.units is None and len(pcm) and state.heard.tells(_SILENCE):
            core.emit(listening(state, _SILENCE))
        if kept and (speech or not judged):
            self._note(hints, pcm, judged=judged, over=over)
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
        listens = ruling.action == "listen" and self._has_verdicts
        state.heard.over_response = listens and state.spoken_over(core.now_s)
        self._obey(ruling, NO_HINTS, since_s=timeline.arrival_s(end))

    # ------------------------------------------------------------------ asking

    def _has_matter(self, command: AppendAudio, pcm: Pcm) -> bool:
        """Whether there is something to decide about.

        The resampler may hold all of an append, and one may hold nothing but pictures for a model that hears.
        """
        return len(pcm) > 0 or self._shows(command) or command.hints.asks_barge_in

    def _shows(self, command: AppendAudio) -> bool:
        required = self._core.state.capabilities.required_input_modalities
        return bool(command.video_frames) and "audio" not in required

    def _rule_on(self, command: AppendAudio, pcm: Pcm, *, speech: bool) -> OverlapRuling:
        """Decide about an append, and let it be so."""
        hints = command.hints
        situation = self._situation(
            hints,
            speech=speech,
            duration_ms=self._duration_ms(hints, pcm),
            vad_started=False if self._core.detects else None,
            vision_follow=self._shows(command),
        )
        ruling = decide_overlap(situation)
        self._core.state.heard.overlap_speech_ms = ruling.overlap_speech_ms
        self._obey(ruling, hints, event_id=command.event_id)
        return ruling

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

    def _obey(
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
        told = (heard_over, state.epoch, ruling.action, ruling.reason, ruling.buffer)
        if not state.heard.tells(told) and ruling.cancel_reason is None:
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

    def _note(self, hints: AppendHints, pcm: Pcm, *, judged: bool, over: bool) -> None:
        """Sound enters the input that is speech, or may be."""
        state = self._core.state
        heard = state.heard
        heard.note_transcript(hints.transcript)
        if not judged:
            heard.unjudged = True
            return
        heard.speech_ms += self._duration_ms(hints, pcm)
        if not over:
            heard.forget_told()
        if not state.speech_open:
            self._core.emit(speech_started(state, state.timeline.end))
