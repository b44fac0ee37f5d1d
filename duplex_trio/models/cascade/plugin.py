"""The cascade: recognition, a language model and synthesis, joined so that they work at the same time.

One request per turn. Sound enters at recognition; its transcript becomes a prompt; the answer is cut into
clauses while it is being written, and each clause is spoken while the next one is written. A turn without
sound enters at the language model, one whose answer is not to be heard ends there, and one that only needs
its transcript ends at recognition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from duplex_trio.models.cascade.clauses import ClauseSplitter
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.models.cascade.prompt import CountTokens, build_prompt
from duplex_trio.models.cascade.speech_text import speakable
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.plugin.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.plugin.results import (
    ListenResult,
    ModelResult,
    SpeechResult,
    TextResult,
    TurnEnd,
    UserTranscript,
)
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.units import (
    Clause,
    GenerationParams,
    Pcm,
    SpeechChunk,
    SpeechSegment,
    TextDelta,
    Transcript,
)

ASR, LLM, TTS = 0, 1, 2
PARTIAL_INTERVAL_MS = 500
"""Transcribing a growing buffer anew costs about 100 ms of one core, so twice a second is what a small
machine bears.
"""
SPECULATION_PAUSE_MS = 200
"""Long enough that a breath inside a word does not start an answer, short enough that it is ready at the
turn's end.
"""
SILENCE_DURATION_MS = 600
"""350 ms cut spoken turns of two sentences in half; 600 ms did not."""


@define(eq=False)
class CascadeRequest:
    """What the plugin keeps of one request."""

    turn: TurnInput
    clauses: ClauseSplitter = field(factory=ClauseSplitter)
    sentences: int = 0
    said_enough: bool = False
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def note_usage(self, delta: TextDelta) -> None:
        """Keep the totals so far, which every delta carries."""
        self.finish_reason = delta.finish_reason or self.finish_reason
        self.prompt_tokens = delta.prompt_tokens
        self.cached_tokens = delta.cached_tokens
        self.completion_tokens = delta.completion_tokens

    def end(self) -> TurnEnd:
        """The end of the turn with its totals."""
        return TurnEnd(
            finish_reason=self.finish_reason,
            input_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.completion_tokens,
        )


class CascadePlugin(DuplexModelPlugin):
    """Speech in, speech out, by three models.

    Args:
        profile: how the language model wants to be told things.
        voices: names of the synthesis voices; the first is the default.
        context_tokens: size of the language model's context.
        count_tokens: counts a prompt's tokens, so that a long conversation is cut to fit.
    """

    plugin_id = "cascade"
    input_sample_rate_hz = 16_000
    output_sample_rate_hz = 24_000
    default_silence_duration_ms = SILENCE_DURATION_MS

    def __init__(
        self,
        profile: ChatProfile,
        *,
        voices: Sequence[str],
        context_tokens: int | None = None,
        count_tokens: CountTokens | None = None,
    ) -> None:
        self._profile = profile
        self._context_tokens = context_tokens
        self._count_tokens = count_tokens
        self.voices = tuple(voices)
        self.default_voice = self.voices[0] if self.voices else None

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        """Everything a cascade can do; it takes no images and owns no turns."""
        return DuplexCapabilities(
            supports_text_only_turn=True,
            supports_session_resume=True,
            supports_multi_session=max_sessions > 1,
            partial_transcript_interval_ms=PARTIAL_INTERVAL_MS,
            speculation_pause_ms=SPECULATION_PAUSE_MS,
        )

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        """Plan one turn; see the module for its ways through the stages."""
        state = CascadeRequest(turn)
        final = ASR if not turn.respond else TTS if "audio" in turn.modalities else LLM
        if turn.pcm is not None:
            entry = StageForward(
                stage_id=ASR, unit=SpeechSegment(pcm=turn.pcm, language=turn.language), final=True
            )
        else:
            entry = self._ask(state, None)
        return TurnPlan(entry=entry, final_stage_id=final, state=state)

    def plan_partial(self, pcm: Pcm, language: str | None) -> StageForward | None:
        """A quick transcript of speech that goes on."""
        return StageForward(stage_id=ASR, unit=SpeechSegment(pcm=pcm, partial=True, language=language))

    def partial_transcript(self, output: StageOutput) -> str | None:
        """The text of a quick transcript."""
        return output.data.text if isinstance(output.data, Transcript) else None

    def forward(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[StageForward]:
        """Transcript to prompt, deltas to clauses."""
        state = _state_of(request)
        match output.data:
            case Transcript(text=text) if text:
                return [self._ask(state, text)]
            case TextDelta() as delta:
                return self._speak(state, delta)
        return ()

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        """What the client is told: the user's words, then text or sound, then the end with its totals."""
        state = _state_of(request)
        results: list[ModelResult] = []
        match output.data:
            case Transcript(text=text, duration_s=duration_s):
                results.append(UserTranscript(text=text, audio_duration_s=duration_s))
                if not text:
                    results.append(ListenResult(reason="silence_or_noise", model_listen=False))
            case TextDelta() as delta:
                if not state.said_enough:
                    state.note_usage(delta)
                if request.final_stage_id == LLM and delta.text:
                    results.append(TextResult(text=delta.text))
            case SpeechChunk(pcm=pcm, sample_rate_hz=rate, text=text):
                if len(pcm) or text:
                    results.append(SpeechResult(pcm=pcm, sample_rate_hz=rate, text=text))
        if output.finished and stage_id == request.final_stage_id and stage_id != ASR:
            results.append(state.end())
        return results

    def _ask(self, state: CascadeRequest, user_text: str | None) -> StageForward:
        turn, profile = state.turn, self._profile
        max_tokens = turn.max_output_tokens or profile.max_tokens
        room = None
        if self._context_tokens is not None:
            # A limit above the context is common among clients; it must not leave the prompt without room.
            room = self._context_tokens - min(max_tokens, self._context_tokens // 2)
        prompt = build_prompt(
            turn.conversation,
            instructions=turn.instructions,
            user_text=user_text,
            profile=profile,
            tokens_max=room,
            count_tokens=self._count_tokens,
        )
        params = GenerationParams(
            temperature=turn.temperature if turn.temperature is not None else profile.temperature,
            top_p=profile.top_p,
            repetition_penalty=profile.repetition_penalty,
            max_tokens=max_tokens,
        )
        return StageForward(stage_id=LLM, unit=prompt, params=params, final=True)

    def _speak(self, state: CascadeRequest, delta: TextDelta) -> Sequence[StageForward]:
        if state.said_enough:
            return ()
        ended = delta.finish_reason is not None
        texts = state.clauses.feed(delta.text)
        if ended:
            texts += state.clauses.flush()
        spoken: list[str] = []
        for text in filter(None, map(speakable, texts)):
            spoken.append(text)
            state.sentences += text.rstrip("\"')").endswith((".", "!", "?"))
            if self._says_enough(state):
                state.said_enough = ended = True
                break
        voice = state.turn.voice if state.turn.voice in self.voices else self.default_voice
        clauses = [
            Clause(text=text, voice=voice, speed=state.turn.speed)
            for text in (spoken or [""] if ended else spoken)
        ]
        return [
            StageForward(stage_id=TTS, unit=clause, final=ended and index == len(clauses) - 1)
            for index, clause in enumerate(clauses)
        ]

    def _says_enough(self, state: CascadeRequest) -> bool:
        """Whether the answer may end here; when synthesis has finished, the language model is stopped too."""
        most = self._profile.sentences_max
        return most is not None and state.turn.max_output_tokens is None and state.sentences >= most


def _state_of(request: RequestView) -> CascadeRequest:
    state: Any = request.state
    assert isinstance(state, CascadeRequest)
    return state
