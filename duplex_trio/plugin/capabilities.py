"""What a duplex model can do: what sessions are held to, and what clients are merely told."""

from __future__ import annotations

from typing import Any

import attrs
from attrs import frozen


@frozen(kw_only=True)
class DuplexCapabilities:
    """Abilities of a model, as `session.capabilities` shows them.

    Those of the first three groups are enforced: what a model does not declare is refused, or not done. The
    last group describes, and nothing depends on it.
    """

    # ------------------------------------------------------------------ which kind of model; checked at load

    supports_core_resumable_request: bool = False
    """One request lives for an epoch: the plugin is a `ResumableModelPlugin`."""
    supports_model_native_turn_policy: bool = False
    """The model decides when to speak; so do exactly the resumable ones."""
    supports_multi_session: bool = True
    """More than one session at a time; a deployment that admits more does not start."""
    chunk_period_ms: int = 1000
    """The sound that one step of the model eats; the length of its units if it has any."""

    # ------------------------------------------------------------------ what clients may ask for

    supports_input_append: bool = True
    """Input in pieces; else each append is refused with `unsupported`."""
    required_input_modalities: frozenset[str] = frozenset({"audio"})
    """What each append must hold, of `audio` and `video`; else `invalid_input_modality`."""
    optional_input_modalities: frozenset[str] = frozenset()
    """What an append may hold besides."""
    supports_image_input: bool = False
    """Pictures in items; else `unsupported`."""
    supports_text_only_turn: bool = False
    """Answers to what was written; else `text_only_turn_unsupported`."""
    supports_tools: bool = False
    """The model is told of the session's tools; else it is not, and tools for one response are refused."""
    supports_client_commit: bool = True
    """Commits by hand; else `unsupported`."""
    supports_external_turn_signal: bool = True
    """`turn.signal`; else `unsupported`."""
    supports_playback_ack: bool = True
    """`playback.ack` says what was heard; else it is refused and all that was sent counts as heard."""
    supports_barge_in: bool = True
    """The model can be interrupted; else `barge_in_unsupported`, and speech over it is listened to."""
    locks_context_after_input: bool = False
    """Instructions stay once sound was heard; else `instructions_update_unsupported`."""

    # ------------------------------------------------------------------ what the session does by itself

    supports_concurrent_turn_requests: bool = False
    """The next turn's request may begin while an answer is being spoken; see
    `DuplexModelPlugin.release_concurrent_turn_requests`."""
    partial_transcript_interval_ms: int = 0
    """How often speech that goes on is transcribed anew, 0 for never."""
    speculation_pause_ms: int = 0
    """The pause in speech after which an answer is prepared ahead of the turn's end, 0 for never."""
    supports_session_resume: bool = False
    """A client that was lost may come back to its session."""

    supports_chat_completions: bool = False
    """Chat completions beside the sessions; else their route is not there. Needs `supports_text_only_turn`."""

    # ------------------------------------------------------------------ what describes only

    supports_audio_truncate: bool = True
    """Whether the model itself forgets speech that was cut; the conversation does in any case."""
    supports_session_lease: bool = True
    """Sessions end by a lease, and any model's do."""
    session_admission_mode: str = "engine_managed"
    """Who lets sessions in."""
    target_barge_in_latency_ms: int | None = None
    """What the model's makers aim at."""
    supports_turn_commit_only: bool = True
    """Whether a turn can be committed without being answered."""
    supports_replace_latest_chunk: bool = True
    """Whether the latest sound can be sent anew."""
    supports_reencode_context: bool = True
    """Whether the conversation can be read anew when it has changed."""
    supports_session_adapter: bool = True
    """Whether sessions reach the model by a plugin."""
    supports_rollback_to_checkpoint: bool = False
    """Whether the model can go back to a state that it had."""
    supports_kv_lease: bool = False
    """Whether its attention cache is lent to a session."""
    supports_core_kv_lease: bool = False
    """Whether the engine's core lends it."""
    supports_model_internal_state: bool = False
    """Whether it keeps a state beside that cache."""
    supports_stage_resumption: bool = False
    """Whether its later stages keep requests open too."""
    supports_scheduler_native_append: bool = False
    """Whether the engine's scheduler itself appends input to a request."""
    supports_stage_connector_handoff: bool = False
    """Whether stages hand over to each other past the session."""
    supports_independent_io_streams: bool = False
    """Whether it hears and speaks by streams that do not wait for each other."""
    supports_realtime_endpoint: bool = False
    """Whether it brings an endpoint of its own."""
    requires_model_runner_kv: bool = False
    """Whether it needs the runner's attention cache."""
    requires_native_stage_role: bool = False
    """Whether a stage must be told that it is part of such a model."""
    input_modes: tuple[str, ...] = ("append_audio_chunk",)
    """The forms in which input comes."""
    adapter_patterns: tuple[str, ...] = ("chunk_group_append",)
    """How the plugin feeds the model."""
    signal_sources: tuple[str, ...] = ("client_event", "server_policy", "model_native")
    """Who decides about turns."""
    stage_handoff_transport: str | None = None
    """What carries data from stage to stage, if it is not the session's process."""

    @property
    def implementation_level(self) -> str:
        """How deep the duplex goes: `model_native_duplex` for models that own their turns."""
        return "model_native_duplex" if self.supports_model_native_turn_policy else "turn_based_duplex"

    def render(self) -> dict[str, Any]:
        """The mapping shown to clients; sets become sorted lists."""
        shown = attrs.asdict(
            self,
            filter=attrs.filters.exclude("supports_chat_completions"),
            value_serializer=lambda _i, _a, v: sorted(v) if isinstance(v, frozenset) else v,
        )
        # All sessions of a deployment share one process.
        return shown | {
            "implementation_level": self.implementation_level,
            "supports_multi_session_same_replica": self.supports_multi_session,
        }
