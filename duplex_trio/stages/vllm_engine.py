"""Builds and shuts down the in-process vLLM engine. Only this file and its siblings `vllm*` import vllm or
torch.

The engine is vLLM's synchronous `LLMEngine`: no process, no event loop, built and stepped in one thread. The
same code drives the CPU and the CUDA build of vLLM; where a setting is left open, the platform that vLLM
finds decides.
"""

from __future__ import annotations

import logging
import os
import random
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import Factory, field, frozen, validators

from duplex_trio.stages.opaque import opaque_modules_hidden

CPU_KV_CACHE_BYTES = 256 * 1024 * 1024
"""Memory for keys and values on a CPU: about 11000 tokens of a 135M model."""

CPU_BLOCK_TOKENS = 32
"""Granularity of prefix caching on a CPU: the least that its attention kernels take. vLLM's own choice is 128, which
is longer than most spoken prompts, so that a conversation would find nothing of itself in the cache."""

CPU_STEP_TOKENS = 512
"""Most tokens of one step on a CPU: a long prompt is read in pieces, between which other requests advance and aborts
are seen (250 ms a piece for a 135M model on one core)."""

CPU_MOST_THREADS = 8
"""More threads than this do not speed up the small models that suit a CPU."""

ENVIRONMENT: Mapping[str, str] = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Set before the libraries are imported, each unless it is set already."""


class EngineNotInstalledError(ImportError):
    """vLLM or a library that it needs cannot be imported."""


def _positive(kind: type = int) -> Any:
    return [validators.instance_of(kind), validators.gt(0)]


@frozen(kw_only=True)
class VllmConfig:
    """How a language model is loaded.

    Args:
        model: a Hugging Face folder or a hub id.
        name: what the stage is called in logs and metrics.
        dtype: `auto` (the model's), `bfloat16`, `float16` or `float32`.
        max_model_len: most tokens of prompt and answer together.
        max_num_seqs: most requests in one step; further ones wait.
        kv_cache_memory_bytes: memory for keys and values; `None` is `CPU_KV_CACHE_BYTES` on a CPU and
            `gpu_memory_utilization` on a GPU.
        gpu_memory_utilization: share of the GPU's memory that the engine may take.
        enforce_eager: no compilation; `None` means on a CPU only, where compiling costs a minute and gains 15 %.
        quantization: a scheme of vLLM; `None` is what the model's configuration says.
        seed: seed of sampling for requests that bring none.
        tensor_parallel_size: over how many GPUs the model is split.
        trust_remote_code: run model code that comes with a hub model.
        chat_template: a Jinja template instead of the model's own.
        threads: compute threads on a CPU; `None` is half of the usable cores, at most `CPU_MOST_THREADS`. One for
            every core is quicker on an idle machine and several times slower on a busy one.
        model_runner: `v1` or `v2`, which of vLLM's model runners steps the model; `None` is vLLM's choice. It holds for
            the process: vLLM asks a variable of its environment.
        engine_args: further arguments of vLLM's `EngineArgs`; they win over everything above.
    """

    model: str
    name: str = "llm"
    dtype: str = "auto"
    max_model_len: int = field(default=2048, validator=_positive())
    max_num_seqs: int = field(default=8, validator=_positive())
    kv_cache_memory_bytes: int | None = field(default=None, validator=validators.optional(_positive()))
    gpu_memory_utilization: float = field(default=0.9, validator=[validators.gt(0), validators.le(1)])
    enforce_eager: bool | None = None
    quantization: str | None = None
    seed: int = 0
    tensor_parallel_size: int = field(default=1, validator=_positive())
    trust_remote_code: bool = False
    chat_template: str | None = None
    threads: int | None = field(default=None, validator=validators.optional(_positive()))
    model_runner: str | None = field(
        default=None, validator=validators.optional(validators.in_(("v1", "v2")))
    )
    engine_args: Mapping[str, Any] = Factory(dict)


def build_engine(config: VllmConfig) -> Any:
    """Load the model into a new engine, in the thread that will step it. Takes seconds.

    Returns:
        A `vllm.v1.engine.llm_engine.LLMEngine` in this process.

    Raises:
        EngineNotInstalledError: vLLM or something that it needs cannot be imported.
        ValueError: vLLM refuses the settings or the model.
    """
    prepare_process(config.model)
    if config.model_runner is not None:
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = str(int(config.model_runner == "v2"))
    preload, dice = os.environ.get("LD_PRELOAD"), random.getstate()
    try:
        with opaque_modules_hidden():
            return _create(config)
    except ImportError as error:
        raise EngineNotInstalledError(
            f"the language-model engine cannot be imported ({error}); `duplex-trio install cpu` sets it up, "
            "and on a machine with a GPU the extra `duplex-trio[gpu]`"
        ) from error
    finally:
        # vLLM sets it for processes that it might start; it would reach every child of this one.
        _restore("LD_PRELOAD", preload)
        # vLLM seeds the generator of the whole process, from which others may draw.
        random.setstate(dice)


def adopt_thread() -> None:
    """Ready another thread than the one that built the engine to step it.

    How many threads share a computation is a setting of each thread that starts one. torch applies its own only when it
    is first asked in a thread, which is too late for vLLM's kernels: they disagree about the number and end the engine.
    """
    import torch

    torch.get_num_threads()


def shut_down(engine: Any) -> None:
    """End an engine's threads and free its memory, in the thread that stepped it."""
    engine.renderer.shutdown()
    engine.engine_core.shutdown()


def _create(config: VllmConfig) -> Any:
    import torch
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms import current_platform
    from vllm.v1.engine.llm_engine import LLMEngine
    from vllm.v1.executor import Executor

    cpu = current_platform.is_cpu()
    if cpu:
        if torch.cpu._is_amx_tile_supported():
            # The kernels use these registers without asking for them, and the process dies of an illegal instruction.
            torch.cpu._init_amx()
        # First of all: vLLM's CPU worker makes this function a no-op.
        torch.set_num_threads(config.threads or _default_threads())
    settings = EngineArgs(**_engine_args(config, cpu=cpu)).create_engine_config()
    return LLMEngine(
        vllm_config=settings,
        executor_class=Executor.get_class(settings),
        log_stats=False,
        multiprocess_mode=False,
    )


def _default_threads() -> int:
    # Threads of one computation wait for each other by spinning: with as many as cores, anything else that runs
    # (recognition, synthesis, the loop) stretches every step by whole time slices. Half leaves room for them.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores // 2, CPU_MOST_THREADS))


def _engine_args(config: VllmConfig, *, cpu: bool) -> dict[str, Any]:
    args: dict[str, Any] = {
        "model": config.model,
        "dtype": config.dtype,
        "max_model_len": config.max_model_len,
        "max_num_seqs": config.max_num_seqs,
        "kv_cache_memory_bytes": config.kv_cache_memory_bytes,
        "enforce_eager": cpu if config.enforce_eager is None else config.enforce_eager,
        "quantization": config.quantization,
        "seed": config.seed,
        "tensor_parallel_size": config.tensor_parallel_size,
        "trust_remote_code": config.trust_remote_code,
        # With whitespace free, a small model fills its answer with it.
        "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }
    if cpu:
        args["kv_cache_memory_bytes"] = config.kv_cache_memory_bytes or CPU_KV_CACHE_BYTES
        args["block_size"] = CPU_BLOCK_TOKENS
        args["max_num_batched_tokens"] = max(CPU_STEP_TOKENS, config.max_num_seqs)
    else:
        args["gpu_memory_utilization"] = config.gpu_memory_utilization
    return args | dict(config.engine_args)


def prepare_process(model: str) -> None:
    """Quieten the libraries of a model and keep them off the network where it lies here. Idempotent.

    To be called before transformers, torch or vllm is imported, because they read the environment once.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if Path(model).is_dir():
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # The libraries tell a newcomer about things that he cannot change.
    logging.getLogger("torch._library.triton").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(torch|vllm|transformers|xgrammar)(\..*)?$")


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
