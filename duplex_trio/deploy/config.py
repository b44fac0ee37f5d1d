"""What a deployment file may say: every key with its default and its check.

The limits of sessions are in `limits`, the keys of a stage in `stage`. Reading files, inheritance and the
wording of faults live in `loader` and `structure`; what a stage does with its keys is the pipeline's business.
"""

from __future__ import annotations

from typing import Any, Literal

import attrs
from attrs import Attribute, field, frozen

from duplex_trio.deploy.checks import at_least, not_empty, positive
from duplex_trio.deploy.errors import KeyFaultError
from duplex_trio.deploy.keys import about
from duplex_trio.deploy.limits import SessionLimits
from duplex_trio.deploy.stage import Dtype, Execution, RemoteDeploy, StageDeploy
from duplex_trio.deploy.video import VideoSessionDeploy

__all__ = [
    "STAGE_DEFAULTS",
    "DeployConfig",
    "DuplexSessionDeploy",
    "Execution",
    "ModelRunner",
    "RemoteDeploy",
    "SessionMode",
    "StageDeploy",
    "VideoSessionDeploy",
]

SessionMode = Literal["turn", "duplex", "video"]
ModelRunner = Literal["v1", "v2"]

STAGE_DEFAULTS = (
    "dtype",
    "quantization",
    "trust_remote_code",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "pipeline_parallel_size",
    "data_parallel_size",
)
"""Keys of the top level that hold for every stage that takes them and does not say otherwise."""


def _unique_stage_ids(instance: object, attribute: Attribute[Any], value: tuple[StageDeploy, ...]) -> None:
    ids = [stage.stage_id for stage in value]
    if len(set(ids)) != len(ids):
        raise KeyFaultError(attribute.name, "must have different stage_ids", ids)


@frozen(kw_only=True)
class DuplexSessionDeploy(SessionLimits):
    """Sessions of a deployment: how many, the limits of each, and how they begin.

    Attributes:
        max_sessions: sessions open at the same time.
        max_chats: chat completions answered at the same time. None means 4 beside sessions, few, for each slows
            the model down for those who talk; and 64 where there are no sessions.
        stage_commands_max: opened requests and units that may wait for one stage, from all sessions; more
            wait at their sessions. None means two for each session and chat.
        server_vad_model_path: reference of the voice-activity model; None turns server VAD off.
        warmup_frames: n > 0 warms up with n silent units; 0 only models that need video; n < 0 never.
        reaper_interval_s: accepted for compatibility with existing files; every session minds its own
        deadline.
        completed_append_cache_size: accepted for compatibility with existing files; nothing reads it.
    """

    max_sessions: int = field(default=1, validator=positive)
    max_chats: int | None = field(default=None, validator=positive)
    stage_commands_max: int | None = field(default=None, validator=positive)
    server_vad_model_path: str | None = field(default=None, validator=not_empty)
    warmup_frames: int = 0
    reaper_interval_s: float = field(default=5.0, validator=positive, metadata=about("", taken="never"))
    completed_append_cache_size: int = field(
        default=256, validator=positive, metadata=about("", taken="never")
    )


@frozen(kw_only=True)
class DeployConfig:
    """A deployment: a pipeline, how sessions of it behave, and its stages."""

    pipeline: str = field(validator=not_empty, metadata=about("The pipeline, by name."))
    session_mode: SessionMode | None = field(
        default=None,
        metadata=about(
            "Serve turns, sessions that listen while they speak, or video. Left out: the pipeline's default."
        ),
    )
    duplex_session: DuplexSessionDeploy = field(
        factory=DuplexSessionDeploy,
        metadata=about("Limits of sessions; its keys are in [limits](limits.md)."),
    )
    video_session: VideoSessionDeploy = field(
        factory=VideoSessionDeploy,
        metadata=about("Limits of videos; its keys are in [limits](limits.md)."),
    )
    video: str | None = field(
        default=None,
        validator=not_empty,
        metadata=about("A deployment of video, by name or file, that is served beside this one."),
    )
    stages: tuple[StageDeploy, ...] = field(
        default=(), validator=_unique_stage_ids, metadata=about("The stages; their keys are below.")
    )
    dtype: Dtype | None = field(default=None, metadata=about("Default of the stages.", taken="engine"))
    quantization: str | None = field(
        default=None, validator=not_empty, metadata=about("Default of the stages.", taken="engine")
    )
    trust_remote_code: bool | None = field(
        default=None, metadata=about("Default of the stages.", taken="engine")
    )
    enable_prefix_caching: bool | None = field(
        default=None, metadata=about("Default of the stages.", taken="engine")
    )
    enable_chunked_prefill: bool | None = field(
        default=None, metadata=about("Default of the stages.", taken="engine")
    )
    pipeline_parallel_size: int | None = field(
        default=None, validator=at_least(1), metadata=about("Default of the stages.", taken="engine")
    )
    data_parallel_size: int | None = field(
        default=None, validator=at_least(1), metadata=about("Default of the stages.", taken="engine")
    )
    model_runner: ModelRunner | None = field(
        default=None,
        metadata=about(
            "Which of vLLM's model runners steps the models. Left out: vLLM's choice.", taken="engine"
        ),
    )
    async_chunk: bool = field(
        default=True,
        metadata=about("Stages stream to each other; that is how stages here always do it.", taken="never"),
    )
    active_stream_window: int = field(
        default=0,
        validator=at_least(0),
        metadata=about("Streams in step at once; a stage here takes all that it has.", taken="never"),
    )
    connectors: Any = field(
        default=None, metadata=about("What joins stages; stages here hand over in the server.", taken="never")
    )
    edges: Any = field(
        default=None, metadata=about("Which stages feed which; the pipeline says so.", taken="never")
    )
    custom_voice_dir: str | None = field(
        default=None,
        validator=not_empty,
        metadata=about("Voices beside the model's own; no model here takes any.", taken="never"),
    )

    def __attrs_post_init__(self) -> None:
        """Hold the stages to the rules between their keys and those of the top level."""
        for index, stage in enumerate(self.stages):
            try:
                self.stage(stage.stage_id)
            except KeyFaultError as fault:
                raise KeyFaultError(f"stages[{index}].{fault.key}", fault.rule, fault.value) from None

    @property
    def max_requests(self) -> int | None:
        """Requests at once, of a model that serves turns: its `max_chats`."""
        return self.duplex_session.max_chats

    @property
    def stage_commands_max(self) -> int | None:
        """Opened requests and units that may wait for one stage; None for what suits the engine."""
        return self.duplex_session.stage_commands_max

    def stage(self, stage_id: int) -> StageDeploy:
        """Return the keys of one stage, all defaults if the file does not mention it.

        What the stage leaves open is as the top level says.

        Raises:
            KeyFaultError: together the two break a rule of stages.
        """
        stages = (stage for stage in self.stages if stage.stage_id == stage_id)
        stage = next(stages, StageDeploy(stage_id=stage_id))
        open_keys = {name: getattr(self, name) for name in STAGE_DEFAULTS if getattr(stage, name) is None}
        return attrs.evolve(stage, **{name: value for name, value in open_keys.items() if value is not None})
