"""What a duplex model can do.

Each flag that names an ability is enforced by the session, not merely advertised.
"""

from __future__ import annotations

from typing import Any

import attrs
from attrs import frozen


@frozen(kw_only=True)
class DuplexCapabilities:
    """Abilities of a model, as the session enforces them and `session.capabilities` shows them.

    `required_input_modalities` must be in every append, `optional_input_modalities` may be. `chunk_period_ms`
    is the sound one model step eats. `partial_transcript_interval_ms` is how often speech that goes on is
    transcribed anew, 0 for never; `speculation_pause_ms` is the pause in speech after which an answer is
    prepared ahead of the turn's end, 0 for never.
    """

    supports_barge_in: bool = True
    supports_input_append: bool = True
    supports_core_resumable_request: bool = False
    supports_concurrent_turn_requests: bool = False
    supports_model_native_turn_policy: bool = False
    required_input_modalities: frozenset[str] = frozenset({"audio"})
    optional_input_modalities: frozenset[str] = frozenset()
    supports_image_input: bool = False
    supports_text_only_turn: bool = False
    supports_chat_completions: bool = False
    supports_session_lease: bool = True
    supports_session_resume: bool = False
    supports_audio_truncate: bool = True
    supports_client_commit: bool = True
    supports_playback_ack: bool = True
    supports_external_turn_signal: bool = True
    supports_tools: bool = False
    locks_context_after_input: bool = False
    session_admission_mode: str = "engine_managed"
    supports_multi_session: bool = True
    chunk_period_ms: int = 1000
    target_barge_in_latency_ms: int | None = None
    partial_transcript_interval_ms: int = 0
    speculation_pause_ms: int = 0

    def render(self) -> dict[str, Any]:
        """The mapping shown to clients; sets become sorted lists."""
        return attrs.asdict(
            self, value_serializer=lambda _i, _a, v: sorted(v) if isinstance(v, frozenset) else v
        )
