"""The base of all server events, their queue marks, and the marks that fields carry for the wire.

Owns `RealtimeEvent`, `EventKind` and the field metadata. Which fields an event has is in the `events_*`
files; how a dialect writes them is `duplex_trio.protocol.dialects`.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import ClassVar

from attrs import frozen

OMIT_NULL = MappingProxyType({"omit_null": True})
"""Metadata of a field that is left out when it is None. Fields without it are written as `null`."""

DUPLEX_ONLY = MappingProxyType({"omit_null": True, "duplex_only": True})
"""Metadata of a field that only the duplex dialect writes, and then only when it is not None."""

OPENAI_REQUIRED = MappingProxyType({"openai_required": True})
"""Metadata of a field that OpenAI does not let be null: an event with None in it is duplex-only."""


class EventKind(Enum):
    """What an event is about, for queues that filter by mark and not by name."""

    SESSION = "session"
    """Session state and envelope; not tied to a response."""
    INPUT = "input"
    """The input buffer, transcription of input, overlap decisions."""
    CONVERSATION = "conversation"
    """Items entering, leaving or changing in the conversation, and playback acknowledgements."""
    RESPONSE = "response"
    """The life of a response; keeps its order relative to the media of that response."""
    MEDIA = "media"
    """Audio of a response, the only kind with a payload worth bounding in bytes or milliseconds."""
    TERMINAL = "terminal"
    """The last event of a session: nothing follows it."""
    ERROR = "error"
    """A rejection or failure."""


@frozen(kw_only=True)
class RealtimeEvent:
    """A server event. `event_id` is fixed when the event is made, so a replay repeats it.

    Class marks: `type` is the wire name; `tier` is 1 (OpenAI's), 2 (OpenAI's with extension data) or 3
    (ours); `kind` is the queue mark; `discard_on_cancel` says that once its response is cancelled an
    undelivered event of this class must not be delivered any more.

    Attributes:
        event_id: unique; a replay repeats it.
    """

    type: ClassVar[str]
    kind: ClassVar[EventKind]
    tier: ClassVar[int] = 1
    discard_on_cancel: ClassVar[bool] = False

    event_id: str = ""


@frozen(kw_only=True)
class ResponseScopedEvent(RealtimeEvent):
    """The base of the events about one part of one response.

    Attributes:
        response_id: of the response.
        item_id: of the item in it.
        output_index: place of the item in the response.
        content_index: place of the part in the item.
    """

    kind: ClassVar[EventKind] = EventKind.RESPONSE

    response_id: str
    item_id: str
    output_index: int = 0
    content_index: int = 0
