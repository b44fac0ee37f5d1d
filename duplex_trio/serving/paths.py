"""The routes that mean something beyond the table of routes."""

from __future__ import annotations

REALTIME_PATH = "/v1/realtime"
DUPLEX_PATH = "/v1/duplex"
VIDEO_PATH = "/v1/realtime/video"
TALK_PAGE_PATH = "/"
VIDEO_PAGE_PATH = "/video"
TALK_PREFIX = "/talk/"
VIDEO_PREFIX = "/video/"
SHARED_PREFIX = "/shared/"
"""The two pages, where the files of each are, and those of both."""
CAPABILITIES_PATH = "/v1/realtime/capabilities"
CHAT_PATH = "/v1/chat/completions"
HEALTH_PATH = "/health"

SUBPROTOCOL = "realtime"
"""What OpenAI's clients offer for a WebSocket; selected when it is offered."""
