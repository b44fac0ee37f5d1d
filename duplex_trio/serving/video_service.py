"""Serves an engine of video by itself: there are no sessions and no chats, and no other WebSocket leads anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duplex_trio.entrypoints.video_omni import VideoOmni
from duplex_trio.serving.channel import WebSocketChannel
from duplex_trio.serving.nowhere import lead_nowhere
from duplex_trio.serving.paths import VIDEO_PATH
from duplex_trio.serving.responses import said_back
from duplex_trio.serving.service import Service


class VideoService(Service):
    """What an engine of video offers beside its WebSocket, which is `video.VideoEndpoint`'s.

    Args:
        omni: the engine.
    """

    def __init__(self, omni: VideoOmni) -> None:
        self.omni = self._videos = omni

    @property
    def has_sessions(self) -> bool:
        """There are none."""
        return False

    async def serve_socket(self, channel: WebSocketChannel) -> None:
        """Say that there is no such thing here (decision D13)."""
        await lead_nowhere(
            channel,
            f"there is no WebSocket at {said_back(channel.request.path)}: this deployment serves video alone,"
            f" at {VIDEO_PATH}",
        )

    def capabilities(self) -> None:
        """Nothing is said of sessions where there are none."""
        return

    def occupancy(self) -> Mapping[str, Any]:
        """Videos that hold a place."""
        return {"videos": self._videos.videos, "max_videos": self._videos.max_videos}
