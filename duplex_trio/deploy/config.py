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


@frozen(kw_only=True)
class StageDeploy:
    """One stage: which model it runs, where, and how much it may use.

    A key left out (None) means the runtime's own default. `model` is a reference: a folder or file, a
    packaged name, or a hub id. `engine_args` goes to the engine as it is and wins over every key above it.
    """

    stage_id: int = field(validator=at_least(0))
    model: str | None = field(default=None, validator=not_empty)
    devices: str | None = field(default=None, validator=not_empty)
    num_replicas: int = field(default=1, validator=at_least(1))
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
