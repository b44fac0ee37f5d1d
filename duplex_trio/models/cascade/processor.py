"""The cascade: recognition, a language model and synthesis, joined so that they work at the same time.

One request per turn. Sound enters at recognition; its transcript becomes a prompt; the answer is cut into
clauses while it is being written, and each clause is spoken while the next one is written. A turn without
sound enters at the language model, one whose answer is not to be heard ends there, and one that only needs
its transcript ends at recognition. Calls of functions leave the answer on its way; for one that does not fit
the language model is asked once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from attrs import define

from duplex_trio.models.calling.guides import Guide, call_guide
from duplex_trio.models.calling.watch import CallWatch
from duplex_trio.models.calling.wording import fault_told
from duplex_trio.models.cascade.answer import Answer
from duplex_trio.models.cascade.functions import calling_of, check_tools
from duplex_trio.models.cascade.params import generation_params
from duplex_trio.models.cascade.profiles import ChatProfile, with_sampling
from duplex_trio.models.cascade.prompt import CountTokens, build_prompt
from duplex_trio.models.cascade.settings import ASR, LLM, TTS, CascadeFamily, ContextTokens
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.processor import TurnProcessor
from duplex_trio.pipelines.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.pipelines.results import (
    ListenResult,
    ModelFailure,
    ModelResult,
    UserTranscript,
)
from duplex_trio.protocol.sampling import KNOBS
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.units import (
    ChatMessage,
    ChatPrompt,
    SpeechChunk,
    SpeechSegment,
    TextDelta,
    Transcript,
)

CALL_FAULT = "function_call_invalid"
"""Code of a response whose call could not be made, nor the one that was written in its place."""


@define(eq=False)
class CascadeRequest:
    """What is kept of one request: its answer, its prompt, and what goes to the next stage."""

    turn: TurnInput
    answer: Answer
    prompt: ChatPrompt | None = None
    guide: Guide | None = None
    forwards: Sequence[StageForward] = ()


class CascadeProcessor(TurnProcessor):
    """Speech in, speech out, by three models.

    Args:
        profile: how the language model wants to be told things.
        voices: names of the synthesis voices; the first is the default.
        context_tokens: size of the language model's context, or what tells it.
        count_tokens: counts a prompt's tokens, so that a long conversation is cut to fit.
        guided: the language model's stage can hold an answer to a grammar (`structured_outputs`).
        knobs: what a turn may say of its sampling; by default all that such a stage can do.
    """

    input_sample_rate_hz = 16_000
    output_sample_rate_hz = 24_000
    supports_tools = True
    speaks_at_speed = True

    def __init__(
        self,
        profile: ChatProfile,
        *,
        voices: Sequence[str],
        context_tokens: ContextTokens = None,
        count_tokens: CountTokens | None = None,
        guided: bool = False,
        knobs: frozenset[str] | None = None,
    ) -> None:
        self._guided = guided
        able = KNOBS if guided else KNOBS - {"json_schema"}
        self.sampling_knobs = able if knobs is None else knobs
        self._profile = profile
        self._context_tokens = context_tokens
        self._count_tokens = count_tokens
        self.voices = tuple(voices)
        self.default_voice = self.voices[0] if self.voices else None

    def check_tools(self, tools: Sequence[Mapping[str, Any]], param: str) -> None:
        """Refuse functions whose parameters are no JSON schema; see `TurnProcessor`."""
        check_tools(tools, param)

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        """Plan one turn; see the module for its ways through the stages."""
        voice = turn.voice if turn.voice in self.voices else self.default_voice
        answer = Answer(turn, voice=voice, sentences_max=self._profile.sentences_max)
        state = CascadeRequest(turn, answer)
        # Behind a call that is none, the language model is asked once more, which its last stage cannot be.
        last = TTS if "audio" in turn.modalities or turn.tools else LLM
        final = last if turn.respond else ASR
        if turn.pcm is not None:
            entry = StageForward(
                stage_id=ASR, unit=SpeechSegment(pcm=turn.pcm, language=turn.language), final=True
            )
        else:
            entry = self._ask(state, None)
        return TurnPlan(entry=entry, final_stage_id=final, state=state)

    def forward(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[StageForward]:
        """Transcript to prompt, deltas to clauses."""
        state = _state_of(request)
        match output.data:
            case Transcript(text=text) if text:
                return [self._ask(state, text)]
            case TextDelta():
                return state.forwards
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
                results += self._written(state, delta)
            case SpeechChunk() as chunk:
                results += state.answer.speak(chunk)
                if output.finished:
                    results.append(state.answer.end())
        return results

    def _written(self, state: CascadeRequest, delta: TextDelta) -> list[ModelResult]:
        answer = state.answer
        piece = answer.write(delta)
        results, clauses = list(piece.results), piece.clauses
        if (usage := answer.usage) is not None:
            results.append(usage)
        state.forwards = [
            StageForward(stage_id=TTS, unit=clause, final=piece.over and index == len(clauses) - 1)
            for index, clause in enumerate(clauses)
        ]
        if delta.finish_reason is not None and answer.fault is not None:
            if answer.retried:
                results.append(ModelFailure(code=CALL_FAULT, message=answer.fault))
            else:
                state.forwards = [*state.forwards, self._ask_again(state)]
        elif piece.over and not answer.spoke:
            results.append(answer.end())
        return results

    def _ask(self, state: CascadeRequest, user_text: str | None) -> StageForward:
        turn, profile = state.turn, self._profile
        max_tokens = turn.max_output_tokens or profile.max_tokens
        room = None
        context_tokens = self._context_tokens
        if callable(context_tokens):
            context_tokens = context_tokens()
        if context_tokens is not None:
            # A limit above the context is common among clients; it must not leave the prompt without room.
            room = context_tokens - min(max_tokens, context_tokens // 2)
        calling = calling_of(turn, user_text, profile)
        if self._guided:
            state.guide = call_guide(
                calling.tools, calling.choice, parallel=turn.parallel_tool_calls, tagged=profile.tags_calls
            )
        state.answer.watch = self._new_watch(state)
        state.prompt = build_prompt(
            turn.conversation,
            instructions=turn.instructions,
            user_text=user_text,
            profile=profile,
            audible="audio" in turn.modalities,
            tools=calling.tools,
            tool_choice=calling.choice,
            tokens_max=room,
            count_tokens=self._count_tokens,
            truncation=turn.truncation,
        )
        return self._to_language_model(state, state.prompt)

    def _ask_again(self, state: CascadeRequest) -> StageForward:
        """Tell the model what was wrong with its call, the one time."""
        answer = state.answer
        assert state.prompt is not None
        assert answer.watch is not None
        wrong = [
            ChatMessage(role="assistant", content=answer.watch.written),
            ChatMessage(role="user", content=fault_told(answer.watch.fault or "")),
        ]
        answer.begin_again(self._new_watch(state))
        return self._to_language_model(
            state, attrs.evolve(state.prompt, messages=[*state.prompt.messages, *wrong])
        )

    def _new_watch(self, state: CascadeRequest) -> CallWatch | None:
        turn, guide = state.turn, state.guide
        if not turn.tools:
            return None
        # A stop string may end the answer within a call, which then was none: it is told when it is whole.
        exact = guide is not None and guide.exact and not turn.sampling.stop
        return CallWatch(turn.tools, parallel=turn.parallel_tool_calls, exact=exact)

    def _to_language_model(self, state: CascadeRequest, prompt: ChatPrompt) -> StageForward:
        params = generation_params(state.turn, self._profile, state.guide)
        return StageForward(stage_id=LLM, unit=prompt, params=params, final=True)


def make_processor(pipeline: Pipeline) -> CascadeProcessor:
    """The cascade's logic with what its pipeline knows of the models."""
    return CascadeProcessor(**known_of(pipeline))


def known_of(pipeline: Pipeline) -> dict[str, Any]:
    """What a pipeline knows of the models, and its deployment says of sampling, as arguments."""
    assert isinstance(pipeline, CascadeFamily)
    settings = pipeline.settings()
    profile = with_sampling(settings.profile, pipeline.deploy.stage(LLM).default_sampling_params)
    return attrs.asdict(attrs.evolve(settings, profile=profile), recurse=False)


def _state_of(request: RequestView) -> CascadeRequest:
    state: Any = request.state
    assert isinstance(state, CascadeRequest)
    return state
