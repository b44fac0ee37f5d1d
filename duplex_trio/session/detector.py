"""Where the user's speech begins and ends, found in a task that follows behind the input line.

The task lets the voice-activity stage score what is stored, one job in flight, and acts on what the
endpointer makes of it: speech that begins interrupts, a pause prepares an answer, its end commits the turn.
Storing sound is `ingress`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio
from attrs import frozen

from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.protocol.duplex.session import SemanticVad, ServerVad, TurnDetection
from duplex_trio.session.control import SessionControl
from duplex_trio.session.core import SessionCore
from duplex_trio.session.partials import PartialTranscripts
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
from duplex_trio.stages.port import StageStream
from duplex_trio.stages.units import VadFrames, VadScores

DETECTOR_RATE_HZ = 16_000
FRAME_SAMPLES = 512
"""One detector frame: 32 ms at `DETECTOR_RATE_HZ`."""
FRAMES_PER_JOB_MAX = 32
"""About one second of sound a job, so that a backlog is worked off in pieces."""
KEPT_BEFORE_SPEECH_S = 2.0
"""Quiet sound kept beside the padding, for a client that commits by hand."""

Prepare = Callable[[int, int], None]
"""Computes an answer to the speech in a range of the input line and holds it."""


class SpeechDetector:
    """Detection of speech in one session.

    Args:
        core: the session.
        control: for interrupting and for throwing prepared turns away.
        prepare: makes a prepared turn.
    """

    def __init__(self, core: SessionCore, control: SessionControl, prepare: Prepare) -> None:
        self._core = core
        self._control = control
        self._prepare = prepare
        self._endpointer = Endpointer()
        self._generation = 0
        self._frames_ready = trio.Event()
        self._vad_failed = False
        self._speech_start = 0
        self._partials = PartialTranscripts(core)
        self.configure(core.state.config.turn_detection)

    # ------------------------------------------------------------------ called as things happen

    def heard(self) -> None:
        """Sound was added to the input line."""
        if self._core.units is not None and not self._detects:
            self._trim_to(self._core.state.timeline.end)
        self._wake_detector()

    def restart(self) -> None:
        """Sound up to here was committed or dropped: detection starts anew behind it."""
        self._generation += 1
        behind = self._core.state.timeline.end - self._endpointer.position_sample
        self._endpointer.skip(max(0, behind))
        self._partials.reset()

    @property
    def scored(self) -> int:
        """Position on the input line up to which the detector has judged."""
        return self._endpointer.position_sample

    def configure(self, detection: TurnDetection | None) -> None:
        """Adopt the turn detection of the session."""
        if detection is None:
            self._generation += 1
            self._endpointer.reset()
            return
        if (
            self._core.state.timeline.end
            > self._endpointer.position_sample + FRAME_SAMPLES * FRAMES_PER_JOB_MAX
        ):
            self.restart()
        self._endpointer.configure(self._params(detection))
        self._wake_detector()

    def note_prepared_transcript(self, text: str) -> None:
        """What was said before the current pause.

        With semantic detection a complete sentence ends the turn soon.
        """
        detection = self._core.state.config.turn_detection
        if isinstance(detection, SemanticVad) and text.rstrip().endswith((".", "?", "!")):
            quiet_ms = self._core.plugin.default_silence_duration_ms
            self._endpointer.configure(self._params(detection, silence_ms=quiet_ms))

    def _params(self, detection: TurnDetection, *, silence_ms: int | None = None) -> EndpointingParams:
        pause_ms = self._core.state.capabilities.speculation_pause_ms or None
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

    # ------------------------------------------------------------------ the detector's task

    async def run(self) -> None:
        """Score and judge what is stored until cancelled."""
        core = self._core
        stream = self._open_detector()
        try:
            while True:
                await self._wait_for_frames()
                scores = await self._score(stream)
                if scores is None:
                    self._fail()
                    return
                if scores.generation == self._generation and core.state.config.turn_detection is not None:
                    await self._act(self._endpointer.feed(scores.probabilities).events)
                    self._trim()
        finally:
            if stream is not None:
                stream.abort()
            self._partials.close()

    def _open_detector(self) -> StageStream | None:
        # The endpointer counts in samples of the detector, so sound at another rate is not judged at all.
        if self._core.plugin.input_sample_rate_hz != DETECTOR_RATE_HZ:
            return None
        return self._core.port.open_vad(self._core.state.session_id)

    async def _wait_for_frames(self) -> None:
        while True:
            self._frames_ready = trio.Event()
            if self._frames_waiting() > 0:
                await trio.lowlevel.checkpoint()
                return
            await self._frames_ready.wait()

    async def _score(self, stream: StageStream | None) -> _Scores | None:
        if stream is None:
            return None
        begin = self._endpointer.position_sample
        count = min(self._frames_waiting(), FRAMES_PER_JOB_MAX)
        generation = self._generation
        pcm = self._core.state.timeline.read(begin, begin + count * FRAME_SAMPLES)
        try:
            stream.submit_nowait(VadFrames(pcm))
            output = await stream.outputs.receive()
        except (trio.BrokenResourceError, trio.EndOfChannel):
            return None
        stream.consumed()
        assert isinstance(output.data, VadScores)
        return _Scores(generation, [float(p) for p in output.data.probabilities])

    async def _act(self, events: Sequence[EndpointEvent]) -> None:
        state = self._core.state
        for event in events:
            match event:
                case SpeechStarted(start_sample=start):
                    self._speech_begins(start)
                case SpeechPaused(at_sample=at):
                    detection = state.config.turn_detection
                    if detection is not None and detection.create_response:
                        self._prepare(self._speech_start, at)
                case SpeechResumed():
                    self._control.discard_prepared()
                    detection = state.config.turn_detection
                    if isinstance(detection, SemanticVad):
                        self._endpointer.configure(self._params(detection))
                case SpeechStopped(end_sample=end, speech_end_sample=speech_end):
                    await self._speech_ends(end, speech_end)
        if self._endpointer.speech_active and self._speaks_too_long():
            position = self._endpointer.position_sample
            self._endpointer.reset()
            await self._speech_ends(position, position)
        if self._endpointer.speech_active:
            self._partials.maybe_request(self._speech_start, self._endpointer.position_sample)

    def _speaks_too_long(self) -> bool:
        """Whether the turn must end without a pause: the input line has an end, and nothing behind that is heard."""
        timeline, limits = self._core.state.timeline, self._core.limits
        room = timeline.bytes_max // BYTES_PER_SAMPLE
        longest = min(int(limits.speech_s_max * timeline.sample_rate_hz), room * 3 // 4)
        return self._endpointer.position_sample - self._speech_start >= longest

    def _speech_begins(self, start: int) -> None:
        core, state = self._core, self._core.state
        self._speech_start = max(start, state.timeline.start)
        self._partials.reset()
        core.disarm_idle()
        interrupts = state.interruptible(core.now_s)
        core.emit(speech_started(state, self._speech_start))
        core.log.info("speech.started", at_ms=state.timeline.position_ms(self._speech_start))
        if interrupts:
            detection = state.config.turn_detection
            interrupt = (
                detection is not None
                and detection.interrupt_response
                and state.capabilities.supports_barge_in
            )
            self._control.speech_over_response(interrupt=interrupt)

    async def _speech_ends(self, end: int, speech_end: int) -> None:
        core, state = self._core, self._core.state
        core.emit(speech_stopped(state, end))
        core.log.info("speech.stopped", at_ms=state.timeline.position_ms(end))
        detection = state.config.turn_detection
        if isinstance(detection, SemanticVad):
            self._endpointer.configure(self._params(detection))
        if core.units is not None:
            return  # the model has heard the end itself
        work = SpeechEndedWork(
            begin=self._speech_start,
            end=end,
            speech_end=speech_end,
            seq=core.command_seq,
            asks=detection is not None and detection.create_response,
        )
        await core.wait_in_line(work)
        # Until it is committed its sound must not be trimmed, and new speech must not take its item's id.
        await work.done.wait()

    def _trim(self) -> None:
        if not self._endpointer.speech_active and not self._core.state.speech_open:
            self._trim_to(self._endpointer.position_sample)

    def _trim_to(self, position: int) -> None:
        timeline = self._core.state.timeline
        kept = self._endpointer.params.prefix_padding_ms / 1000 + KEPT_BEFORE_SPEECH_S
        timeline.trim(position - int(kept * timeline.sample_rate_hz))

    @property
    def _detects(self) -> bool:
        return not self._vad_failed and self._core.state.config.turn_detection is not None

    def _frames_waiting(self) -> int:
        if not self._detects:
            return 0
        return (self._core.state.timeline.end - self._endpointer.position_sample) // FRAME_SAMPLES

    def _wake_detector(self) -> None:
        if not self._frames_ready.is_set() and self._frames_waiting() > 0:
            self._frames_ready.set()

    def _fail(self) -> None:
        self._vad_failed = True
        self._core.refuse(
            RealtimeError(
                "server_vad_unavailable", "voice activity detection is not available; commit by hand"
            )
        )


@frozen(eq=False)
class _Scores:
    generation: int
    probabilities: list[float]
