"""Limits of videos, with their defaults. The reason for each number stands next to it.

They are declared here, below everything, because a deployment file sets them.
"""

from __future__ import annotations

from attrs import field, frozen

from duplex_trio.deploy.checks import at_least, positive


@frozen(kw_only=True)
class VideoSessionDeploy:
    """Videos of a deployment: how many, and the limits of each. Sizes are bytes, times seconds."""

    max_sessions: int | None = field(default=None, validator=positive)
    """Videos at once. None means one for each core: every video keeps a thread busy."""
    max_session_s: float = field(default=600.0, validator=positive)
    """Playback time after which a video that was to run until it is stopped ends; longer ones are refused."""
    start_timeout_s: float = field(default=10.0, validator=positive)
    """How long a client may take to say what it wants."""
    stall_timeout_s: float = field(default=60.0, validator=positive)
    """How long a video may go without a chunk being generated or sent, and without a ping; and take to begin."""
    send_timeout_s: float = field(default=30.0, validator=positive)
    """How long a client may take for one payload."""
    payload_bytes_max: int = field(default=1024 * 1024, validator=at_least(1024))
    """A longer chunk is sent in several payloads: what is being sent keeps acknowledgements waiting."""
    preparing_max: int = field(default=16, validator=positive)
    """Prompts that may wait to be encoded."""
    interactions_per_s: float = field(default=20.0, validator=positive)
    """Interactions that a client may go on sending: more than any person or chunk can follow ..."""
    interactions_burst: int = field(default=40, validator=positive)
    """... and at once."""
    ids_max: int = field(default=10_000, validator=positive)
    """Interactions that are remembered, so that a repeated one is known: hours at one a second, under 3 MB."""
