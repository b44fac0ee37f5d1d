"""What a deployment may say of the cascade's stages, and which models it needs there. Nothing is loaded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.device_names import device_list, split
from duplex_trio.deploy.errors import Finding, brief
from duplex_trio.deploy.keys import engine_keys
from duplex_trio.deploy.stage import StageDeploy
from duplex_trio.models.cascade.settings import ASR, LLM, TTS
from duplex_trio.pipelines.models import ModelUse

DEFAULT_MODELS = {ASR: "whisper-tiny.en", LLM: "smollm2-135m", TTS: "hibari-heart"}
_KINDS = {ASR: "asr", LLM: "llm", TTS: "tts"}

_REMOTE = {"max_model_len"}
"""What still matters of a language model that runs elsewhere."""

COMPUTE_TYPES = (
    "auto",
    "default",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
    "int16",
    "float16",
    "bfloat16",
    "float32",
)
"""CTranslate2's number formats."""


def reference(deploy: DeployConfig, stage_id: int) -> str:
    """The model of a stage."""
    return deploy.stage(stage_id).model or DEFAULT_MODELS[stage_id]


def voice_activity(deploy: DeployConfig) -> str | None:
    """The model of voice activity, which sessions alone have."""
    return None if deploy.session_mode == "turn" else deploy.duplex_session.server_vad_model_path


def models_used(deploy: DeployConfig) -> Iterator[ModelUse]:
    """The models of the stages that run here, and that of voice activity."""
    for stage_id, kind in _KINDS.items():
        if deploy.stage(stage_id).execution != "remote":
            yield ModelUse(reference=reference(deploy, stage_id), kind=kind, stage_id=stage_id)
    vad = voice_activity(deploy)
    if vad is not None:
        yield ModelUse(reference=vad, kind="vad", key="duplex_session.server_vad_model_path")


def stage_keys(stage: StageDeploy) -> Collection[str]:
    """The keys of an engine that take effect on a stage."""
    if stage.stage_id != LLM:
        return {"engine_args"}
    return _REMOTE if stage.execution == "remote" else engine_keys(StageDeploy)


def findings(deploy: DeployConfig) -> Iterator[Finding]:
    """What the stages cannot do."""
    yield from _argument_findings(deploy, ASR, {"threads": _threads, "compute_type": _compute_type})
    yield from _argument_findings(deploy, TTS, {"threads": _threads})
    asr, llm, tts = (deploy.stage(stage_id) for stage_id in (ASR, LLM, TTS))
    devices = device_list(asr.devices)
    if devices is not None and len(split(devices, asr.replicas)[0]) > 1:
        yield Finding(
            key="devices", stage_id=ASR, message=f"must be cpu or one GPU a replica, not {asr.devices}"
        )
    if device_list(tts.devices):
        yield Finding(
            key="devices",
            stage_id=TTS,
            message=f"must be cpu: the voice runs on a CPU only, not {tts.devices}",
        )
    if llm.skip_tokenizer_init:
        yield Finding(key="skip_tokenizer_init", stage_id=LLM, message="must be false: the stage reads text")


def whisper_args(stage: StageDeploy) -> dict[str, Any]:
    """Arguments of recognition's runtime, beside its model."""
    on_gpu = bool(device_list(stage.devices))
    defaults = {"device": "cuda" if on_gpu else "cpu", "compute_type": "float16" if on_gpu else "int8"}
    return defaults | dict(stage.engine_args)


def _argument_findings(deploy: DeployConfig, stage_id: int, known: Mapping[str, Any]) -> Iterator[Finding]:
    for key, value in deploy.stage(stage_id).engine_args.items():
        if key not in known:
            message = f"is no argument of this stage, which has {', '.join(known)}"
            yield Finding(key=f"engine_args.{key}", stage_id=stage_id, message=message)
        elif (rule := known[key](value)) is not None:
            yield Finding(key=f"engine_args.{key}", stage_id=stage_id, message=f"{rule}, not {brief(value)}")


def _threads(value: object) -> str | None:
    right = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return None if right else "must be a whole number, at least 1"


def _compute_type(value: object) -> str | None:
    return None if value in COMPUTE_TYPES else f"must be one of {', '.join(COMPUTE_TYPES)}"
