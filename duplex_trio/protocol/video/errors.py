"""What is wrong with a message of a video's client, as an exception that knows how it is answered."""

from __future__ import annotations

from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.protocol.video.messages import VideoErrorEvent


class VideoRefused(RequestRefused):
    """A message that is not taken. Whether the video goes on is a matter of its code (video.md 3.3).

    Attributes:
        code: as in video.md 3.3, such as `invalid_interaction`.
        message: one sentence for people.
        param: the field at fault, such as `interaction.event.prompt`; None where it is no single one.
        event_id: the interaction at fault, if a valid id of it was read.
    """

    def __init__(
        self, code: str, message: str, *, param: str | None = None, event_id: str | None = None
    ) -> None:
        super().__init__(code, message, param=param)
        self.event_id = event_id

    def with_event_id(self, event_id: str | None) -> VideoRefused:
        """The same refusal, of this interaction."""
        return VideoRefused(self.code, self.message, param=self.param, event_id=event_id)

    def as_event(self, request_id: str | None) -> VideoErrorEvent:
        """The answer to the client. `request_id` is None before the video has one."""
        return VideoErrorEvent(
            code=self.code,
            message=self.message,
            param=self.param,
            request_id=request_id,
            event_id=self.event_id,
        )
