"""Recognition by Whisper, through CTranslate2.

Owns how much sound the encoder sees, when a transcript is doubted and redone, and when there was no speech at
all. What is sent here, partial hypotheses included, is decided by the session's plugin.

Theory of operation. Whisper was trained on 30 s windows, most of which is silence for a short utterance. The
encoder is therefore fed max(8 s, length + 2 s), which takes a fraction of the time at the same accuracy, but
can make the decoder loop. So the output is capped by the length of the sound, and a final transcript that
reaches the cap or repeats itself is made again with the whole window; a partial one only loses its
repetition. Longer sound is cut at quiet points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from duplex_trio.models.cascade.mel import SAMPLE_RATE_HZ, LogMel
from duplex_trio.models.cascade.speech_windows import split_at_quiet
from duplex_trio.models.cascade.whisper_text import (
    WhisperTokens,
    language_of_token,
    repetition_start,
    token_limit,
)
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.units import Pcm, SpeechSegment, Transcript
from duplex_trio.stages.worker import SerialWorker, UnitRefused

WINDOW_S = 30.0
SHORT_WINDOW_MIN_S = 8.0
SHORT_WINDOW_MARGIN_S = 2.0
_FRAMES_PER_S = 100

TOKENS_MAX = 224
"""Half of Whisper's text context of 448: the most that one window can hold."""

SILENCE_PEAK = 0.001
"""Sound that stays below -60 dBFS holds no speech worth a decoding."""
NO_SPEECH_PROBABILITY_MAX = 0.6
AVERAGE_LOG_PROBABILITY_MIN = -1.0
"""Whisper's own bounds (`no_speech_threshold`, `logprob_threshold`): beyond both there was no speech."""

_BEAM_FINAL = 5
_BEAM_PARTIAL = 1


@frozen
class _Hypothesis:
    ids: Sequence[int]
    average_log_probability: float
    no_speech_probability: float
    limit: int
    repetition_start: int | None

    @property
    def capped(self) -> bool:
        return len(self.ids) >= self.limit

    @property
    def doubtful(self) -> bool:
        return self.capped or self.repetition_start is not None

    @property
    def silent(self) -> bool:
        """Noise gives an improbable text, or a loop, whose tokens are probable once it runs."""
        improbable = self.average_log_probability < AVERAGE_LOG_PROBABILITY_MIN or self.doubtful
        return self.no_speech_probability > NO_SPEECH_PROBABILITY_MAX and improbable


class WhisperWorker(SerialWorker):
    """Turns each `SpeechSegment` into one `Transcript`. Finals go before partials, and a partial is dropped
    when anything newer of its request waits.

    Args:
        folder: a CTranslate2 Whisper model (`model.bin`, `config.json`, vocabulary) with `tokenizer.json`.
        compute_type: CTranslate2's number format, such as `int8` or `float32`.
        threads: cores that one decoding may use.
        device: `cpu`, `cuda` or `auto`.
        name: the stage's name in logs and metrics.
    """

    def __init__(
        self,
        folder: Path,
        *,
        compute_type: str = "int8",
        threads: int = 1,
        device: str = "cpu",
        name: str = "asr",
    ) -> None:
        super().__init__()
        self.name = name
        self._folder = folder
        self._compute_type = compute_type
        self._threads = threads
        self._device = device
        self._model: Any = None
        self._as_features: Any = None
        self._redone = 0

    def load(self) -> None:
        """Load the network and decode once.

        Raises:
            FileNotFoundError: the folder holds no CTranslate2 model or no tokenizer.
            ValueError: the model or its tokenizer is not Whisper's.
        """
        if not (self._folder / "model.bin").is_file():
            raise FileNotFoundError(
                f"{self._folder} holds no model.bin: a CTranslate2 Whisper model is needed"
            )
        import ctranslate2

        self._model = ctranslate2.models.Whisper(
            str(self._folder),
            device=self._device,
            compute_type=self._compute_type,
            intra_threads=self._threads,
        )
        self._as_features = ctranslate2.StorageView.from_array
        self._mel = LogMel(self._model.n_mels)
        self._tokens = WhisperTokens(self._folder, multilingual=self._model.is_multilingual)
        warm_up = np.sin(np.arange(SAMPLE_RATE_HZ, dtype=np.float32))
        self._decode(warm_up, window_s=SHORT_WINDOW_MIN_S, language="en", beam=_BEAM_FINAL, limit=4)

    def close(self) -> None:
        """Release the network."""
        self._model = None

    def statistics(self) -> dict[str, float]:
        """`redone_total`: transcripts that were made again with the whole window."""
        return {"redone_total": float(self._redone)}

    def priority(self, unit: SpeechSegment | None) -> int:
        """Finals first: somebody waits for the answer to them."""
        return int(unit is not None and unit.partial)

    def supersedes(self, older: SpeechSegment | None, newer: SpeechSegment | None) -> bool:
        """A waiting partial is pointless once there is newer sound."""
        return older is not None and older.partial and newer is not None

    def process(self, request: StageRequest, state: None, unit: SpeechSegment) -> Iterator[Transcript]:
        """Transcribe one segment.

        Raises:
            UnitRefused: `invalid_value`, the model does not know the language.
        """
        language = self._language(unit.language)
        sound = np.clip(np.nan_to_num(unit.pcm), -1.0, 1.0)
        heard = []
        for piece in split_at_quiet(sound, SAMPLE_RATE_HZ, longest_s=WINDOW_S):
            if piece.size and float(np.abs(piece).max()) >= SILENCE_PEAK:
                heard.append(self._recognise(piece, language, unit.partial))
        yield self._transcript(unit, heard)

    def _language(self, wanted: str | None) -> str | None:
        """The model's code for a BCP 47 tag; `None` lets a multilingual model listen for it."""
        if wanted is None:
            return None if self._model.is_multilingual else "en"
        code = wanted.replace("_", "-").split("-")[0].lower()
        if code not in self._tokens.languages:
            raise UnitRefused("invalid_value", f"the recogniser does not know the language {wanted!r}")
        return code

    def _recognise(self, pcm: Pcm, language: str | None, partial: bool) -> _Hypothesis:
        seconds = pcm.size / SAMPLE_RATE_HZ
        limit = min(token_limit(seconds), TOKENS_MAX)
        window_s = min(WINDOW_S, max(SHORT_WINDOW_MIN_S, seconds + SHORT_WINDOW_MARGIN_S))
        beam = _BEAM_PARTIAL if partial else _BEAM_FINAL
        first = self._decode(pcm, window_s=window_s, language=language, beam=beam, limit=limit)
        if partial or not first.doubtful or first.silent:
            return first
        self._redone += 1
        # Very fast speech may reach the first limit, so the second try has room to show that it ends by
        # itself.
        return self._decode(
            pcm, window_s=WINDOW_S, language=language, beam=beam, limit=min(2 * limit, TOKENS_MAX)
        )

    def _decode(
        self, pcm: Pcm, *, window_s: float, language: str | None, beam: int, limit: int
    ) -> _Hypothesis:
        frames = 2 * math.ceil(window_s * _FRAMES_PER_S / 2)
        encoded = self._model.encode(self._as_features(self._mel(pcm, frames)[None]))
        if language is None:
            language = language_of_token(self._model.detect_language(encoded)[0][0][0])
        prompt = self._tokens.prompt(language)
        result = self._model.generate(
            encoded,
            [prompt],
            beam_size=beam,
            max_length=2
            * limit,  # CTranslate2 generates at most half of it, like Whisper with its context of 448
            return_scores=True,
            return_no_speech_prob=True,
        )[0]
        ids = result.sequences_ids[0]
        again = repetition_start(self._tokens.keys(ids))
        return _Hypothesis(ids, result.scores[0], result.no_speech_prob, limit, again)

    def _transcript(self, unit: SpeechSegment, heard: Sequence[_Hypothesis]) -> Transcript:
        spoken = [hypothesis for hypothesis in heard if not hypothesis.silent]
        texts = [self._text(hypothesis, unit.partial) for hypothesis in spoken]
        tokens = [max(1, len(hypothesis.ids)) for hypothesis in spoken or heard]
        log_probabilities = [hypothesis.average_log_probability for hypothesis in spoken or heard]
        return Transcript(
            text=" ".join(text for text in texts if text),
            partial=unit.partial,
            duration_s=unit.pcm.size / SAMPLE_RATE_HZ,
            no_speech_probability=min((h.no_speech_probability for h in heard), default=1.0),
            average_log_probability=float(np.average(log_probabilities, weights=tokens)) if tokens else 0.0,
            token_count=sum(len(hypothesis.ids) for hypothesis in heard),
        )

    def _text(self, hypothesis: _Hypothesis, partial: bool) -> str:
        # What repeats itself with the whole window in view, and ends, was said so; what never ends was not.
        looped = partial or hypothesis.capped
        return self._tokens.text(hypothesis.ids[: hypothesis.repetition_start] if looped else hypothesis.ids)
