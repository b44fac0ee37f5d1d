"""Where the user's speech begins and ends, and what follows from that.

Theory of operation. Every append tells voice activity that frames wait, and the scores come back as a plain
call (`VoiceListener.judge`): the endpointer judges them right there, and what it finds is acted on right
there too: speech that begins interrupts, a pause prepares an answer, its end puts the turn in line to be
committed. So a user who is silent, or goes on speaking, wakes no task at all. Only behind the end of a turn
is there something to wait for: until the actor has committed it its sound must not be trimmed, and new speech
must not take its item's id. Until then nothing more is given to be scored; the session's task waits for it.
Storing sound is `ingress`'s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import trio

from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.protocol.duplex.session import SemanticVad, ServerVad, TurnDetection
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore
from duplex_trio.session.overlap import OverlapJudge
from duplex_trio.session.partials import PartialTranscripts
from duplex_trio.session.port import VoiceLine, VoiceListener
from duplex_trio.session.state.detector_sound import DetectorSound
from duplex_trio.session.state.endpointing import (
    Endpointer,
    EndpointEvent,
    EndpointingParams,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    SpeechStopped,
)
from duplex_trio.session.state.input import speech_started, speech_stopped
from duplex_trio.session.state.input_timeline import BYTES_PER_SAMPLE
from duplex_trio.session.work import SpeechEndedWork
from duplex_trio.stages.units import Pcm

CATCH_UP_S = 1.0
"""Sound before the moment at which detection is turned on that is still judged: the command to turn it on
waits in line while the sound behind it does not."""
KEPT_BEFORE_SPEECH_S = 2.0
"""Quiet sound kept beside the padding, for a client that commits by hand."""
QUIET_S_MAX = 2 * KEPT_BEFORE_SPEECH_S
"""Quiet sound that is held before it is cut down to that, where appends are judged one by one."""

Prepare = Callable[[int, int], None]
"""Computes an answer to the speech in a range of the input line and holds it."""


class SpeechDetector(VoiceListener):
    """Detection of speech in one session.

    Args:
        core: the session.
        control: for throwing prepared turns away.
        overlap: is told of speech that begins.
        prepare: makes a prepared turn.
    """

    def __init__(
        self, core: SessionCore, control: SessionControl, overlap: OverlapJudge, prepare: Prepare
    ) -> None:
        self._core = core
        self._control = control
        self._overlap = overlap
        self._prepare = prepare
        self._endpointer = Endpointer()
        self._kept = self._kept_by(self._endpointer.params)
        self._sound = DetectorSound(core.state.timeline)
        self._line: VoiceLine | None = None
        self._generation = self._given_in = 0
        self._given_s = 0.0
        self._found: deque[EndpointEvent] = deque()
        self._ending: SpeechEndedWork | None = None
        self._lost = self._told_lost = False
        self._speech_start = 0
        self._prepares_anew = False
        self._partials = PartialTranscripts(core)
        self._crash: Exception | None = None
        self._woken = trio.Event()
        self.configure(core.state.config.turn_detection)

    @property
    def scored(self) -> int:
        """Position on the input line up to which the detector has judged."""
        return self._sound.line_position(self._endpointer.position_sample)

    # ------------------------------------------------------------------ called as things happen

    def heard(self) -> None:
        """Sound was added to the input line."""
        if self._core.detects:
            self._ask()
        else:
            self._trim()

    def restart(self) -> None:
        """Sound up to here was committed or dropped: detection starts anew behind it."""
        self._forget()
        self._adopt(self._core.state.config.turn_detection)

    def configure(self, detection: TurnDetection | None) -> None:
        """Adopt the turn detection of the session.

        Speech that goes on is judged by the new settings from here on. When detection is turned off nobody
        listens for its end any more, so it ends here for the client; its sound stays, to be committed by
        hand.
        """
        timeline, was_on = self._core.state.timeline, self._core.detects
        self._core.detects = detection is not None and not self._lost
        if detection is None:
            self._stop_listening()
            return
        if self._lost:
            self._tell_lost("voice activity detection is not available; commit by hand")
        if not was_on and timeline.end - self.scored > CATCH_UP_S * timeline.sample_rate_hz:
            self.restart()
        self._adopt(detection)
        self._ask()

    def note_prepared_transcript(self, text: str) -> None:
        """What was said before the current pause.

        With semantic detection a complete sentence ends the turn soon.
        """
        detection = self._core.state.config.turn_detection
        if isinstance(detection, SemanticVad) and text.rstrip().endswith((".", "?", "!")):
            quiet_ms = self._core.plugin.default_silence_duration_ms
            self._judge_by(self._params(detection, silence_ms=quiet_ms))

    def prepare_anew(self) -> None:
        """What was prepared in this pause was thrown away: with the next scores of it, prepare once more."""
        self._prepares_anew = True

    def _forget(self) -> None:
        """Hear nothing more of the sound up to here, and judge nothing more of what was heard of it."""
        self._generation += 1
        self._found.clear()
        self._endpointer.reset()
        self._sound.skip_to_end(self._endpointer.position_sample)
        self._partials.reset()

    def _adopt(self, detection: TurnDetection | None) -> None:
        if detection is not None:
            self._judge_by(self._params(detection))

    def _judge_by(self, params: EndpointingParams) -> None:
        self._endpointer.configure(params)
        self._kept = self._kept_by(params)

    def _params(self, detection: TurnDetection, *, silence_ms: int | None = None) -> EndpointingParams:
        pause_ms = self._core.state.capabilities.speculation_pause_ms or None
        if self._core.units is not None:
            pause_ms = None  # there is no turn to prepare
        if isinstance(detection, ServerVad):
            return EndpointingParams(
                threshold=detection.threshold,
                prefix_padding_ms=detection.prefix_padding_ms,
                silence_duration_ms=detection.silence_duration_ms,
                min_speech_duration_ms=detection.min_speech_duration_ms,
                pause_ms=pause_ms,
            )
        timeout_ms = int(detection.timeout_s * 1000)
        return EndpointingParams(silence_duration_ms=silence_ms or timeout_ms, pause_ms=pause_ms)

    def _stop_listening(self) -> None:
        self._core.detects = False
        self._control.discard_prepared()
        self._core.emit(speech_stopped(self._core.state, self.scored))
        self._forget()

    # ------------------------------------------------------------------ scores

    def _ask(self) -> None:
        """Have what waits scored, if something does and it may be."""
        if not self._may_score or not self._sound.frames_waiting:
            return
        if self._line is None:
            self._line = self._core.port.open_vad(self)
        if self._line is None:
            self.unavailable()
        else:
            self._line.ready()

    @property
    def _may_score(self) -> bool:
        return self._core.detects and self._ending is None and not self._core.closing

    def next_frames(self, frames_max: int) -> Pcm:
        """Hand out sound to score; see `VoiceListener`."""
        self._given_in, self._given_s = self._generation, self._core.now_s
        return self._sound.take(frames_max if self._may_score else 0)

    def judge(self, probabilities: Sequence[float]) -> None:
        """Take scores; see `VoiceListener`. Those of sound that was dropped meanwhile mean nothing."""
        self._core.counters.vad_ms.observe((self._core.now_s - self._given_s) * 1000)
        if self._given_in == self._generation:
            self._found.extend(self._endpointer.feed(probabilities).events)
            self._act()
        self._ask()

    def give_back(self) -> None:
        """Hear again what was handed out; see `VoiceListener`."""
        self._sound.rewind(self._endpointer.position_sample)

    def suspended(self) -> None:
        """Go on without detection for now; see `VoiceListener`."""
        self._lose("voice activity detection is down; commit by hand until it is back")

    def resumed(self) -> None:
        """Detect again, if the session wants it; see `VoiceListener`."""
        self._lost = self._told_lost = False
        detection = self._core.state.config.turn_detection
        if detection is not None:
            self.configure(detection)

    def unavailable(self) -> None:
        """Go on without detection; see `VoiceListener`."""
        self._line = None
        self._lose("voice activity detection is not available; commit by hand")

    def _lose(self, message: str) -> None:
        self._lost, was_on = True, self._core.detects
        if was_on:
            self._core.disarm_idle()
            self._stop_listening()
            self._tell_lost(message)

    def _tell_lost(self, message: str) -> None:
        if not self._told_lost:
            self._told_lost = True
            self._core.refuse(RealtimeError("server_vad_unavailable", message))

    def crashed(self, error: Exception) -> None:
        """Let the session's task fail; see `VoiceListener`."""
        self._line, self._crash = None, error
        self._woken.set()

    # ------------------------------------------------------------------ what follows from them

    def _act(self) -> None:
        """Act on what was found, in order; what lies behind the end of a turn waits until that is committed."""
        while self._found and self._ending is None:
            self._act_on(self._found.popleft())
        if self._endpointer.speech_active and self._ending is None:
            if self._speaks_too_long():
                position = self._endpointer.position_sample
                self._endpointer.reset()
                self._speech_ends(position, position)
            else:
                self._partials.maybe_request(self._speech_start, self.scored)
                if self._prepares_anew and self._endpointer.paused:
                    self._paused(self.scored)
        self._trim()

    def _act_on(self, event: EndpointEvent) -> None:
        match event:
            case SpeechStarted(start_sample=start):
                self._speech_begins(self._sound.line_position(start))
            case SpeechPaused(at_sample=at):
                self._paused(self._sound.line_position(at))
            case SpeechResumed():
                self._control.discard_prepared()
                detection = self._core.state.config.turn_detection
                if isinstance(detection, SemanticVad):
                    self._adopt(detection)
            case SpeechStopped(end_sample=end, speech_end_sample=speech_end):
                self._speech_ends(end, speech_end)

    def _paused(self, at: int) -> None:
        self._prepares_anew = False
        detection = self._core.state.config.turn_detection
        if detection is not None and detection.create_response:
            self._prepare(self._speech_start, at)

    def _speaks_too_long(self) -> bool:
        """Whether the turn must end without a pause.

        The input line has an end, and nothing behind that is heard.
        """
        timeline, limits = self._core.state.timeline, self._core.limits
        longest = int(limits.speech_s_max * timeline.sample_rate_hz)
        if self._keeps_speech:
            longest = min(longest, self._line_samples // 2)
        return self.scored - self._speech_start >= longest

    def _speech_begins(self, start: int) -> None:
        core, state = self._core, self._core.state
        self._speech_start = max(start, state.timeline.start) if self._keeps_speech else start
        self._partials.reset()
        core.disarm_idle()
        core.emit(speech_started(state, self._speech_start))
        core.log.info("speech.started", at_ms=state.timeline.position_ms(self._speech_start))
        self._overlap.speech_began(self._speech_start, self.scored)

    def _speech_ends(self, end_heard: int, speech_end_heard: int) -> None:
        core, state = self._core, self._core.state
        end = self._sound.line_position(end_heard)
        core.emit(speech_stopped(state, end))
        core.log.info("speech.stopped", at_ms=state.timeline.position_ms(end))
        detection = state.config.turn_detection
        if isinstance(detection, SemanticVad):
            self._adopt(detection)
        speech_end = self._sound.line_position(speech_end_heard)
        if core.units is not None:
            ago_s = (self.scored - speech_end) / state.timeline.sample_rate_hz
            core.units.waits.speech_ended(core.now_s - ago_s)
            return  # the model has heard the end itself
        self._ending = SpeechEndedWork(
            begin=self._speech_start,
            end=end,
            speech_end=speech_end,
            seq=core.command_seq,
            asks=detection is not None and detection.create_response,
        )
        self._woken.set()

    # ------------------------------------------------------------------ the line

    def _trim(self) -> None:
        """Forget sound that nobody can ask for any more."""
        state = self._core.state
        timeline = state.timeline
        if not self._core.detects:
            if self._core.units is not None:
                caught_up = min(int(CATCH_UP_S * timeline.sample_rate_hz), self._line_samples // 4)
                timeline.trim(timeline.end - caught_up)
            elif (
                timeline.end - timeline.start > QUIET_S_MAX * timeline.sample_rate_hz
                and self._overlap.judges
                and not state.speech_open
            ):
                timeline.trim(timeline.end - self._kept)
        elif not self._keeps_speech:
            timeline.trim(self.scored)
        elif not self._endpointer.speech_active and not state.speech_open and self._ending is None:
            timeline.trim(self.scored - self._kept)

    @property
    def _keeps_speech(self) -> bool:
        """Whether anybody reads the sound of speech: a model that owns its turns has it in units of its own."""
        capabilities = self._core.state.capabilities
        return self._core.units is None or capabilities.partial_transcript_interval_ms > 0

    def _kept_by(self, params: EndpointingParams) -> int:
        """Quiet samples that stay: speech may turn out to have begun in them.

        At most half of what a turn may hold in a small line, so that there is room for what is said.
        """
        kept_s = (params.prefix_padding_ms + params.min_speech_duration_ms) / 1000 + KEPT_BEFORE_SPEECH_S
        return min(int(kept_s * self._core.state.timeline.sample_rate_hz), self._line_samples // 4)

    @property
    def _line_samples(self) -> int:
        return self._core.state.timeline.bytes_max // BYTES_PER_SAMPLE

    # ------------------------------------------------------------------ the task

    async def run(self) -> None:
        """Have ended turns committed, until cancelled."""
        try:
            while True:
                await self._woken.wait()
                self._woken = trio.Event()
                if self._crash is not None:
                    raise self._crash
                await self._commit_ended()
        finally:
            if self._line is not None:
                self._line.close()
            self._partials.close()

    async def _commit_ended(self) -> None:
        work = self._ending
        if work is None:
            return
        await self._core.wait_in_line(work)
        await work.done.wait()
        self._ending = None
        self._act()
        self._ask()
