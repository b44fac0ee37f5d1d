"""What a deployment file may say: every key with its default and its check.

The limits of sessions are in `limits`. Reading files, inheritance and the wording of faults live in `loader`
and `structure`; what a stage does with its keys is the pipeline's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Attribute, Factory, field, frozen

from duplex_trio.deploy.checks import at_least, fraction, not_empty, positive
from duplex_trio.deploy.errors import KeyFaultError
from duplex_trio.deploy.limits import SessionLimits

SessionMode = Literal["turn", "duplex"]
Execution = Literal["thread", "process", "remote"]


def _unique_stage_ids(instance: object, attribute: Attribute[Any], value: tuple[StageDeploy, ...]) -> None:
    ids = [stage.stage_id for stage in value]
    repeated = sorted({stage_id for stage_id in ids if ids.count(stage_id) > 1})
    if repeated:
        raise KeyFaultError(attribute.name, "must have different stage_ids", ids)


@frozen(kw_only=True)
class DuplexSessionDeploy(SessionLimits):
    """Sessions of a deployment: how many, the limits of each, and how they begin.

    Attributes:
        max_sessions: sessions open at the same time.
        max_chats: chat completions answered at the same time, beside the sessions: few, for each slows the
            model down for those who talk.
        stage_commands_max: opened requests and units that may wait for one stage, from all sessions; more
            wait at their sessions. None means two for each session and chat.
        server_vad_model_path: reference of the voice-activity model; None turns server VAD off.
        warmup_frames: n > 0 warms up with n silent units; 0 only models that need video; n < 0 never.
        reaper_interval_s: accepted for compatibility with existing files; every session minds its own
        deadline.
        completed_append_cache_size: accepted for compatibility with existing files; nothing reads it.
    """

    max_sessions: int = field(default=1, validator=positive)
    max_chats: int = field(default=4, validator=positive)
    stage_commands_max: int | None = field(default=None, validator=positive)
    server_vad_model_path: str | None = field(default=None, validator=not_empty)
    warmup_frames: int = 0
    reaper_interval_s: float = field(default=5.0, validator=positive)
    completed_append_cache_size: int = field(default=256, validator=positive)


def _place_complete(instance: object, attribute: Attribute[Any], value: str) -> None:
    assert isinstance(instance, StageDeploy)
    if value == "remote" and instance.remote is None:
        raise KeyFaultError("remote", "must say where a stage is whose execution is remote", None)
    if value != "remote" and instance.remote is not None:
        raise KeyFaultError(attribute.name, "must be remote for a stage with the key remote", value)
    if value != "process" and (instance.python is not None or instance.environment):
        key = "python" if instance.python is not None else "environment"
        raise KeyFaultError(attribute.name, f"must be process for a stage with the key {key}", value)


@frozen(kw_only=True)
class RemoteDeploy:
    """An engine elsewhere that speaks OpenAI's chat completions.

    Attributes:
        base_url: where its API begins, such as `http://10.0.0.7:8000/v1`.
        model: what it calls the model; the only one that it has by default.
        api_key_env: the environment variable that holds its key; none for an engine without keys.
        headers: sent with every request.
        connect_timeout_s: how long a connection may take.
        read_timeout_s: how long it may be silent before and within an answer.
        max_retries: how often a request is tried again of which nothing was delivered yet.
        max_connections: answers at once.
        ca_file: certificates (PEM) to trust instead of the system's.
    """

    base_url: str = field(validator=not_empty)
    model: str | None = field(default=None, validator=not_empty)
    api_key_env: str | None = field(default=None, validator=not_empty)
    headers: Mapping[str, Any] = Factory(dict)
    connect_timeout_s: float = field(default=5.0, validator=positive)
    read_timeout_s: float = field(default=60.0, validator=positive)
    max_retries: int = field(default=2, validator=at_least(0))
    max_connections: int = field(default=64, validator=at_least(1))
    ca_file: str | None = field(default=None, validator=not_empty)


@frozen(kw_only=True)
class StageDeploy:
    """One stage: which model it runs, where, and how much it may use.

    A key left out (None) means the runtime's own default. `model` is a reference: a folder or file, a
    packaged name, or a hub id. `engine_args` goes to the engine as it is and wins over every key above it.

    `execution` is where it runs: in a `thread` of the server, in a `process` of its own (with the interpreter
    `python` and further variables of the `environment`, so that it may have packages that the server cannot
    have), or on a `remote` engine.
    """

    stage_id: int = field(validator=at_least(0))
    model: str | None = field(default=None, validator=not_empty)
    devices: str | None = field(default=None, validator=not_empty)
    num_replicas: int = field(default=1, validator=at_least(1))
    execution: Execution = field(default="thread", validator=_place_complete)
    python: str | None = field(default=None, validator=not_empty)
    environment: Mapping[str, Any] = Factory(dict)
    remote: RemoteDeploy | None = None
    max_num_seqs: int | None = field(default=None, validator=at_least(1))
    max_model_len: int | None = field(default=None, validator=at_least(1))
    max_num_batched_tokens: int | None = field(default=None, validator=at_least(1))
    kv_cache_memory_bytes: int | None = field(default=None, validator=at_least(1))
    gpu_memory_utilization: float | None = field(default=None, validator=fraction)
    dtype: str | None = field(default=None, validator=not_empty)
    quantization: str | None = field(default=None, validator=not_empty)
    enforce_eager: bool | None = None
    trust_remote_code: bool = False
    hf_overrides: Mapping[str, Any] = Factory(dict)
    default_sampling_params: Mapping[str, Any] = Factory(dict)
    engine_args: Mapping[str, Any] = Factory(dict)


@frozen(kw_only=True)
class DeployConfig:
    """A deployment: a pipeline, how sessions of it behave, and its stages."""

    pipeline: str = field(validator=not_empty)
    session_mode: SessionMode = "turn"
    duplex_session: DuplexSessionDeploy = Factory(DuplexSessionDeploy)
    stages: tuple[StageDeploy, ...] = field(default=(), validator=_unique_stage_ids)

    def stage(self, stage_id: int) -> StageDeploy:
        """Return the keys of one stage; all defaults if the file does not mention it."""
        for stage in self.stages:
            if stage.stage_id == stage_id:
                return stage
        return StageDeploy(stage_id=stage_id)
