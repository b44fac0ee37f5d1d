"""A scripted model that owns its turns: it listens to units of one second and answers when the user falls
silent.

One stage, one resumable request per epoch. A loud unit is heard; the first quiet unit behind loud ones is
answered, one word a unit, until the answer is over. It speaks only as long as it is fed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.models.scripted.workers import SPEECH_RMS, TTS_RATE_HZ, EnergyVad, tone
from duplex_trio.pipelines.config import PipelineConfig, StageSpec
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.requests import RequestView, StageForward
from duplex_trio.pipelines.results import ListenResult, ModelResult, SegmentEnd, SpeechResult, TurnEnd
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.resumable import EpochInput, ResumableModelPlugin, UnitInput
from duplex_trio.stages.port import StageOutput, StageRequest
from duplex_trio.stages.units import Pcm
from duplex_trio.stages.worker import SerialWorker, StageWorker

UNIT_SAMPLES = 16_000
DEFAULT_ANSWER = "I heard what you said"


@frozen(eq=False, kw_only=True)
class NativeUnit:
    """Input of the scripted stage: one second of sound at 16 kHz."""

    pcm: Pcm
    force_listen: bool = False


@frozen(eq=False, kw_only=True)
class NativeAnswer:
    """Output of the scripted stage for one unit: a spoken word, or None when it listens."""

    word: str | None
    end_of_turn: bool = False


@define(eq=False)
class _Ears:
    heard: int = 0
    words: list[str] = field(factory=list)
    speaking: bool = False


class NativeWorker(SerialWorker):
    """The scripted stage.

    Args:
        answer: what it says to everything; without words it ends a turn without having spoken.
        endless: say the answer over and over, to try what stops a model that does not stop itself.
    """

    name = "native"

    def __init__(self, answer: str, *, endless: bool = False) -> None:
        super().__init__()
        self._answer = answer.split()
        self._endless = endless

    def load(self) -> None:
        """Nothing to load."""

    def new_state(self, request: StageRequest) -> _Ears:
        """What it has heard in this request."""
        return _Ears()

    def process(self, request: StageRequest, state: _Ears, unit: NativeUnit) -> Sequence[NativeAnswer]:
        """Answer one unit."""
        if unit.force_listen:
            state.speaking, state.words = False, []
            return [NativeAnswer(word=None)]
        if state.speaking:
            return [self._say(state)]
        loud = float(np.sqrt(np.mean(unit.pcm * unit.pcm))) >= SPEECH_RMS
        if loud or not state.heard:
            state.heard += loud
            return [NativeAnswer(word=None)]
        state.heard, state.speaking, state.words = 0, True, list(self._answer)
        return [self._say(state)]

    def _say(self, state: _Ears) -> NativeAnswer:
        word = state.words.pop(0) if state.words else None
        if not state.words and self._endless:
            state.words = list(self._answer)
        state.speaking = bool(state.words)
        return NativeAnswer(word=word, end_of_turn=not state.speaking)


class NativePlugin(ResumableModelPlugin):
    """The scripted model as a plugin."""

    plugin_id = "scripted_native"
    unit_samples = UNIT_SAMPLES
    default_voice = "tone"
    voices = ("tone",)

    def __init__(self, word_ms: int = 1000) -> None:
        self._word_ms = word_ms

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        """It owns its turns and can be interrupted."""
        return DuplexCapabilities(
            supports_model_native_turn_policy=True,
            supports_core_resumable_request=True,
            supports_session_resume=True,
            supports_multi_session=max_sessions > 1,
            chunk_period_ms=1000,
        )

    def begin_request(self, epoch: EpochInput) -> Mapping[str, Any]:
        """It keeps nothing of its own."""
        return {}

    def plan_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        """One unit as it is."""
        return StageForward(stage_id=0, unit=NativeUnit(pcm=unit.pcm, force_listen=unit.force_listen))

    def forward(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[StageForward]:
        """There is one stage."""
        return ()

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        """A word and what comes behind it, or that it listens."""
        answer: NativeAnswer = output.data
        results: list[ModelResult] = []
        if answer.word is not None:
            pcm = tone(self._word_ms)
            results.append(SpeechResult(pcm=pcm, sample_rate_hz=TTS_RATE_HZ, text=answer.word))
        if answer.end_of_turn:
            results.append(TurnEnd())
        else:
            results.append(SegmentEnd() if answer.word is not None else ListenResult(reason="model_listen"))
        return results


class NativePipeline(Pipeline):
    """One stage that owns its turns.

    Args:
        deploy: unused; the answer is the deployment.
        answer: what it says to everything.
        endless: never end a turn.
    """

    config = PipelineConfig(
        name="scripted_native",
        stages=(StageSpec(stage_id=0, name="native", window=4, loads_model=False, final_output="audio"),),
        duplex_plugin="duplex_trio.models.scripted.native:plugin_of",
        default_session_mode="duplex",
        default_deploy="scripted_native",
    )

    def __init__(
        self, deploy: DeployConfig | None = None, *, answer: str = DEFAULT_ANSWER, endless: bool = False
    ) -> None:
        super().__init__(deploy)
        self._answer = answer
        self._endless = endless
        self.plugin = NativePlugin()

    def model_name(self) -> str:
        """The served name."""
        return "scripted_native"

    def build_worker(self, stage_id: int) -> StageWorker:
        """Make the stage."""
        return NativeWorker(self._answer, endless=self._endless)

    def build_vad_worker(self) -> StageWorker:
        """Voice activity by loudness, for clients that want to interrupt."""
        return EnergyVad()


def plugin_of(pipeline: Pipeline) -> NativePlugin:
    """The plugin of the pipeline."""
    assert isinstance(pipeline, NativePipeline)
    return pipeline.plugin
