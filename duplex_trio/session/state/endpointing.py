"""Where speech begins and ends: the server-VAD frame machine.

Owns the hysteresis over speech probabilities and the sample clock of what has been scored. Takes one
probability per 512-sample frame of 16 kHz sound, in order, and answers with events; it neither scores sound
nor commits a turn.

Theory of operation. Quiet: frames at or above `threshold` grow a candidate, any lower frame drops it; a
candidate of `min_speech_duration_ms` is speech. Speech: a frame at or above `threshold` stops the silence
timer; one below the lower bound advances it; one between the two bounds advances it only if it runs already.
The timer ends speech at `silence_duration_ms`, and on its way there reports a pause once at `pause_ms`, which
the next frame at or above `threshold` takes back. Durations are compared in whole frames of 32 ms.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, field, frozen
from attrs.validators import and_, ge, gt, le, optional

from duplex_trio.stages.units import VAD_FRAME_SAMPLES, VAD_RATE_HZ

SAMPLES_PER_MS = VAD_RATE_HZ // 1000
HYSTERESIS = 0.15
"""How far below the threshold a frame must be to count as silence while speech is active."""
NEGATIVE_THRESHOLD_MIN = 0.01


@frozen(kw_only=True)
class EndpointingParams:
    """When speech counts as begun and ended.

    `pause_ms` is the quiet after which a speculative reply may start; `None`, or a value not below
    `silence_duration_ms`, reports no pauses.

    Raises:
        ValueError: a value is out of its range (0.15 < threshold <= 1, durations >= 0).
    """

    threshold: float = field(default=0.5, validator=and_(gt(HYSTERESIS), le(1.0)))
    prefix_padding_ms: int = field(default=300, validator=ge(0))
    silence_duration_ms: int = field(default=500, validator=ge(0))
    min_speech_duration_ms: int = field(default=96, validator=ge(0))
    pause_ms: int | None = field(default=None, validator=optional(ge(0)))

    @property
    def negative_threshold(self) -> float:
        """Below this a frame of active speech is silence."""
        return max(self.threshold - HYSTERESIS, NEGATIVE_THRESHOLD_MIN)


@frozen
class SpeechStarted:
    """Speech began.

    `start_sample` includes the prefix padding, as far as that sound is still part of the input.
    """

    start_sample: int

    @property
    def audio_start_ms(self) -> int:
        """The start on the session's input clock, in milliseconds."""
        return self.start_sample // SAMPLES_PER_MS


@frozen
class SpeechPaused:
    """Active speech has been quiet for `pause_ms`; `at_sample` is the end of the frame that completed it."""

    at_sample: int


@frozen
class SpeechResumed:
    """Speech came back after a pause; `at_sample` is the start of its first frame."""

    at_sample: int


@frozen
class SpeechStopped:
    """Speech ended. `end_sample` is the end of the deciding frame, so the trailing silence is included.

    `speech_end_sample` is the end of its last frame at or above the threshold: where the speaker fell silent.
    """

    end_sample: int
    speech_end_sample: int

    @property
    def audio_end_ms(self) -> int:
        """The end on the session's input clock, in milliseconds."""
        return self.end_sample // SAMPLES_PER_MS


EndpointEvent = SpeechStarted | SpeechPaused | SpeechResumed | SpeechStopped


@frozen
class Endpointing:
    """What a run of frames came to.

    `is_speech`: speech was active at any time in the run. `should_commit`: speech stopped and did not start
    again.
    """

    events: tuple[EndpointEvent, ...]
    is_speech: bool
    speech_active: bool
    max_probability: float

    @property
    def should_commit(self) -> bool:
        """Whether the run ended a turn and left none open."""
        return not self.speech_active and any(isinstance(event, SpeechStopped) for event in self.events)


@define
class Endpointer:
    """The frame machine of one session. Parameters may be replaced between frames; state and clock stay.

    `position_sample` counts the samples scored since the session began. `last_speech_sample` is the end of
    the last frame at or above the threshold since the last reset, `None` before the first; `max_probability`
    is the highest score since then.
    """

    params: EndpointingParams = field(factory=EndpointingParams)
    position_sample: int = field(default=0, init=False)
    speech_active: bool = field(default=False, init=False)
    paused: bool = field(default=False, init=False)
    last_speech_sample: int | None = field(default=None, init=False)
    max_probability: float = field(default=0.0, init=False)
    _floor_sample: int = field(default=0, init=False)
    _candidate_samples: int = field(default=0, init=False)
    _silence_samples: int = field(default=0, init=False)

    def configure(self, params: EndpointingParams) -> None:
        """Judge the following frames by other parameters. Running timers keep what they have counted."""
        self.params = params

    def reset(self) -> None:
        """Forget speech in progress. The clock goes on; no later start reaches back before this moment."""
        self._floor_sample = self.position_sample
        self._end_speech()
        self.last_speech_sample = None
        self.max_probability = 0.0

    def feed(self, probabilities: Iterable[float]) -> Endpointing:
        """Judge the frames of one append, in order."""
        events: list[EndpointEvent] = []
        is_speech = self.speech_active
        highest = 0.0
        for probability in probabilities:
            events.extend(self.frame(probability))
            is_speech = is_speech or self.speech_active
            highest = max(highest, probability)
        return Endpointing(tuple(events), is_speech, self.speech_active, highest)

    def frame(self, probability: float) -> tuple[EndpointEvent, ...]:
        """Judge one frame of 512 samples by its speech probability in [0, 1]; at most one event results."""
        self.position_sample += VAD_FRAME_SAMPLES
        self.max_probability = max(self.max_probability, probability)
        loud = probability >= self.params.threshold
        if loud:
            self.last_speech_sample = self.position_sample
        event = self._active_frame(probability, loud) if self.speech_active else self._quiet_frame(loud)
        return () if event is None else (event,)

    def _quiet_frame(self, loud: bool) -> EndpointEvent | None:
        if not loud:
            self._candidate_samples = 0
            return None
        self._candidate_samples += VAD_FRAME_SAMPLES
        if self._candidate_samples < self.params.min_speech_duration_ms * SAMPLES_PER_MS:
            return None
        first_sample = self.position_sample - self._candidate_samples
        padded = first_sample - self.params.prefix_padding_ms * SAMPLES_PER_MS
        self._candidate_samples = 0
        self.speech_active = True
        return SpeechStarted(max(self._floor_sample, padded))

    def _active_frame(self, probability: float, loud: bool) -> EndpointEvent | None:
        if loud:
            self._silence_samples = 0
            if not self.paused:
                return None
            self.paused = False
            return SpeechResumed(self.position_sample - VAD_FRAME_SAMPLES)
        if probability >= self.params.negative_threshold and not self._silence_samples:
            return None
        self._silence_samples += VAD_FRAME_SAMPLES
        if self._silence_samples >= self.params.silence_duration_ms * SAMPLES_PER_MS:
            self._end_speech()
            assert self.last_speech_sample is not None
            return SpeechStopped(self.position_sample, self.last_speech_sample)
        return self._pause()

    def _pause(self) -> EndpointEvent | None:
        pause_ms = self.params.pause_ms
        if self.paused or pause_ms is None or self._silence_samples < pause_ms * SAMPLES_PER_MS:
            return None
        self.paused = True
        return SpeechPaused(self.position_sample)

    def _end_speech(self) -> None:
        self.speech_active = False
        self.paused = False
        self._candidate_samples = 0
        self._silence_samples = 0
