"""The scripted model as a pipeline: the cascade's plugin over scripted stages."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.stage import StageDeploy
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.models.cascade.settings import ASR, LLM, TTS, CascadeFamily, CascadeSettings
from duplex_trio.models.scripted.script import Script, script_from
from duplex_trio.models.scripted.workers import EnergyVad, ScriptedAsr, ScriptedLlm, ScriptedTts, ScriptedVad
from duplex_trio.pipelines.config import PipelineConfig, StageSpec
from duplex_trio.stages.worker import StageWorker


class ScriptedPipeline(CascadeFamily):
    """Voice activity by loudness, then what the script hears and says.

    Args:
        deploy: holds the script of a server by itself.
        script: what is heard and said, if it comes from elsewhere.
        probabilities: how sure voice activity is of speech in one frame after the other of each session; by
        loudness without.
    """

    config = PipelineConfig(
        name="scripted",
        stages=(
            StageSpec(stage_id=ASR, name="asr", loads_model=False),
            StageSpec(
                stage_id=LLM,
                name="llm",
                execution_type="autoregressive",
                input_sources=(ASR,),
                loads_model=False,
                final_output="text",
            ),
            StageSpec(
                stage_id=TTS,
                name="tts",
                input_sources=(LLM,),
                window=4,
                loads_model=False,
                final_output="audio",
            ),
        ),
        processor="duplex_trio.models.cascade.processor:make_processor",
        duplex_plugin="duplex_trio.models.cascade.plugin:make_plugin",
        default_session_mode="duplex",
        default_deploy="scripted",
    )

    def __init__(
        self,
        deploy: DeployConfig | None = None,
        *,
        script: Script | None = None,
        probabilities: Sequence[float] | None = None,
    ) -> None:
        super().__init__(deploy)
        if script is None:
            script = (
                Script() if deploy is None else script_from(deploy, hearing=ASR, writing=LLM, speaking=TTS)
            )
        self.script = script
        self._probabilities = probabilities

    @classmethod
    def stage_keys(cls, stage: StageDeploy) -> Collection[str]:
        """What the script is written in."""
        return () if stage.stage_id == TTS else ("engine_args",)

    def model_name(self) -> str:
        """The served name."""
        return "scripted"

    def build_worker(self, stage_id: int) -> StageWorker:
        """Make one scripted stage."""
        return (ScriptedAsr, ScriptedLlm, ScriptedTts)[stage_id](self.script)

    def settings(self) -> CascadeSettings:
        """Nothing is added to the prompt."""
        return CascadeSettings(
            profile=ChatProfile(default_instructions=None, knows_calls=True), voices=("tone",)
        )

    def build_vad_worker(self) -> StageWorker | None:
        """Voice activity."""
        return EnergyVad() if self._probabilities is None else ScriptedVad(self._probabilities)
