"""How one turn of the user's becomes one answer of the parrot's."""

from collections.abc import Sequence

from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.processor import TurnProcessor
from duplex_trio.pipelines.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.pipelines.results import ModelResult, SpeechResult, TurnEnd
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.units import SpeechChunk
from parrot.worker import INPUT_RATE_HZ, OUTPUT_RATE_HZ, Heard


class ParrotProcessor(TurnProcessor):
    """Sound in, sound out, by one stage."""

    input_sample_rate_hz = INPUT_RATE_HZ
    output_sample_rate_hz = OUTPUT_RATE_HZ
    default_voice = "parrot"
    voices = ("parrot",)
    supports_text_input = False
    speaks_at_speed = True

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        """The sound of the turn goes to the voice as it is."""
        if turn.pcm is None:
            raise RequestRefused("text_only_turn_unsupported", "the parrot answers to what it hears only")
        unit = Heard(pcm=turn.pcm, speed=turn.speed)
        entry = StageForward(stage_id=0, unit=unit, final=True)
        return TurnPlan(entry=entry, final_stage_id=0)

    def forward(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[StageForward]:
        """There is no second stage."""
        return ()

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        """Each piece is speech; behind the last one the turn is over."""
        chunk: SpeechChunk = output.data
        speech = SpeechResult(pcm=chunk.pcm, sample_rate_hz=chunk.sample_rate_hz, text=chunk.text)
        return [speech, TurnEnd()] if output.finished else [speech]


def make_processor(pipeline: Pipeline) -> ParrotProcessor:
    """It needs nothing of the pipeline."""
    return ParrotProcessor()
