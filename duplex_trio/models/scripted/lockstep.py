"""A scripted model in lockstep with its user: every frame of 80 ms in is answered by a frame of 80 ms out.

One stage, one resumable request per epoch. It never listens and never ends its turn, so one response stays
open until it is cancelled or the session ends. What it says is as loud as what it heard in the same frame,
and every twelfth frame says a word. It hears sound at 24 kHz.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import define, frozen

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.models.scripted.workers import TONE_HZ, TTS_RATE_HZ, EnergyVad
from duplex_trio.pipelines.config import PipelineConfig, StageSpec
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.requests import RequestView, StageForward
from duplex_trio.pipelines.results import ModelResult, SegmentEnd, SpeechResult
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.resumable import EpochInput, ResumableModelPlugin, UnitInput
from duplex_trio.stages.port import StageOutput, StageRequest
from duplex_trio.stages.units import Pcm
from duplex_trio.stages.worker import SerialWorker, StageWorker

INPUT_RATE_HZ = 24_000
FRAME_MS = 80
FRAME_SAMPLES = INPUT_RATE_HZ * FRAME_MS // 1000
FRAMES_PER_WORD = 12
"""About one word a second."""


@frozen(eq=False, kw_only=True)
class LockstepFrame:
    """Input of the scripted stage: 80 ms of sound at 24 kHz."""

    pcm: Pcm


@frozen(kw_only=True)
class LockstepAnswer:
    """Output of the scripted stage for one frame.

    `rms` is how loud the frame was, `word` what is said with it, or empty.
    """

    rms: float
    word: str = ""


@define(eq=False)
class _Count:
    frames: int = 0


class LockstepWorker(SerialWorker):
    """The scripted stage."""

    name = "lockstep"

    def load(self) -> None:
        """Nothing to load."""

    def new_state(self, request: StageRequest) -> _Count:
        """How many frames of this request it has heard."""
        return _Count()

    def process(self, request: StageRequest, state: _Count, unit: LockstepFrame) -> Sequence[LockstepAnswer]:
        """Answer one frame."""
        state.frames += 1
        says = state.frames % FRAMES_PER_WORD == 0
        rms = float(np.sqrt(np.mean(unit.pcm * unit.pcm)))
        return [LockstepAnswer(rms=rms, word=f"frame {state.frames}" if says else "")]


class LockstepPlugin(ResumableModelPlugin):
    """The scripted model as a plugin."""

    plugin_id = "scripted_lockstep"
    input_sample_rate_hz = INPUT_RATE_HZ
    output_sample_rate_hz = TTS_RATE_HZ
    unit_samples = FRAME_SAMPLES
    default_voice = "tone"
    voices = ("tone",)

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        """It owns its turn, which is one, and goes on speaking whatever the user says."""
        return DuplexCapabilities(
            supports_barge_in=False,
            supports_model_native_turn_policy=True,
            supports_core_resumable_request=True,
            supports_session_resume=True,
            supports_multi_session=max_sessions > 1,
            chunk_period_ms=FRAME_MS,
        )

    def begin_request(self, epoch: EpochInput) -> Any:
        """It keeps nothing of its own."""
        return None

    def plan_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        """One frame as it is; a model that cannot listen is not asked to."""
        return StageForward(stage_id=0, unit=LockstepFrame(pcm=unit.pcm))

    def forward(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[StageForward]:
        """There is one stage."""
        return ()

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        """A frame of sound, as loud as the user's, and on to the next one."""
        answer: LockstepAnswer = output.data
        spoken = SpeechResult(pcm=frame_of(answer.rms), sample_rate_hz=TTS_RATE_HZ, text=answer.word)
        return [spoken, SegmentEnd()]


class LockstepPipeline(Pipeline):
    """One stage in lockstep with its user.

    Args:
        deploy: unused; there is nothing to deploy.
    """

    config = PipelineConfig(
        name="scripted_lockstep",
        stages=(StageSpec(stage_id=0, name="lockstep", window=4, loads_model=False, final_output="audio"),),
        duplex_plugin="duplex_trio.models.scripted.lockstep:plugin_of",
        default_session_mode="duplex",
        default_deploy="scripted_lockstep",
    )

    def __init__(self, deploy: DeployConfig | None = None) -> None:
        super().__init__(deploy)
        self.plugin = LockstepPlugin()

    def model_name(self) -> str:
        """The served name."""
        return "scripted_lockstep"

    def build_worker(self, stage_id: int) -> StageWorker:
        """Make the stage."""
        return LockstepWorker()

    def build_vad_worker(self) -> StageWorker:
        """Voice activity by loudness, for clients that want to see when they are heard."""
        return EnergyVad()


def plugin_of(pipeline: Pipeline) -> LockstepPlugin:
    """The plugin of the pipeline."""
    assert isinstance(pipeline, LockstepPipeline)
    return pipeline.plugin


def frame_of(rms: float) -> Pcm:
    """One frame of a tone with the given root mean square, at `TTS_RATE_HZ`."""
    time_s = np.arange(TTS_RATE_HZ * FRAME_MS // 1000, dtype=np.float32) / TTS_RATE_HZ
    pcm: Pcm = (min(1.0, rms * math.sqrt(2)) * np.sin(2 * np.pi * TONE_HZ * time_s)).astype(np.float32)
    return pcm
