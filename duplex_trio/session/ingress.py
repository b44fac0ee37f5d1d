"""The user's sound and pictures on their way in: decoded, resampled and stored as they arrive.

`append` is called by the socket's reader for every message, so it is synchronous and does nothing but decode,
resample and store. What is said in the sound is found by `detector`, which follows behind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from duplex_trio.protocol.duplex import NO_HINTS, AppendAudio, RealtimeError
from duplex_trio.protocol.duplex.audio import AudioInputDecoder, parse_format
from duplex_trio.session.core import SessionCore
from duplex_trio.session.detector import SpeechDetector
from duplex_trio.session.figures import DECODES_PER_SAMPLE
from duplex_trio.session.overlap import OverlapJudge
from duplex_trio.session.state.input_timeline import BYTES_PER_SAMPLE
from duplex_trio.session.state.modalities import check_append_modalities
from duplex_trio.stages.units import Pcm

_NO_SOUND: Pcm = np.zeros(0, np.float32)


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

    def append(self, command: AppendAudio, received_s: float) -> None:
        """Take one append that came at `received_s`: decode, resample, judge, store.

        Raises:
            RealtimeError: `invalid_input_modality`, `unsupported_audio_format`, `bad_audio` or
                `input_backpressure`; the append is dropped, the session goes on.
        """
        core, state = self._core, self._core.state
        frames = command.video_frames
        check_append_modalities(state.capabilities, audio=bool(command.audio), video=bool(frames))
        if not command.audio:
            self._show(command, received_s)
            return
        decoder = self._decoder_for(command)
        samples = decoder.samples_of(len(command.audio))
        self._require_room(samples, frames)
        timed = core.command_seq % DECODES_PER_SAMPLE == 0
        pcm = self._timed(decoder, command.audio) if timed else decoder.feed(command.audio)
        # Nothing is refused from here on, and nothing was changed before.
        if decoder is not self._decoder:
            self.flush()
            self._decoder = decoder
        hints = command.hints
        if hints is NO_HINTS and not self._overlap.judges:
            state.heard.unjudged = True
        elif not self._overlap.hear(command, pcm, received_s):
            pcm = np.zeros_like(pcm)
        if frames and hints.overlap_intent != "drop":
            state.frames.put(frames)
        if core.units is not None:
            core.units.line.feed(pcm, force_listen=hints.force_listen)
        state.timeline.append(pcm, received_s)
        core.touch(received_s)
        self._detector.heard()

    def _timed(self, decoder: AudioInputDecoder, audio: bytes) -> Pcm:
        core = self._core
        begin_s = core.now_s
        pcm = decoder.feed(audio)
        core.counters.decode_ms.observe((core.now_s - begin_s) * 1000)
        return pcm

    def _show(self, command: AppendAudio, received_s: float) -> None:
        """Take an append of pictures alone; what it says about a response in progress counts as of any other."""
        self._require_room(0, command.video_frames)
        if command.hints is not NO_HINTS or self._overlap.judges:
            self._overlap.hear(command, _NO_SOUND, received_s)
        if command.hints.overlap_intent != "drop":
            self._core.state.frames.put(command.video_frames)
        self._core.touch()

    def _require_room(self, samples: int, frames: Sequence[bytes]) -> None:
        """Sound and pictures share one bound.

        Raises:
            RealtimeError: `input_backpressure`.
        """
        state, units = self._core.state, self._core.units
        beside = state.frames.bytes_with(frames)
        if frames:
            line_bytes = 0 if units is None else units.line.held_bytes
            held = max(state.timeline.held_bytes, line_bytes) + samples * BYTES_PER_SAMPLE
            if held + beside > state.limits.pending_input_bytes_max:
                raise RealtimeError(
                    "input_backpressure",
                    f"{held} bytes of sound wait already, and no room is left for the frames",
                    param="video_frames",
                )
        state.timeline.require_room(samples, beside)
        if units is not None:
            units.line.require_room(samples, beside)

    def flush(self) -> None:
        """The client ends its utterance, or goes on in another format: take in what the resampler still holds."""
        if self._decoder is not None:
            tail = self._decoder.flush()
            if len(tail):
                if self._core.units is not None:
                    self._core.units.line.feed(tail)
                self._core.state.timeline.append(tail, self._core.now_s)

    def round_off(self) -> None:
        """Sound up to here is about to be dropped: what the resampler still holds counts for the clock alone."""
        if self._decoder is not None:
            self._core.state.timeline.append(self._decoder.flush(), self._core.now_s)

    def drop(self) -> None:
        """Sound up to here is dropped."""
        if self._decoder is not None:
            self._decoder.reset()
        self._core.state.frames.clear()
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
