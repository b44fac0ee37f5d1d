"""How hypercorn is set up for realtime audio: the numbers, and why they differ from its defaults.

The guarded stream classes act only on servers configured with this class, so another hypercorn server in
the same process keeps its own behaviour.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hypercorn.config import Config

from duplex_trio.protocol.limits import MAX_MESSAGE_BYTES
from duplex_trio.serving.paths import VIDEO_PATH

if TYPE_CHECKING:
    from duplex_trio.serving.listener import NativeDoor

FRAME_LIMIT_BYTES = MAX_MESSAGE_BYTES + 1024 * 1024
"""A larger message ends the connection with 1009; one in between is answered with `event_too_large`."""

VIDEO_MESSAGE_BYTES_MAX = 1024 * 1024
"""The same where video is steered: what is said there is a prompt at the most (video.md 3.3)."""


def message_bytes_max(path: str, otherwise: int) -> int:
    """How long a message may be, by the path of its WebSocket."""
    return VIDEO_MESSAGE_BYTES_MAX if path == VIDEO_PATH else otherwise


class ServerConfig(Config):
    """hypercorn's configuration with our defaults, and the limits of the guards. Times are seconds."""

    accesslog = None
    errorlog = logging.getLogger("duplex_trio.http")
    loglevel = "WARNING"
    backlog = 4096
    """A burst of reconnecting clients after a restart; the kernel may cap it."""
    graceful_timeout = 3.0
    """How long open connections get at the end; sessions have been drained before that."""
    include_server_header = False
    keep_alive_timeout = 75.0
    websocket_max_message_size = FRAME_LIMIT_BYTES
    websocket_ping_interval = 20.0

    native: bool = False
    """Whether connections can be met before hypercorn does."""
    door: NativeDoor | None = None
    """Meets them; without one, all WebSockets are the ASGI application's."""
    send_timeout_s: float = 20.0
    """A write that makes no end for so long means that the peer does not read: the connection is dropped."""
    pings_unanswered_max: int = 2
    """Ping intervals without a byte from the peer after which it is taken for gone."""
    linger_quiet_s: float = 1.0
    """After our close frame: wait for the peer's answer until it has been silent for so long ..."""
    linger_max_s: float = 10.0
    """... and no longer than this in all."""
