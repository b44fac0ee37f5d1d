"""A scripted model that answers whole turns and thinks about the next one while it still speaks.

Two stages: the mind hears a turn and writes its answer, the voice speaks it, word by word. Once the answer is
written the mind is free, and the next turn may enter it although the voice is busy for a long time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.models.scripted.mind import MindStep, MindTurn, MindWorker
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.workers import ASR_RATE_HZ, TTS_RATE_HZ, EnergyVad, ScriptedTts
from duplex_trio.pipelines.config import PipelineConfig, StageSpec
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.processor import TurnProcessor
from duplex_trio.pipelines.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.pipelines.results import (
    FunctionCallResult,
    ListenResult,
    ModelContext,
    ModelResult,
    SpeechResult,
    TextResult,
    TokenUsage,
    TurnEnd,
    UserTranscript,
)
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.units import Clause, SpeechChunk
from duplex_trio.stages.worker import StageWorker

MIND, VOICE = 0, 1


@define(eq=False)
class TurnsRequest:
    """What the processor keeps of one request."""

    turn: TurnInput
    words: list[str] = field(factory=list)


class TurnsProcessor(TurnProcessor):
    """How a turn goes through the mind and the voice."""

    input_sample_rate_hz = ASR_RATE_HZ
    output_sample_rate_hz = TTS_RATE_HZ
    default_voice = "tone"
    voices = ("tone",)
    supports_image_input = True
    supports_tools = True

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        """To the mind, and from there to the voice if the answer is to be heard."""
        tools = frozenset(str(tool.get("name")) for tool in turn.tools)
        pictures = len(turn.frames) + sum(len(message.images) for message in turn.conversation)
        unit = MindTurn(
            pcm=turn.pcm,
            messages=turn.conversation,
            respond=turn.respond,
            tools=tools,
            seen=pictures,
        )
        speaks = turn.respond and "audio" in turn.modalities
        return TurnPlan(
            entry=StageForward(stage_id=MIND, unit=unit, final=True),
            final_stage_id=VOICE if speaks else MIND,
            state=TurnsRequest(turn),
        )

    def forward(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[StageForward]:
        """Each word as it is written."""
        step: MindStep = output.data
        if step.heard is not None or step.call is not None:
            return ()
        return [StageForward(stage_id=VOICE, unit=Clause(text=step.word), final=step.last)]

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        """What was heard, then words or their sound, then the end."""
        state = request_state(request)
        results: list[ModelResult] = []
        match output.data:
            case MindStep(heard=str(text)):
                duration_s = len(state.turn.pcm) / ASR_RATE_HZ if state.turn.pcm is not None else 0.0
                results.append(UserTranscript(text=text, audio_duration_s=duration_s))
                if not text:
                    results.append(ListenResult(reason="silence_or_noise", model_listen=False))
            case MindStep(call=str(name)):
                results += [FunctionCallResult(name=name, arguments="{}"), TurnEnd()]
            case MindStep(word=word, last=last):
                state.words.append(word)
                results.append(TokenUsage(output_tokens=len(state.words)))
                if request.final_stage_id == MIND:
                    results.append(TextResult(text=word if last else f"{word} "))
            case SpeechChunk(pcm=pcm, sample_rate_hz=rate, text=text):
                if len(pcm):
                    results.append(SpeechResult(pcm=pcm, sample_rate_hz=rate, text=text))
        if output.finished and stage_id == request.final_stage_id and state.words:
            results += [ModelContext(text=" ".join(state.words)), TurnEnd(output_tokens=len(state.words))]
        return results


class TurnsPipeline(Pipeline):
    """A mind and a voice.

    Args:
        deploy: unused; the script is the deployment.
        script: what is heard and said.
    """

    config = PipelineConfig(
        name="scripted_turns",
        stages=(
            StageSpec(stage_id=MIND, name="mind", loads_model=False, final_output="text"),
            StageSpec(
                stage_id=VOICE,
                name="tts",
                input_sources=(MIND,),
                window=4,
                loads_model=False,
                final_output="audio",
            ),
        ),
        processor="duplex_trio.models.scripted.turns:make_processor",
        duplex_plugin="duplex_trio.models.scripted.turns_plugin:make_plugin",
        default_session_mode="duplex",
        default_deploy="scripted_turns",
    )

    def __init__(self, deploy: DeployConfig | None = None, *, script: Script | None = None) -> None:
        super().__init__(deploy)
        self.script = script or Script()

    def model_name(self) -> str:
        """The served name."""
        return "scripted_turns"

    def build_worker(self, stage_id: int) -> StageWorker:
        """Make one stage."""
        return MindWorker(self.script) if stage_id == MIND else ScriptedTts(self.script)

    def build_vad_worker(self) -> StageWorker:
        """Voice activity by loudness."""
        return EnergyVad()


def make_processor(pipeline: Pipeline) -> TurnsProcessor:
    """It needs nothing of the pipeline."""
    return TurnsProcessor()


def request_state(request: RequestView) -> TurnsRequest:
    """What the processor keeps of a request."""
    state: Any = request.state
    assert isinstance(state, TurnsRequest)
    return state
