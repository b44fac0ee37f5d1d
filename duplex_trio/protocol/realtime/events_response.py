"""Tier 1 events in the life of a response, in the order in which they can appear."""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen

from duplex_trio.protocol.realtime.event_base import EventKind, RealtimeEvent, ResponseScopedEvent
from duplex_trio.protocol.realtime.items import ContentPart, Item
from duplex_trio.protocol.realtime.response import RealtimeResponse


@frozen(kw_only=True)
class ResponseCreated(RealtimeEvent):
    """A response began.

    Attributes:
        response: in progress, without items.
    """

    type: ClassVar[str] = "response.created"
    kind: ClassVar[EventKind] = EventKind.RESPONSE

    response: RealtimeResponse


@frozen(kw_only=True)
class ResponseOutputItemAdded(RealtimeEvent):
    """The response has an item, still empty.

    Attributes:
        response_id: of the response.
        output_index: place of the item in it.
        item: the item, without content.
    """

    type: ClassVar[str] = "response.output_item.added"
    kind: ClassVar[EventKind] = EventKind.RESPONSE

    response_id: str
    output_index: int = 0
    item: Item


@frozen(kw_only=True)
class ResponseContentPartAdded(ResponseScopedEvent):
    """The item has a part, still empty.

    Attributes:
        part: the part, without content.
    """

    type: ClassVar[str] = "response.content_part.added"

    part: ContentPart


@frozen(kw_only=True)
class ResponseOutputAudioDelta(ResponseScopedEvent):
    """A further piece of sound. `delta` is in the client's output format; it is base64 only on the wire.

    Attributes:
        delta: sound in the session's output format, base64.
    """

    type: ClassVar[str] = "response.output_audio.delta"
    kind: ClassVar[EventKind] = EventKind.MEDIA
    discard_on_cancel: ClassVar[bool] = True

    delta: bytes = field(repr=lambda data: f"<{len(data)} bytes>")


@frozen(kw_only=True)
class ResponseOutputAudioTranscriptDelta(ResponseScopedEvent):
    """The text that goes with the sound before it; may be empty.

    Attributes:
        delta: further text.
    """

    type: ClassVar[str] = "response.output_audio_transcript.delta"
    discard_on_cancel: ClassVar[bool] = True

    delta: str


@frozen(kw_only=True)
class ResponseOutputTextDelta(ResponseScopedEvent):
    """A further piece of a text answer.

    Attributes:
        delta: further text.
    """

    type: ClassVar[str] = "response.output_text.delta"
    discard_on_cancel: ClassVar[bool] = True

    delta: str


@frozen(kw_only=True)
class ResponseOutputAudioDone(ResponseScopedEvent):
    """The sound is complete."""

    type: ClassVar[str] = "response.output_audio.done"


@frozen(kw_only=True)
class ResponseOutputAudioTranscriptDone(ResponseScopedEvent):
    """The whole transcript, also of a response that was cut.

    Attributes:
        transcript: all of it, also what was not heard.
    """

    type: ClassVar[str] = "response.output_audio_transcript.done"

    transcript: str


@frozen(kw_only=True)
class ResponseOutputTextDone(ResponseScopedEvent):
    """The whole text.

    Attributes:
        text: all of it.
    """

    type: ClassVar[str] = "response.output_text.done"

    text: str


@frozen(kw_only=True)
class ResponseContentPartDone(ResponseScopedEvent):
    """The part is complete.

    Attributes:
        part: the part as it stays.
    """

    type: ClassVar[str] = "response.content_part.done"

    part: ContentPart


@frozen(kw_only=True)
class ResponseFunctionCallArgumentsDelta(RealtimeEvent):
    """A further piece of the JSON text of a call's arguments.

    Attributes:
        response_id: of the response.
        item_id: of the call's item.
        output_index: place of the item in the response.
        call_id: what its output refers to.
        delta: further text.
    """

    type: ClassVar[str] = "response.function_call_arguments.delta"
    kind: ClassVar[EventKind] = EventKind.RESPONSE

    response_id: str
    item_id: str
    output_index: int = 0
    call_id: str
    delta: str


@frozen(kw_only=True)
class ResponseFunctionCallArgumentsDone(RealtimeEvent):
    """The whole JSON text of a call's arguments.

    Attributes:
        response_id: of the response.
        item_id: of the call's item.
        output_index: place of the item in the response.
        call_id: what its output refers to.
        name: of the function.
        arguments: JSON text of an object.
    """

    type: ClassVar[str] = "response.function_call_arguments.done"
    kind: ClassVar[EventKind] = EventKind.RESPONSE

    response_id: str
    item_id: str
    output_index: int = 0
    call_id: str
    name: str
    arguments: str


@frozen(kw_only=True)
class ResponseOutputItemDone(RealtimeEvent):
    """The item is final.

    Attributes:
        response_id: of the response.
        output_index: place of the item in it.
        item: the item as it stays; its transcript ends where it was heard.
    """

    type: ClassVar[str] = "response.output_item.done"
    kind: ClassVar[EventKind] = EventKind.RESPONSE

    response_id: str
    output_index: int = 0
    item: Item


@frozen(kw_only=True)
class ResponseDone(RealtimeEvent):
    """The response is over; exactly one for each response.

    Attributes:
        response: with its items, how it ended, and its usage.
    """

    type: ClassVar[str] = "response.done"
    kind: ClassVar[EventKind] = EventKind.RESPONSE

    response: RealtimeResponse
