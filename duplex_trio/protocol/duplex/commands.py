"""The 18 commands of a duplex session and its two envelope messages.

OpenAI's commands without additions are re-exported from Tier 1; `AppendAudio` and `Commit` add fields to
their Tier 1 twins; the rest is ours. The envelope messages belong to the connection and never reach a
session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import Factory, field, frozen

from duplex_trio.protocol.duplex.hints import NO_HINTS, AppendHints
from duplex_trio.protocol.duplex.video_frames import read_video_frames
from duplex_trio.protocol.json_values import read_object, read_string
from duplex_trio.protocol.realtime import commands as tier1
from duplex_trio.protocol.realtime.commands import (
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    CreateItem,
    CreateResponse,
    DeleteItem,
    RealtimeCommand,
    RetrieveItem,
    TruncateItem,
    UpdateSession,
)
from duplex_trio.protocol.realtime.fields import wire
from duplex_trio.protocol.realtime.readers import (
    read_count,
    read_milliseconds,
    read_name,
    read_sample_rate,
    read_text_or_object,
)


@frozen(kw_only=True)
class AppendAudio(tier1.AppendAudio):
    """Append sound, and possibly still images, to the input.

    `audio` is in `format` at `sample_rate_hz`, both as the session declared them when None; `format` is what
    the client wrote, unread. `video_frames` are JPEG or PNG files.

    Attributes:
        format: encoding of `audio`, by name or as an object `{type, rate}`; None: the session's.
        sample_rate_hz: of `audio`, 8000 to 192000; None: the session's.
        video_frames: JPEG or PNG files, at most two of 4,000,000 characters of base64 each.
        hints: what the client says about this sound; its fields stand in the message itself.
    """

    format: str | Mapping[str, Any] | None = field(
        default=None,
        metadata=wire("input_audio_format", code="unsupported_audio_format", read=read_text_or_object),
    )
    sample_rate_hz: int | None = field(default=None, metadata=wire("sample_rate", read=read_sample_rate))
    video_frames: tuple[bytes, ...] = field(
        default=(), metadata=wire(code="invalid_video_frames", read=read_video_frames)
    )
    hints: AppendHints = field(default=NO_HINTS, metadata=wire(flat=True))


@frozen(kw_only=True)
class Commit(tier1.Commit):
    """Make the buffered input a user item. `response_create` None means as the session has it.

    Attributes:
        final: read and without effect; kept for clients that send it.
        response_create: whether an answer is wanted; None: as the session has it.
        is_speech: whether what is committed is speech; None: as the server hears it.
    """

    final: bool = True
    response_create: bool | None = field(default=None, metadata=wire("create_response"))
    is_speech: bool | None = None


@frozen(kw_only=True)
class AppendText(RealtimeCommand):
    """Append text to the input of a model that takes it while listening.

    Attributes:
        text: what is to be read.
    """

    type: ClassVar[str] = "input.text.append"

    text: str


@frozen(kw_only=True)
class CancelInput(RealtimeCommand):
    """Drop input, and cancel what it set in motion."""

    type: ClassVar[str] = "input.cancel"


@frozen(kw_only=True)
class BargeIn(RealtimeCommand):
    """Cut the response and drop input."""

    type: ClassVar[str] = "barge_in"


@frozen(kw_only=True)
class SignalTurn(RealtimeCommand):
    """Tell the session about a turn. Signals that name another command arrive as that command instead.

    Attributes:
        event: what happened, such as `user_started`; the name of a command is that command.
        payload: the fields of that command.
    """

    type: ClassVar[str] = "turn.signal"

    event: str = field(metadata=wire(read=read_name))
    payload: Mapping[str, Any] = field(default=Factory(dict), metadata=wire(read=read_object))


@frozen(kw_only=True)
class AckPlayback(RealtimeCommand):
    """The client played `played_ms` of a response; `committed_ms`, by default the same, counts as heard.

    Attributes:
        played_ms: how much of the response the client has played, in milliseconds of its sound.
        committed_ms: how much of it counts as heard; `played_ms` by default.
        response_id: which response; None: that of `item_id`, else the one that is played.
        item_id: its item; None: that of the response.
    """

    type: ClassVar[str] = "playback.ack"

    played_ms: int = field(metadata=wire(read=read_milliseconds))
    committed_ms: int = field(metadata=wire(read=read_milliseconds))
    response_id: str | None = None
    item_id: str | None = None

    @committed_ms.default
    def _as_played(self) -> int:
        return self.played_ms


@frozen(kw_only=True)
class Heartbeat(RealtimeCommand):
    """Keep the session alive."""

    type: ClassVar[str] = "session.heartbeat"


def _read_reason(value: Any) -> str:
    return read_string(value) or "client_close"


@frozen(kw_only=True)
class CloseSession(RealtimeCommand):
    """End the session.

    Attributes:
        reason: told in `session.closed`.
    """

    type: ClassVar[str] = "session.close"

    reason: str = field(default="client_close", metadata=wire(read=_read_reason))


@frozen(kw_only=True)
class SessionResume(RealtimeCommand):
    """Take over a session after a lost connection. Only the first message of a connection may be this.

    A client that asks again because it got no answer counts its attempts, so that a request which the network
    delivers late does not take the session away from the connection of a later one.

    Attributes:
        session_id: of the session to take over.
        resume_token: the secret of the last `session.created` or `session.resumed`.
        last_received_server_event_seq: number of the last event that arrived; 0 for none.
        attempt: grows with each request of a client, so that a late one changes nothing.
    """

    type: ClassVar[str] = "session.resume"

    session_id: str = field(metadata=wire(code="invalid_session_resume", read=read_name))
    resume_token: str = field(repr=False, metadata=wire(code="invalid_session_resume", read=read_name))
    last_received_server_event_seq: int = field(
        default=0, metadata=wire(code="invalid_session_resume", read=read_count)
    )
    attempt: int = field(default=0, metadata=wire(code="invalid_session_resume", read=read_count))


@frozen(kw_only=True)
class SessionEventAck(RealtimeCommand):
    """All events up to `server_event_seq` arrived; the journal may forget them.

    Attributes:
        server_event_seq: number of the last event that arrived.
    """

    type: ClassVar[str] = "session.event_ack"

    server_event_seq: int = field(metadata=wire(code="invalid_event_ack", read=read_count))


DuplexCommand = (
    UpdateSession
    | AppendAudio
    | Commit
    | ClearInput
    | ClearOutputAudio
    | CreateResponse
    | CancelResponse
    | CreateItem
    | DeleteItem
    | TruncateItem
    | RetrieveItem
    | AppendText
    | CancelInput
    | BargeIn
    | SignalTurn
    | AckPlayback
    | Heartbeat
    | CloseSession
)
"""What a session takes."""

EnvelopeMessage = SessionResume | SessionEventAck
"""What a connection takes."""

ClientMessage = DuplexCommand | EnvelopeMessage

__all__ = [
    "NO_HINTS",
    "AckPlayback",
    "AppendAudio",
    "AppendHints",
    "AppendText",
    "BargeIn",
    "CancelInput",
    "CancelResponse",
    "ClearInput",
    "ClearOutputAudio",
    "ClientMessage",
    "CloseSession",
    "Commit",
    "CreateItem",
    "CreateResponse",
    "DeleteItem",
    "DuplexCommand",
    "EnvelopeMessage",
    "Heartbeat",
    "RealtimeCommand",
    "RetrieveItem",
    "SessionEventAck",
    "SessionResume",
    "SignalTurn",
    "TruncateItem",
    "UpdateSession",
]
