"""The user's sound on its way in: decoded, resampled and stored as it arrives.

`append` is called by the socket's reader for every message, so it is synchronous and does nothing but decode,
resample and store. What is said in the sound is found by `detector`, which follows behind.
"""

from __future__ import annotations

from duplex_trio.protocol.duplex import NO_HINTS, AppendAudio, RealtimeError
from duplex_trio.protocol.duplex.audio import AudioInputDecoder, parse_format
from duplex_trio.session.core import SessionCore
from duplex_trio.session.detector import SpeechDetector
from duplex_trio.session.figures import DECODES_PER_SAMPLE
from duplex_trio.session.overlap import OverlapJudge
from duplex_trio.stages.units import Pcm


class SessionIngress:
    """Input of one session.

    Args:
        core: the session.
        detector: is told of sound that is stored and of sound that is dropped.
        overlap: judges sound, and decides what it does to a response.
    """

    def __init__(self, core: SessionCore, detector: SpeechDetector, overlap: OverlapJudge) -> None:
        self._core = core
        self._detector = detector
        self._overlap = overlap
        self._decoder: AudioInputDecoder | None = None

    def append(self, command: AppendAudio) -> None:
        """Take one append: decode, resample, judge, store.

        Raises:
            RealtimeError: `invalid_input_modality`, `unsupported_audio_format`, `bad_audio` or
                `input_backpressure`; the append is dropped, the session goes on.
        """
        core, state = self._core, self._core.state
        capabilities = state.capabilities
        if command.video_frames and "video" not in capabilities.optional_input_modalities:
            raise RealtimeError("invalid_input_modality", "the model takes no video", param="video_frames")
        if not command.audio:
            raise RealtimeError("invalid_input_modality", "the append holds no audio", param="audio")
        decoder = self._decoder_for(command)
        samples = decoder.samples_of(len(command.audio))
        state.timeline.require_room(samples)
        if core.units is not None:
            core.units.line.require_room(samples)
        pcm = self._decode(decoder, command.audio)
        # Nothing is refused from here on, and nothing was changed before.
        self._decoder = decoder
        hints = command.hints
        if hints is not NO_HINTS or self._overlap.judges:
            pcm = self._overlap.hear(command, pcm)
        else:
            state.heard.unjudged = True
        if core.units is not None:
            core.units.line.feed(pcm, force_listen=hints.force_listen)
        state.timeline.append(pcm, core.now_s)
        core.touch()
        self._detector.heard()

    def _decode(self, decoder: AudioInputDecoder, audio: bytes) -> Pcm:
        core = self._core
        if core.command_seq % DECODES_PER_SAMPLE:
            return decoder.feed(audio)
        begin_s = core.now_s
        pcm = decoder.feed(audio)
        core.counters.decode_ms.observe((core.now_s - begin_s) * 1000)
        return pcm

    def flush(self) -> None:
        """The client ends its utterance: take in what the resampler still holds."""
        if self._decoder is not None:
            tail = self._decoder.flush()
            if len(tail):
                if self._core.units is not None:
                    self._core.units.line.feed(tail)
                self._core.state.timeline.append(tail, self._core.now_s)

    def drop(self) -> None:
        """Sound up to here is dropped, what the resampler still holds with it."""
        if self._decoder is not None:
            self._decoder.reset()
        if self._core.units is not None:
            self._core.units.line.clear()
        self._detector.restart()

    def _decoder_for(self, command: AppendAudio) -> AudioInputDecoder:
        declared = self._core.state.config.input_format
        if command.format is not None or command.sample_rate_hz is not None:
            declared = parse_format(
                command.format,
                direction="input",
                rate=command.sample_rate_hz,
                param="format",
                current=declared,
                duplex_names=self._core.state.dialect == "duplex",
            )
        if self._decoder is not None and self._decoder.matches(declared):
            return self._decoder
        return AudioInputDecoder(declared, self._core.plugin.input_sample_rate_hz)
