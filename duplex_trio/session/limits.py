"""Every limit of a session, with its default. The reason for each number stands next to it."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import gt


@frozen(kw_only=True)
class SessionLimits:
    """Limits of one session; the same for all sessions of an engine.

    Sizes are bytes, times seconds.
    """

    idle_ttl_s: float | None = field(default=300.0)
    """A session without any activity is forgotten; None never."""
    disconnect_grace_s: float = field(default=30.0, validator=gt(0))
    """How long a resumable session waits for its client."""
    pending_input_bytes_max: int = field(default=16 * 1024 * 1024, validator=gt(0))
    """Uncommitted sound as float32: 262 s at 16 kHz."""
    speech_s_max: float = field(default=120.0, validator=gt(0))
    """Speech without a pause that is taken as one turn; what goes on after it begins the next one."""
    pending_turns_max: int = field(default=4, validator=gt(0))
    """Commits that may wait for their answer."""
    pending_commands_max: int = field(default=64, validator=gt(0))
    """Other commands that may wait; a client that sends faster is told so."""
    unit_timeout_s: float = field(default=10.0, validator=gt(0))
    """How long a stage may take to accept a unit."""
    cleanup_timeout_s: float = field(default=5.0, validator=gt(0))
    """How long one attempt to release a stage request may take."""
    media_lead_ms: float = field(default=300.0, validator=gt(0))
    """How far sound may run ahead of play-out: what is ahead cannot be taken back by a barge-in."""
    history_messages_max: int = field(default=200, validator=gt(0))
    """Messages of the conversation that a model is told at most; a model may use fewer."""

    @idle_ttl_s.validator
    def _check_idle_ttl(self, attribute: object, value: float | None) -> None:
        if value is not None and value <= 0:
            raise ValueError("idle_ttl_s must be None or more than 0")
