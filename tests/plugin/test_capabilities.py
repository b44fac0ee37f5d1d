"""What a session shows of its model's abilities."""

from __future__ import annotations

from duplex_trio.models.scripted.native import NativePlugin
from duplex_trio.plugin.capabilities import DuplexCapabilities

SHOWN_BY_DEFAULT = {
    "supports_model_native_turn_policy": False,
    "supports_barge_in": True,
    "supports_input_append": True,
    "supports_core_resumable_request": False,
    "supports_concurrent_turn_requests": False,
    "required_input_modalities": ["audio"],
    "optional_input_modalities": [],
    "supports_session_lease": True,
    "supports_session_resume": False,
    "session_admission_mode": "engine_managed",
    "supports_multi_session": True,
    "supports_multi_session_same_replica": True,
    "supports_audio_truncate": True,
    "supports_image_input": False,
    "supports_text_only_turn": False,
    "supports_external_turn_signal": True,
    "supports_client_commit": True,
    "supports_playback_ack": True,
    "supports_turn_commit_only": True,
    "supports_replace_latest_chunk": True,
    "supports_reencode_context": True,
    "supports_session_adapter": True,
    "supports_rollback_to_checkpoint": False,
    "supports_kv_lease": False,
    "supports_core_kv_lease": False,
    "supports_model_internal_state": False,
    "supports_stage_resumption": False,
    "supports_scheduler_native_append": False,
    "supports_stage_connector_handoff": False,
    "supports_independent_io_streams": False,
    "supports_realtime_endpoint": False,
    "requires_model_runner_kv": False,
    "requires_native_stage_role": False,
    "implementation_level": "turn_based_duplex",
    "input_modes": ("append_audio_chunk",),
    "adapter_patterns": ("chunk_group_append",),
    "signal_sources": ("client_event", "server_policy", "model_native"),
    "stage_handoff_transport": None,
    "chunk_period_ms": 1000,
    "target_barge_in_latency_ms": None,
}
"""The forty keys of the duplex protocol."""
OWN = {
    "supports_tools",
    "locks_context_after_input",
    "partial_transcript_interval_ms",
    "speculation_pause_ms",
}
"""What this server tells besides."""


def test_every_key_of_the_protocol_is_shown() -> None:
    """The forty of the protocol and our own, and whether a chat API suits the model is nobody's business."""
    assert len(SHOWN_BY_DEFAULT) == 40
    shown = DuplexCapabilities().render()
    assert shown.keys() == SHOWN_BY_DEFAULT.keys() | OWN
    assert {key: shown[key] for key in SHOWN_BY_DEFAULT} == SHOWN_BY_DEFAULT


def test_what_follows_from_other_abilities() -> None:
    """How deep the duplex goes, and whether sessions share a process."""
    native = NativePlugin().capabilities(1).render()
    assert native["implementation_level"] == "model_native_duplex"
    assert native["supports_multi_session_same_replica"] is native["supports_multi_session"] is False
