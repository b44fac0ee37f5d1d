"""Tier 3: the events OpenAI has no name for. Only the duplex dialect writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import orjson
from attrs import Factory, field, frozen

from duplex_trio.protocol.duplex.extension import Playback
from duplex_trio.protocol.realtime.event_base import (
    OMIT_NULL,
    EventKind,
    RealtimeEvent,
    ResponseScopedEvent,
)


@frozen(kw_only=True)
class SessionResumed(RealtimeEvent):
    """This socket owns the session now; missed events follow. The token is new and secret.

    `client_event_count` is how many messages of its client the session has taken over all connections,
    refused ones too, without those that are about a connection (`session.resume`, `session.event_ack`,
    `session.heartbeat`) and the `session.update` that opened it; `last_client_event_id` is the `event_id` of
    the last of them. What the client sent beyond that was lost with the old connection.

    Attributes:
        session_id: of the session.
        session: the session object, as it is now.
        attachment_generation: counts the connections that this session has had.
        resume_token: the next secret; the old one is good until the first message after this one.
        client_event_count: how many of the client's messages the session has taken.
        last_client_event_id: the `event_id` of the last of them; None if it had none.
    """

    type: ClassVar[str] = "session.resumed"
    kind: ClassVar[EventKind] = EventKind.SESSION
    tier: ClassVar[int] = 3

    session_id: str
    session: Mapping[str, Any]
    attachment_generation: int
    resume_token: str = field(repr=False)
    client_event_count: int
    last_client_event_id: str | None = None


@frozen(kw_only=True)
class SessionReplaced(RealtimeEvent):
    """Another socket took the session over; this one, of `attachment_generation`, closes.

    Attributes:
        session_id: of the session.
        attachment_generation: of the connection that this is told to.
    """

    type: ClassVar[str] = "session.replaced"
    kind: ClassVar[EventKind] = EventKind.SESSION
    tier: ClassVar[int] = 3

    session_id: str
    attachment_generation: int


@frozen(kw_only=True)
class SessionResyncRequired(RealtimeEvent):
    """Missed events cannot be replayed: there is a gap, or the journal overflowed.

    Attributes:
        session_id: of the session.
        reason: `journal_gap`: events are missing; `journal_overflow`: this session cannot be resumed any
            more.
    """

    type: ClassVar[str] = "session.resync_required"
    kind: ClassVar[EventKind] = EventKind.SESSION
    tier: ClassVar[int] = 3

    session_id: str
    reason: Literal["journal_gap", "journal_overflow"]


@frozen(kw_only=True)
class SessionClosed(RealtimeEvent):
    """The session was closed by its client or by the server.

    Attributes:
        session_id: of the session.
        reason: the client's, or `server_shutdown`, `engine_error`, `slow_reader`, `disconnect`, ...
        event: what ended it, where there is more to say.
    """

    type: ClassVar[str] = "session.closed"
    kind: ClassVar[EventKind] = EventKind.TERMINAL
    tier: ClassVar[int] = 3

    session_id: str
    reason: str = "closed"
    event: Mapping[str, Any] = Factory(dict)


@frozen(kw_only=True)
class SessionExpired(RealtimeEvent):
    """The lease ran out or the stages failed: `disconnect_grace_expired`, `idle_ttl_expired`, ...

    Attributes:
        session_id: of the session.
        reason: `disconnect_grace_expired`, `idle_ttl_expired`, ...
    """

    type: ClassVar[str] = "session.expired"
    kind: ClassVar[EventKind] = EventKind.TERMINAL
    tier: ClassVar[int] = 3

    session_id: str
    reason: str


@frozen(kw_only=True)
class SessionHeartbeatAck(RealtimeEvent):
    """The heartbeat arrived and the lease was refreshed.

    `client_event_count` is that of `session.resumed`: so many messages need not be sent again, whatever
    becomes of the connection.

    Attributes:
        session_id: of the session.
        client_event_count: how many of the client's messages the session has taken.
    """

    type: ClassVar[str] = "session.heartbeat_ack"
    kind: ClassVar[EventKind] = EventKind.SESSION
    tier: ClassVar[int] = 3

    session_id: str
    client_event_count: int


@frozen(kw_only=True)
class TurnEvent(RealtimeEvent):
    """The answer to a `turn.signal`, with the turn state it led to.

    Attributes:
        session_id: of the session.
        event: the signal's.
        turn_state: `idle`, `user_speaking`, ... after it.
        epoch: in force.
    """

    type: ClassVar[str] = "turn.event"
    kind: ClassVar[EventKind] = EventKind.SESSION
    tier: ClassVar[int] = 3

    session_id: str
    event: str
    turn_state: str
    epoch: int


MODEL_EVENT_BYTES_MAX = 65_536
"""JSON bytes of what a model tells in one event."""


def _record(value: Mapping[str, Any]) -> Mapping[str, Any]:
    text = orjson.dumps(value)
    if len(text) > MODEL_EVENT_BYTES_MAX:
        raise ValueError(f"an event of a model has at most {MODEL_EVENT_BYTES_MAX} bytes of JSON")
    copied: Mapping[str, Any] = orjson.loads(text)
    return copied


@frozen(kw_only=True)
class ModelEvent(RealtimeEvent):
    """What a model tells and the protocol has no word for; `event` is the model's own record.

    `response_id` is that of the response in progress, if there is one.

    Attributes:
        session_id: of the session.
        epoch: in force.
        response_id: of the response in progress; left out when there is none.
        event: the model's own record, at most 65,536 bytes.

    Raises:
        TypeError: `event` is no JSON.
        ValueError: it is larger than `MODEL_EVENT_BYTES_MAX`.
    """

    type: ClassVar[str] = "duplex.model_event"
    kind: ClassVar[EventKind] = EventKind.SESSION
    tier: ClassVar[int] = 3

    session_id: str
    epoch: int
    response_id: str | None = field(default=None, metadata=OMIT_NULL)
    event: Mapping[str, Any] = field(converter=_record)


@frozen(kw_only=True)
class PlaybackRecord:
    """What an acknowledgement or a truncation did to the playback cursor and to history.

    Attributes:
        session_id: of the session.
        epoch: in force.
        item_id: whose sound it is about.
        played_ms: how much was played, in milliseconds.
        committed_ms: how much counts as heard, in milliseconds.
        truncate: whether the item was cut by the client.
        playback: the cursor after it.
        history_committed: whether the history has what was heard.
    """

    type: ClassVar[str] = "playback.acknowledged"

    session_id: str
    epoch: int
    item_id: str | None = None
    played_ms: int
    committed_ms: int
    truncate: bool = False
    playback: Playback
    history_committed: bool = False


@frozen(kw_only=True)
class PlaybackAcknowledged(RealtimeEvent):
    """A `playback.ack` or a truncation took effect.

    Attributes:
        event: what it did.
    """

    type: ClassVar[str] = "playback.acknowledged"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION
    tier: ClassVar[int] = 3

    event: PlaybackRecord


@frozen(kw_only=True)
class OverlapDecision(RealtimeEvent):
    """What to do with input that came during a response; `metadata` has the numbers it rests on.

    Attributes:
        session_id: of the session.
        epoch: in force.
        policy: the session's `overlap_policy`.
        action: what is done with the input.
        reason: why: `server_vad_speech_started`, `client_force_listen`, ...
        metadata: the numbers that it rests on.
    """

    type: ClassVar[str] = "overlap.decision"
    kind: ClassVar[EventKind] = EventKind.INPUT
    tier: ClassVar[int] = 3

    session_id: str
    epoch: int
    policy: str
    action: Literal["listen", "barge_in", "drop"]
    reason: str
    metadata: Mapping[str, Any] = Factory(dict)


@frozen(kw_only=True)
class SpeakRecord:
    """Where and why a response began to speak.

    Attributes:
        session_id: of the session.
        epoch: of the response.
        model_speak: whether the model decided to speak.
        stage_metrics: figures of the stages so far, by the stage's id.
    """

    session_id: str
    epoch: int
    model_speak: bool = True
    stage_metrics: Mapping[str, Mapping[str, Any]] | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ResponseSpeak(ResponseScopedEvent):
    """The response produced its first unit.

    Attributes:
        metadata: where and why.
    """

    type: ClassVar[str] = "response.speak"
    tier: ClassVar[int] = 3

    metadata: SpeakRecord


@frozen(kw_only=True)
class ListenRecord:
    """Why there is no output: `silence_or_noise`, `model_listen`, `buffering`, `continuation_limit`, ...

    Attributes:
        session_id: of the session.
        epoch: in force.
        reason: why there is no output.
        model_listen: whether the model decided so.
        buffering: whether it still takes in what it was given.
        end_of_turn: whether the model's turn is over.
    """

    session_id: str
    epoch: int
    reason: str
    model_listen: bool | None = field(default=None, metadata=OMIT_NULL)
    buffering: bool | None = field(default=None, metadata=OMIT_NULL)
    end_of_turn: bool | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class ListeningResponse:
    """The response object of a listen decision; it has an id only when it belongs to a response.

    Attributes:
        id: of the response that the decision belongs to.
        status: always `listening`.
        metadata: why.
    """

    object: ClassVar[str] = "realtime.response"

    id: str | None = field(default=None, metadata=OMIT_NULL)
    status: Literal["listening"] = "listening"
    metadata: ListenRecord


@frozen(kw_only=True)
class ResponseListen(RealtimeEvent):
    """The system listens on. Without `response_id` it is a sign of life and closes nothing.

    Attributes:
        session_id: of the session.
        epoch: in force.
        response: the decision as a response object.
        response_id: of the response that it ends; left out for a sign of life.
    """

    type: ClassVar[str] = "response.listen"
    kind: ClassVar[EventKind] = EventKind.RESPONSE
    tier: ClassVar[int] = 3

    session_id: str
    epoch: int
    response: ListeningResponse
    response_id: str | None = field(default=None, metadata=OMIT_NULL)

    @classmethod
    def because(
        cls,
        reason: str,
        *,
        session_id: str,
        epoch: int,
        response_id: str | None = None,
        model_listen: bool | None = None,
        buffering: bool | None = None,
        end_of_turn: bool | None = None,
        event_id: str = "",
    ) -> ResponseListen:
        """The event for one listen decision, tied to `response_id` when that is given."""
        record = ListenRecord(
            session_id=session_id,
            epoch=epoch,
            reason=reason,
            model_listen=model_listen,
            buffering=buffering,
            end_of_turn=end_of_turn,
        )
        return cls(
            event_id=event_id,
            session_id=session_id,
            epoch=epoch,
            response=ListeningResponse(id=response_id, metadata=record),
            response_id=response_id,
        )
