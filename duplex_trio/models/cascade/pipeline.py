"""The cascade as a pipeline: which stages it has, and how a deployment's models become their runtimes."""

from __future__ import annotations

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.models.cascade.asr import WhisperWorker
from duplex_trio.models.cascade.plugin import ASR, LLM, TTS, CascadePlugin
from duplex_trio.models.cascade.profiles import profile_for, with_sampling
from duplex_trio.models.cascade.tts import VOICE, HibariWorker
from duplex_trio.models.references import resolve_reference
from duplex_trio.plugin.pipeline import Pipeline, StageSpec
from duplex_trio.stages.silero import SileroWorker
from duplex_trio.stages.vllm import VllmWorker
from duplex_trio.stages.worker import StageWorker

DEFAULT_MODELS = {ASR: "whisper-tiny.en", LLM: "smollm2-135m", TTS: "hibari-heart"}
CLAUSES_WINDOW = 4
"""Clauses of one answer that may wait for a slow client before synthesis pauses: some ten seconds of speech."""


class CascadePipeline(Pipeline):
    """Recognition, language model, synthesis.

    Args:
        deploy: the deployment; a stage without a model gets the packaged one.
    """

    name = "cascade"
    stages = (
        StageSpec(stage_id=ASR, name="asr"),
        StageSpec(stage_id=LLM, name="llm", input_sources=(ASR,)),
        StageSpec(stage_id=TTS, name="tts", input_sources=(LLM,), window=CLAUSES_WINDOW),
    )

    def __init__(self, deploy: DeployConfig) -> None:
        self._deploy = deploy
        self._llm = resolve_reference(self._reference(LLM), "llm")

    def model_name(self) -> str:
        """The language model's name: it is what people choose a deployment by."""
        return self._llm.name

    def build_worker(self, stage_id: int) -> StageWorker:
        """Make the runtime of one stage from its model reference."""
        if stage_id == ASR:
            asr = resolve_reference(self._reference(ASR), "asr")
            assert asr.path is not None
            return WhisperWorker(asr.path)
        if stage_id == LLM:
            return VllmWorker(self._vllm_config(self._llm, self._deploy.stage(LLM)))
        tts = resolve_reference(self._reference(TTS), "tts")
        return HibariWorker(tts.path)

    def build_plugin(self) -> CascadePlugin:
        """Make the plugin with the profile of the language model."""
        stage = self._deploy.stage(LLM)
        profile = with_sampling(profile_for(self._llm.name), stage.default_sampling_params)
        return CascadePlugin(profile, voices=(VOICE,), context_tokens=stage.max_model_len)

    def build_vad_worker(self) -> StageWorker | None:
        """Make the voice-activity runtime, if the deployment names a model for it."""
        reference = self._deploy.duplex_session.server_vad_model_path
        if reference is None:
            return None
        vad = resolve_reference(reference, "vad")
        assert vad.path is not None
        return SileroWorker(vad.path)

    def _reference(self, stage_id: int) -> str:
        return self._deploy.stage(stage_id).model or DEFAULT_MODELS[stage_id]
