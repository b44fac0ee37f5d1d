"""What a deployment says of a language model arrives at the engine."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from duplex_trio.deploy import DeployConfig, KeyFaultError, StageDeploy
from duplex_trio.deploy.keys import engine_keys
from duplex_trio.stages import vllm_engine
from duplex_trio.stages.vllm_deploy import vllm_config

VALUES: dict[str, Any] = {
    "max_num_seqs": 5,
    "max_model_len": 512,
    "max_num_batched_tokens": 640,
    "kv_cache_memory_bytes": 2**26,
    "gpu_memory_utilization": 0.5,
    "dtype": "float32",
    "quantization": "fp8",
    "trust_remote_code": True,
    "enforce_eager": False,
    "enable_prefix_caching": False,
    "enable_chunked_prefill": False,
    "async_scheduling": True,
    "tensor_parallel_size": 2,
    "pipeline_parallel_size": 2,
    "compilation_config": {"level": 1},
    "mamba_ssm_cache_dtype": "float32",
    "hf_overrides": {"a": 1},
    "limit_mm_per_prompt": {"image": 2},
    "media_io_kwargs": {"video": {"num_frames": 4}},
}
NOT_OF_VLLM = {"engine_args", "skip_tokenizer_init", "data_parallel_size"}


def arguments(deploy: DeployConfig, *, cpu: bool = False) -> dict[str, Any]:
    return vllm_engine._engine_args(vllm_config(deploy, 1, model="m"), cpu=cpu)


def of_stage(**keys: Any) -> DeployConfig:
    return DeployConfig(pipeline="p", stages=(StageDeploy(stage_id=1, **keys),))


def test_every_key_of_an_engine_is_tried_here() -> None:
    assert engine_keys(StageDeploy) == set(VALUES) | NOT_OF_VLLM


@pytest.mark.parametrize("key", VALUES)
def test_a_key_arrives_as_the_engines_argument_of_that_name(key: str) -> None:
    assert arguments(of_stage(**{key: VALUES[key]}))[key] == VALUES[key]


@pytest.mark.parametrize(
    "key", ["dtype", "quantization", "trust_remote_code", "enable_prefix_caching", "pipeline_parallel_size"]
)
def test_the_top_level_is_the_default(key: str) -> None:
    everywhere = {key: VALUES[key]}
    assert arguments(DeployConfig(pipeline="p", **everywhere))[key] == VALUES[key]
    own = False if isinstance(VALUES[key], bool) else 1 if isinstance(VALUES[key], int) else "half"
    deploy = attrs.evolve(of_stage(**{key: own}), **everywhere)
    assert arguments(deploy)[key] == own


def test_arguments_of_the_engine_win_over_keys() -> None:
    deploy = of_stage(max_num_seqs=5, enable_prefix_caching=True, engine_args={"max_num_seqs": 7, "seed": 3})
    made = arguments(deploy, cpu=True)
    assert (made["max_num_seqs"], made["seed"], made["enable_prefix_caching"]) == (7, 3, True)


def test_what_is_left_open_is_the_engines_choice() -> None:
    made = arguments(of_stage())
    assert not {"compilation_config", "hf_overrides", "enable_prefix_caching", "async_scheduling"} & set(made)


@pytest.mark.parametrize(
    ("keys", "shards"),
    [
        ({}, 1),
        ({"devices": "0,1"}, 2),
        ({"devices": "0,1", "num_replicas": 2}, 1),
        ({"devices": "0,1,2,3", "pipeline_parallel_size": 2}, 2),
        ({"devices": "0,1,2,3", "data_parallel_size": 2}, 2),
        ({"devices": "cpu"}, 1),
        ({"devices": "0,1", "tensor_parallel_size": 2}, 2),
    ],
)
def test_a_replica_splits_its_layers_over_the_gpus_that_it_has(keys: dict[str, Any], shards: int) -> None:
    assert arguments(of_stage(**keys))["tensor_parallel_size"] == shards


def test_a_model_runner_is_chosen_for_the_process() -> None:
    config = vllm_config(DeployConfig(pipeline="p", model_runner="v2"), 1, model="m")
    assert config.model_runner == "v2"


def test_a_stage_that_reads_text_needs_its_tokenizer() -> None:
    with pytest.raises(KeyFaultError, match=r"stages\[1\].skip_tokenizer_init must be false"):
        vllm_config(of_stage(skip_tokenizer_init=True), 1, model="m")
