"""What a deployment file may say: every key with its default and its check.

Reading files, inheritance and the wording of faults live in `loader` and `structure`; what a stage does with
its keys is the pipeline's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from attrs import Attribute, Factory, field, frozen

from duplex_trio.deploy.errors import KeyFaultError

SessionMode = Literal["turn", "duplex"]


def _positive(instance: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not value > 0:
        raise KeyFaultError(attribute.name, "must be greater than 0", value)


def _at_least(minimum: int) -> Callable[[object, Attribute[Any], int | None], None]:
    def check(instance: object, attribute: Attribute[Any], value: int | None) -> None:
        if value is not None and value < minimum:
            raise KeyFaultError(attribute.name, f"must be at least {minimum}", value)

    return check


def _fraction(instance: object, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and not 0 < value <= 1:
        raise KeyFaultError(attribute.name, "must be greater than 0 and at most 1", value)


def _not_empty(instance: object, attribute: Attribute[Any], value: str | None) -> None:
    if value is not None and not value.strip():
        raise KeyFaultError(attribute.name, "must not be empty", value)


def _unique_stage_ids(instance: object, attribute: Attribute[Any], value: tuple[StageDeploy, ...]) -> None:
    ids = [stage.stage_id for stage in value]
    repeated = sorted({stage_id for stage_id in ids if ids.count(stage_id) > 1})
    if repeated:
        raise KeyFaultError(attribute.name, "must have different stage_ids", ids)


@frozen(kw_only=True)
class DuplexSessionDeploy:
    """Limits and timers of the sessions of a deployment. Times are seconds, sizes are bytes.

    Attributes:
        idle_ttl_s: a session without input for so long expires; None means never.
        disconnect_grace_s: how long a resumable session waits for its client to come back.
        reaper_interval_s: how often expired sessions are looked for.
        resume_replay_ttl_s: how long a sent event can be replayed.
        resume_replay_max_bytes_per_session: size of the replay journal of one session.
        max_pending_input_bytes_per_session: audio that may wait for the model before appends are refused.
        max_pending_turns_per_session: commits that may wait before further ones are refused.
        max_sessions: sessions open at the same time.
        completed_append_cache_size: accepted for compatibility with existing files; nothing reads it.
        server_vad_model_path: reference of the voice-activity model; None turns server VAD off.
        warmup_frames: n > 0 warms up with n silent units; 0 only models that need video; n < 0 never.
    """

    idle_ttl_s: float | None = field(default=300.0, validator=_positive)
    disconnect_grace_s: float = field(default=30.0, validator=_positive)
    reaper_interval_s: float = field(default=5.0, validator=_positive)
    resume_replay_ttl_s: float = field(default=60.0, validator=_positive)
    resume_replay_max_bytes_per_session: int = field(default=8 * 1024 * 1024, validator=_positive)
    max_pending_input_bytes_per_session: int = field(default=16 * 1024 * 1024, validator=_positive)
    max_pending_turns_per_session: int = field(default=4, validator=_positive)
    max_sessions: int = field(default=1, validator=_positive)
    completed_append_cache_size: int = field(default=256, validator=_positive)
    server_vad_model_path: str | None = field(default=None, validator=_not_empty)
    warmup_frames: int = 0


@frozen(kw_only=True)
class StageDeploy:
    """One stage: which model it runs, where, and how much it may use.

    A key left out (None) means the runtime's own default. `model` is a reference: a folder or file, a
    packaged name, or a hub id. `engine_args` goes to the engine as it is and wins over every key above it.
    """

    stage_id: int = field(validator=_at_least(0))
    model: str | None = field(default=None, validator=_not_empty)
    devices: str | None = field(default=None, validator=_not_empty)
    num_replicas: int = field(default=1, validator=_at_least(1))
    max_num_seqs: int | None = field(default=None, validator=_at_least(1))
    max_model_len: int | None = field(default=None, validator=_at_least(1))
    max_num_batched_tokens: int | None = field(default=None, validator=_at_least(1))
    kv_cache_memory_bytes: int | None = field(default=None, validator=_at_least(1))
    gpu_memory_utilization: float | None = field(default=None, validator=_fraction)
    dtype: str | None = field(default=None, validator=_not_empty)
    quantization: str | None = field(default=None, validator=_not_empty)
    enforce_eager: bool | None = None
    trust_remote_code: bool = False
    hf_overrides: Mapping[str, Any] = Factory(dict)
    default_sampling_params: Mapping[str, Any] = Factory(dict)
    engine_args: Mapping[str, Any] = Factory(dict)


@frozen(kw_only=True)
class DeployConfig:
    """A deployment: a pipeline, how sessions of it behave, and its stages."""

    pipeline: str = field(validator=_not_empty)
    session_mode: SessionMode = "turn"
    duplex_session: DuplexSessionDeploy = Factory(DuplexSessionDeploy)
    stages: tuple[StageDeploy, ...] = field(default=(), validator=_unique_stage_ids)

    def stage(self, stage_id: int) -> StageDeploy:
        """Return the keys of one stage; all defaults if the file does not mention it."""
        for stage in self.stages:
            if stage.stage_id == stage_id:
                return stage
        return StageDeploy(stage_id=stage_id)
