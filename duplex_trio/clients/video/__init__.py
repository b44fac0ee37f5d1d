"""The client of steered video: `RealtimeVideoClient`, over a WebSocket or any other `VideoLink`.

`client` is what users hold. `connection` carries it, with the tasks that `run` shows and over a `link`; `record` and
`interactions` account for what a server says and are pure, `buffer` holds what is not read yet, `outbox` what is not
written yet.
"""

from duplex_trio.clients.video.chunk import VideoChunk, VideoReceived
from duplex_trio.clients.video.client import RealtimeVideoClient
from duplex_trio.clients.video.errors import (
    AnswerTimeoutError,
    InteractionBackpressureError,
    InteractionConflictError,
    InteractionFailedError,
    InteractionRefusedError,
    VideoBusyError,
    VideoClientError,
    VideoConnectionError,
    VideoEndedError,
    VideoFailedError,
    VideoProtocolError,
    VideoRefusedError,
)
from duplex_trio.clients.video.interactions import Interaction
from duplex_trio.clients.video.link import VideoLink

__all__ = [
    "AnswerTimeoutError",
    "Interaction",
    "InteractionBackpressureError",
    "InteractionConflictError",
    "InteractionFailedError",
    "InteractionRefusedError",
    "RealtimeVideoClient",
    "VideoBusyError",
    "VideoChunk",
    "VideoClientError",
    "VideoConnectionError",
    "VideoEndedError",
    "VideoFailedError",
    "VideoLink",
    "VideoProtocolError",
    "VideoReceived",
    "VideoRefusedError",
]
