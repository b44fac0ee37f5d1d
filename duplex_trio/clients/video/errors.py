"""What a client of video can raise, as one tree; the class of a refusal says what can be done about it.

VideoClientError
├── VideoConnectionError             the transport: not reachable, refused, lost, silent
├── VideoRefusedError                the video was not begun
│   └── VideoBusyError               no room now, or the server is on its way out: try again later
├── VideoFailedError                 it was begun and failed
├── VideoEndedError                  it is over, so there is nothing to steer
├── VideoProtocolError               the server said what is no message of the protocol, or not now
├── AnswerTimeoutError               an answer did not come in time: the same may be asked again, with the same id
└── InteractionRefusedError          an interaction was not taken; the video goes on
    ├── InteractionConflictError     its id stands for another one already
    ├── InteractionBackpressureError too many, too fast: it may be sent again
    └── InteractionFailedError       the model cannot do it, or the video is ending
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from duplex_trio.clients.video.chunk import VideoReceived
from duplex_trio.protocol.video import VideoErrorEvent

E = TypeVar("E", bound="VideoServerError")


class VideoClientError(Exception):
    """Base of everything that `RealtimeVideoClient` raises on purpose."""


class VideoConnectionError(VideoClientError):
    """The connection could not be made, or was lost and the video with it.

    Args:
        message: for people.
        status: HTTP status of a refused upgrade (401, 503, ...), if that was the reason.
        close_code: WebSocket close code of a connection that the other side ended, if there was one.
        close_reason: what it said with that.
        received: what had come until then; whole payloads only, so it plays.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        close_code: int | None = None,
        close_reason: str | None = None,
        received: VideoReceived | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.close_code = close_code
        self.close_reason = close_reason
        self.received = received or VideoReceived()


class VideoProtocolError(VideoClientError):
    """The server said what is no message of the protocol, or what does not belong where it came."""


class VideoEndedError(VideoClientError):
    """The video is over: it ended as asked, so there is nothing to steer any more."""


class AnswerTimeoutError(VideoClientError):
    """No answer came in time, which says nothing about whether the request arrived.

    Args:
        what: that was asked for.
        timeout_s: how long it was waited for.
        event_id: id of the interaction, if it was one: it may be sent again with it, and is never applied twice.
    """

    def __init__(self, what: str, timeout_s: float, event_id: str | None = None) -> None:
        super().__init__(f"no answer to {what} within {timeout_s:g} s")
        self.event_id = event_id


class VideoServerError(VideoClientError):
    """What a server told with an `error` message.

    Args:
        code: of the wire (`invalid_start`, `event_id_conflict`, ...).
        message: the server's text.
        param: the field at fault, if the server names one.
        event_id: the interaction that it is about, if it is about one.
        request_id: the video's, once it had one.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        event_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}" + (f" ({param})" if param else ""))
        self.code = code
        self.message = message
        self.param = param
        self.event_id = event_id
        self.request_id = request_id


class VideoRefusedError(VideoServerError):
    """The video was not begun: something in the request is wrong (`param`), or it is asked for something unknown."""


class VideoBusyError(VideoRefusedError):
    """The video was not begun because there is no room now (`resource_exhausted`, `server_shutdown`)."""


class VideoFailedError(VideoServerError):
    """The video was begun and did not come to its end.

    Attributes:
        received: what had come until then.
    """

    received: VideoReceived = VideoReceived()


class InteractionRefusedError(VideoServerError):
    """An interaction was not taken. The video goes on as if it had not been sent."""


class InteractionConflictError(InteractionRefusedError):
    """`event_id_conflict`: the id stands for an interaction with another payload."""


class InteractionBackpressureError(InteractionRefusedError):
    """`input_backpressure` or `resource_exhausted`: there are too many; the same one may be sent again later."""


class InteractionFailedError(InteractionRefusedError):
    """`interaction_failed`: the model cannot do it, or the video is about to end."""


BUSY: Mapping[str, type[VideoRefusedError]] = {
    "resource_exhausted": VideoBusyError,
    "server_shutdown": VideoBusyError,
}
INTERACTION: Mapping[str, type[InteractionRefusedError]] = {
    "event_id_conflict": InteractionConflictError,
    "input_backpressure": InteractionBackpressureError,
    "resource_exhausted": InteractionBackpressureError,
    "interaction_failed": InteractionFailedError,
}


def start_refused(event: VideoErrorEvent) -> VideoRefusedError:
    """The error for a video that was not begun."""
    return _made(BUSY.get(event.code, VideoRefusedError), event, event.event_id)


def interaction_refused(event: VideoErrorEvent, event_id: str) -> InteractionRefusedError:
    """The error for an interaction that was not taken."""
    return _made(INTERACTION.get(event.code, InteractionRefusedError), event, event_id)


def video_failed(event: VideoErrorEvent, received: VideoReceived) -> VideoFailedError:
    """The error for a video that failed."""
    error = _made(VideoFailedError, event, event.event_id)
    error.received = received
    return error


def _made(kind: type[E], event: VideoErrorEvent, event_id: str | None) -> E:
    return kind(event.code, event.message, param=event.param, event_id=event_id, request_id=event.request_id)
