"""From what a deployment says of a stage to the configuration of the vLLM engine that runs it."""

from __future__ import annotations

from typing import Any

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.device_names import device_list, split
from duplex_trio.deploy.errors import KeyFaultError
from duplex_trio.deploy.stage import StageDeploy
from duplex_trio.stages.vllm_engine import VllmConfig

_OWN = (
    "dtype",
    "max_model_len",
    "max_num_seqs",
    "kv_cache_memory_bytes",
    "gpu_memory_utilization",
    "enforce_eager",
    "quantization",
    "trust_remote_code",
)
"""Keys that `VllmConfig` has by the same name, with a default of its own."""

_PASSED = (
    "max_num_batched_tokens",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "async_scheduling",
    "pipeline_parallel_size",
    "compilation_config",
    "mamba_ssm_cache_dtype",
    "hf_overrides",
    "limit_mm_per_prompt",
    "media_io_kwargs",
)
"""Keys that vLLM's `EngineArgs` has by the same name."""


def vllm_config(
    deploy: DeployConfig, stage_id: int, *, model: str, chat_template: str | None = None, name: str = "llm"
) -> VllmConfig:
    """What a deployment says about a stage, as the engine's configuration.

    Args:
        deploy: the deployment.
        stage_id: the stage.
        model: a Hugging Face folder or a hub id.
        chat_template: a Jinja template instead of the model's own.
        name: what the stage is called in logs and metrics.

    Raises:
        KeyFaultError: the stage wants no tokenizer, which a stage that reads text needs.
    """
    stage = deploy.stage(stage_id)
    if stage.skip_tokenizer_init:
        raise KeyFaultError(
            f"stages[{stage_id}].skip_tokenizer_init", "must be false: the stage reads text", True
        )
    passed = {key: getattr(stage, key) for key in _PASSED}
    engine_args = {key: value for key, value in passed.items() if value is not None and value != {}}
    own: dict[str, Any] = {key: getattr(stage, key) for key in _OWN}
    return VllmConfig(
        model=model,
        name=name,
        chat_template=chat_template,
        model_runner=deploy.model_runner,
        tensor_parallel_size=tensor_parallel_size(stage),
        engine_args=engine_args | dict(stage.engine_args),
        **{key: value for key, value in own.items() if value is not None},
    )


def tensor_parallel_size(stage: StageDeploy) -> int:
    """Over how many GPUs each replica splits its layers: all that its devices offer, unless it says so itself."""
    if stage.tensor_parallel_size is not None:
        return stage.tensor_parallel_size
    devices = device_list(stage.devices) or ()
    of_replica = split(devices, stage.replicas)[0]
    return max(1, len(of_replica) // (stage.pipeline_parallel_size or 1))
