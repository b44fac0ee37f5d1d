"""What a deployment says of one stage: every key with its default and its check, and the rules between keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import attrs
from attrs import field, frozen

from duplex_trio.deploy.checks import (
    api_url,
    at_least,
    fraction,
    headers,
    mappings,
    media_counts,
    not_empty,
    positive,
    texts,
    variable,
    variables,
)
from duplex_trio.deploy.device_names import device_list, devices_text, split, well_formed
from duplex_trio.deploy.errors import KeyFaultError
from duplex_trio.deploy.keys import about

Execution = Literal["thread", "process", "remote"]
Dtype = Literal["auto", "half", "float16", "bfloat16", "float", "float32"]
"""vLLM's names of number formats."""


@frozen(kw_only=True)
class RemoteDeploy:
    """An engine elsewhere that speaks OpenAI's chat completions."""

    base_url: str = field(
        validator=api_url, metadata=about("Where its API begins, such as `http://10.0.0.7:8000/v1`.")
    )
    model: str | None = field(
        default=None,
        validator=not_empty,
        metadata=about("What it calls the model; the only one that it has by default."),
    )
    api_key_env: str | None = field(
        default=None,
        validator=variable,
        metadata=about("The environment variable that holds its key; none for an engine without keys."),
    )
    headers: Mapping[str, str] = field(
        factory=dict,
        converter=texts,
        validator=headers,
        metadata=about("Sent with every request.", reads=texts, secret=True),
    )
    connect_timeout_s: float = field(
        default=5.0, validator=positive, metadata=about("Seconds that a connection may take.")
    )
    read_timeout_s: float = field(
        default=60.0, validator=positive, metadata=about("Seconds of silence before and within an answer.")
    )
    max_retries: int = field(
        default=2,
        validator=at_least(0),
        metadata=about("How often a request is tried again of which nothing was delivered yet."),
    )
    max_connections: int = field(default=64, validator=at_least(1), metadata=about("Answers at once."))
    ca_file: str | None = field(
        default=None,
        validator=not_empty,
        metadata=about("Certificates (PEM) to trust instead of the system's."),
    )
    load_timeout_s: float = field(
        default=600.0,
        validator=positive,
        metadata=about("Seconds that the server waits for it at its start, and again when it was gone."),
    )
    flavor: Literal["vllm", "openai"] = field(
        default="vllm",
        metadata=about("`vllm` for what takes vLLM's own parameters, `openai` for any other engine."),
    )
    tool_calls: Literal["worded", "native"] = field(
        default="worded",
        metadata=about(
            "`worded`: the prompt tells the model of functions, which works with every engine. `native`: the"
            " engine does, and reads the calls (`--enable-auto-tool-choice`)."
        ),
    )
    extra_body: Mapping[str, Any] = field(
        factory=dict,
        metadata=about("Further fields of every request; they win over those that the server sends."),
    )


def stage_rules(values: Mapping[str, Any]) -> Iterator[KeyFaultError]:
    """What is wrong between the keys of a stage, each of which is right by itself.

    Args:
        values: the keys that are there; one without a value counts as left out.
    """
    execution = values.get("execution") or "thread"
    remote = values.get("remote")
    if execution == "remote" and remote is None:
        yield KeyFaultError("remote", "must say where a stage is whose execution is remote", None)
    if execution != "remote" and remote is not None:
        yield KeyFaultError("execution", "must be remote for a stage with the key remote", execution)
    for key in ("python", "environment"):
        if execution != "process" and values.get(key):
            yield KeyFaultError("execution", f"must be process for a stage with the key {key}", execution)
            break
    if execution == "remote":
        for key in ("num_replicas", "data_parallel_size"):
            if (values.get(key) or 1) > 1:
                rule = "must be 1 for a remote stage: several engines stand behind one router"
                yield KeyFaultError(key, rule, values[key])
    devices = values.get("devices")
    if devices is not None:
        yield from _device_rules(devices, execution, values)


def _device_rules(devices: str, execution: str, values: Mapping[str, Any]) -> Iterator[KeyFaultError]:
    if execution == "remote":
        yield KeyFaultError("devices", "must be left out: a remote stage uses none here", devices)
        return
    if "CUDA_VISIBLE_DEVICES" in (values.get("environment") or {}):
        yield KeyFaultError("devices", "must be left out where environment has CUDA_VISIBLE_DEVICES", devices)
    names = device_list(devices)
    assert names is not None
    replicas = (values.get("num_replicas") or 1) * (values.get("data_parallel_size") or 1)
    try:
        of_replica = split(names, replicas)[0]
    except ValueError as error:
        yield KeyFaultError("devices", str(error), devices)
        return
    tensor, pipe = values.get("tensor_parallel_size"), values.get("pipeline_parallel_size") or 1
    shards = (tensor or 1) * pipe
    if not names and shards > 1:
        key = "tensor_parallel_size" if (tensor or 1) > 1 else "pipeline_parallel_size"
        yield KeyFaultError(key, "must be 1 for a stage on the CPU", values[key])
    elif names and (shards != len(of_replica) if tensor is not None else len(of_replica) % pipe):
        rule = f"must give each replica as many GPUs as it has shards, which are {shards}"
        yield KeyFaultError("devices", rule, devices)


def _optional(default_of: str) -> str:
    return f"{default_of} Left out: the top level's."


@frozen(kw_only=True)
class StageDeploy:
    """One stage: which model it runs, where, and how much it may use.

    A key left out (None) means the runtime's own default. `engine_args` goes to the engine as it is and wins
    over every key above it.

    `execution` is where it runs: in a `thread` of the server, in a `process` of its own (with the interpreter
    `python` and further variables of the `environment`, so that it may have packages that the server cannot
    have), or on a `remote` engine.
    """

    stage_id: int = field(
        validator=at_least(0), metadata=about("Which stage of the pipeline, counted from 0.")
    )
    model: str | None = field(
        default=None,
        validator=not_empty,
        metadata=about("The model: a packaged name, a folder or file, or a hub id."),
    )
    devices: str | None = field(
        default=None,
        converter=devices_text,
        validator=well_formed,
        metadata=about(
            "What it may compute on: `cpu`, or GPUs by number, dealt out to the replicas. Left out: what the"
            " runtime finds.",
            reads=devices_text,
        ),
    )
    num_replicas: int = field(
        default=1, validator=at_least(1), metadata=about("How many copies share the stage's requests.")
    )
    execution: Execution = field(
        default="thread",
        metadata=about("Where it runs: in the server, in a process of its own, or elsewhere."),
    )
    python: str | None = field(
        default=None,
        validator=not_empty,
        metadata=about("The interpreter of a stage in a process. Left out: the server's."),
    )
    environment: Mapping[str, str] = field(
        factory=dict,
        converter=texts,
        validator=variables,
        metadata=about("Further environment variables of a stage in a process.", reads=texts, secret=True),
    )
    remote: RemoteDeploy | None = field(
        default=None, metadata=about("The engine of a stage whose execution is `remote`; its keys are below.")
    )
    max_num_seqs: int | None = field(
        default=None, validator=at_least(1), metadata=about("Most requests in one step.", taken="engine")
    )
    max_model_len: int | None = field(
        default=None,
        validator=at_least(1),
        metadata=about("Most tokens of prompt and answer together.", taken="engine"),
    )
    max_num_batched_tokens: int | None = field(
        default=None, validator=at_least(1), metadata=about("Most tokens of one step.", taken="engine")
    )
    kv_cache_memory_bytes: int | None = field(
        default=None, validator=at_least(1), metadata=about("Memory for keys and values.", taken="engine")
    )
    gpu_memory_utilization: float | None = field(
        default=None, validator=fraction, metadata=about("Share of a GPU's memory to take.", taken="engine")
    )
    dtype: Dtype | None = field(
        default=None,
        metadata=about(_optional("Number format of the weights, or `auto`."), taken="engine"),
    )
    quantization: str | None = field(
        default=None,
        validator=not_empty,
        metadata=about(_optional("Quantization scheme of the engine."), taken="engine"),
    )
    trust_remote_code: bool | None = field(
        default=None, metadata=about(_optional("Run code that comes with a hub model."), taken="engine")
    )
    enforce_eager: bool | None = field(
        default=None,
        metadata=about("Compile nothing. Left out: true on a CPU, false on a GPU.", taken="engine"),
    )
    enable_prefix_caching: bool | None = field(
        default=None,
        metadata=about(_optional("Keep what was read for prompts that begin alike."), taken="engine"),
    )
    enable_chunked_prefill: bool | None = field(
        default=None, metadata=about(_optional("Read long prompts in pieces."), taken="engine")
    )
    async_scheduling: bool | None = field(
        default=None, metadata=about("Plan a step while the one before it runs.", taken="engine")
    )
    tensor_parallel_size: int | None = field(
        default=None,
        validator=at_least(1),
        metadata=about(
            "Over how many GPUs each layer is split. Left out: as many as `devices` has.", taken="engine"
        ),
    )
    pipeline_parallel_size: int | None = field(
        default=None,
        validator=at_least(1),
        metadata=about(_optional("Over how many GPUs the layers are dealt out."), taken="engine"),
    )
    data_parallel_size: int | None = field(
        default=None,
        validator=at_least(1),
        metadata=about(
            _optional("Multiplies `num_replicas`: here each copy of a model is a replica."), taken="engine"
        ),
    )
    compilation_config: Mapping[str, Any] = field(
        factory=dict, metadata=about("How the engine compiles.", taken="engine")
    )
    mamba_ssm_cache_dtype: str | None = field(
        default=None,
        validator=not_empty,
        metadata=about("Number format of the state of Mamba layers.", taken="engine"),
    )
    hf_overrides: Mapping[str, Any] = field(
        factory=dict, metadata=about("Written over the model's own configuration.", taken="engine")
    )
    limit_mm_per_prompt: Mapping[str, Any] = field(
        factory=dict,
        validator=media_counts,
        metadata=about("Most pictures, sounds, ... of a prompt, by kind.", taken="engine"),
    )
    media_io_kwargs: Mapping[str, Any] = field(
        factory=dict, validator=mappings, metadata=about("How media are decoded, by kind.", taken="engine")
    )
    skip_tokenizer_init: bool | None = field(
        default=None, metadata=about("Load no tokenizer; a stage that reads text refuses it.", taken="engine")
    )
    default_sampling_params: Mapping[str, Any] = field(
        factory=dict, metadata=about("What requests that leave it open are sampled with.")
    )
    engine_args: Mapping[str, Any] = field(
        factory=dict, metadata=about("Goes to the runtime as it is, over every key above.", taken="engine")
    )
    subtalker_sampling_params: Mapping[str, Any] = field(
        factory=dict,
        metadata=about("Sampling of a talker's inner model; no pipeline here has one.", taken="never"),
    )
    input_connectors: Any = field(
        default=None, metadata=about("How input arrives; stages here hand over in the server.", taken="never")
    )
    output_connectors: Any = field(
        default=None, metadata=about("How output leaves; stages here hand over in the server.", taken="never")
    )

    def __attrs_post_init__(self) -> None:
        """Hold the keys to the rules between them."""
        for fault in stage_rules({name: getattr(self, name) for name in attrs.fields_dict(StageDeploy)}):
            raise fault

    @property
    def replicas(self) -> int:
        """How many copies of the stage there are."""
        return self.num_replicas * (self.data_parallel_size or 1)
