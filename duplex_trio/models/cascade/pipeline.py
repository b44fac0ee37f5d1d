"""The cascade as a pipeline: which stages it has, and how a deployment's models become their runtimes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.errors import Finding
from duplex_trio.deploy.stage import StageDeploy
from duplex_trio.models.cascade import deployment
from duplex_trio.models.cascade.asr import WhisperWorker
from duplex_trio.models.cascade.language import LanguageModel, LocalLanguageModel, RemoteLanguageModel
from duplex_trio.models.cascade.settings import ASR, LLM, TTS, CascadeFamily, CascadeSettings
from duplex_trio.models.cascade.tts import VOICE, HibariWorker
from duplex_trio.models.references import resolve_reference
from duplex_trio.pipelines.config import PipelineConfig, StageSpec
from duplex_trio.pipelines.models import ModelUse
from duplex_trio.stages.port import Stage
from duplex_trio.stages.silero import SileroWorker
from duplex_trio.stages.vllm import VllmWorker
from duplex_trio.stages.vllm_deploy import vllm_config
from duplex_trio.stages.worker import StageWorker

CLAUSES_WINDOW = 4
"""Clauses of one answer that may wait for a slow client before synthesis pauses: some ten seconds of speech."""


class CascadePipeline(CascadeFamily):
    """Recognition, language model, synthesis.

    Args:
        deploy: the deployment; a stage without a model gets the packaged one.
    """

    config = PipelineConfig(
        name="cascade",
        stages=(
            StageSpec(stage_id=ASR, name="asr"),
            StageSpec(
                stage_id=LLM,
                name="llm",
                execution_type="autoregressive",
                input_sources=(ASR,),
                final_output="text",
            ),
            StageSpec(
                stage_id=TTS, name="tts", input_sources=(LLM,), window=CLAUSES_WINDOW, final_output="audio"
            ),
        ),
        processor="duplex_trio.models.cascade.processor:make_processor",
        duplex_plugin="duplex_trio.models.cascade.plugin:make_plugin",
        default_session_mode="duplex",
        default_deploy="cascade_cpu",
    )

    def __init__(self, deploy: DeployConfig) -> None:
        """Find the models and read the tokenizer. Blocking.

        Raises:
            ModelReferenceError: a model of the deployment cannot be found.
        """
        super().__init__(deploy)
        self._asr = resolve_reference(deployment.reference(deploy, ASR), "asr")
        self._tts = resolve_reference(deployment.reference(deploy, TTS), "tts")
        vad = deployment.voice_activity(deploy)
        self._vad = resolve_reference(vad, "vad") if vad is not None else None
        stage = deploy.stage(LLM)
        self._llm: LanguageModel = (
            RemoteLanguageModel(stage)
            if stage.execution == "remote"
            else LocalLanguageModel(stage, deployment.reference(deploy, LLM))
        )

    @classmethod
    def stage_keys(cls, stage: StageDeploy) -> Collection[str]:
        """All keys of an engine for the language model, the arguments of the runtime for the others."""
        return deployment.stage_keys(stage)

    @classmethod
    def deployment_findings(cls, deploy: DeployConfig) -> Iterable[Finding]:
        """Arguments that a runtime does not have, and devices that it cannot use."""
        return deployment.findings(deploy)

    @classmethod
    def models_used(cls, deploy: DeployConfig) -> Iterable[ModelUse]:
        """The models of its stages and of voice activity."""
        return deployment.models_used(deploy)

    def model_name(self) -> str:
        """The language model's name: it is what people choose a deployment by."""
        return self._llm.name

    def build_worker(self, stage_id: int) -> StageWorker:
        """Make the runtime of one stage from its model reference."""
        if stage_id == ASR:
            assert self._asr.path is not None
            return WhisperWorker(self._asr.path, **deployment.whisper_args(self.deploy.stage(ASR)))
        if stage_id == LLM:
            assert isinstance(self._llm, LocalLanguageModel)
            template = self._llm.profile.chat_template
            return VllmWorker(vllm_config(self.deploy, LLM, model=self._llm.path, chat_template=template))
        return HibariWorker(self._tts.path, **self.deploy.stage(TTS).engine_args)

    def build_remote_stage(self, stage_id: int) -> Stage:
        """Make the language model's stage where its engine is elsewhere; recognition and synthesis are here."""
        if stage_id != LLM or not isinstance(self._llm, RemoteLanguageModel):
            return super().build_remote_stage(stage_id)
        return self._llm.build_stage(self.stages[stage_id].name)

    def settings(self) -> CascadeSettings:
        """The language model's profile and size, and the voice."""
        return self._llm.settings((VOICE,))

    def build_vad_worker(self) -> StageWorker | None:
        """Make the voice-activity runtime, if the deployment names a model for it."""
        if self._vad is None:
            return None
        assert self._vad.path is not None
        return SileroWorker(self._vad.path)
