"""The blocks of events that open and close a response.

Both are made of a `Response` as it stands; neither changes it.
"""

from __future__ import annotations

from typing import Literal

from duplex_trio.protocol.duplex import (
    AudioContentPart,
    ContentPart,
    ConversationItemAdded,
    ConversationItemCreated,
    ConversationItemDone,
    DuplexEvent,
    DuplexExtension,
    Item,
    MessageItem,
    RateLimitsUpdated,
    RealtimeResponse,
    ResponseContentPartAdded,
    ResponseContentPartDone,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDone,
    ResponseOutputAudioTranscriptDone,
    ResponseOutputItemAdded,
    ResponseOutputItemDone,
    ResponseOutputTextDone,
    StatusDetails,
    TextContentPart,
)
from duplex_trio.session.state.response import FinalStatus, Response


def opening(response: Response) -> list[DuplexEvent]:
    """The block that opens a response: its object, and its message if it has one by now."""
    created = ResponseCreated(
        event_id=response.event_id(),
        response=_rendered(response, "in_progress", None, ()),
        duplex=DuplexExtension(epoch=response.epoch, turn_id=response.turn_id),
    )
    return [created, *([] if response.message_index is None else message_opening(response))]


def message_opening(response: Response) -> list[DuplexEvent]:
    """The block that opens the message of a response: its item, and its one empty content part.

    The item is an item of the response first, and of the conversation then: published clients were measured to
    need this order, and an item that they know from the conversation alone is dropped by some.
    """
    new_id, item = response.event_id, response.item("in_progress", ())
    events: list[DuplexEvent] = [
        ResponseOutputItemAdded(
            event_id=new_id(),
            response_id=response.response_id,
            output_index=response.message_index or 0,
            item=item,
        ),
    ]
    if response.in_conversation:
        previous = response.previous_item_id
        events += [
            ConversationItemAdded(event_id=new_id(), previous_item_id=previous, item=item),
            ConversationItemCreated(event_id=new_id(), previous_item_id=previous, item=item),
        ]
    part: ContentPart = AudioContentPart() if response.speaks else TextContentPart()
    events.append(ResponseContentPartAdded(event_id=new_id(), part=part, **response.scope()))
    return events


def closing(
    response: Response,
    details: StatusDetails | None,
    *,
    epoch: int,
    shown_text: str,
    cancel_reason: str | None = None,
) -> list[DuplexEvent]:
    """The block that closes a response that has ended.

    What was never begun is not said to be done: a response that is cut before it said anything has no `done`
    of sound, transcript or text, and one that is nothing but calls has no message and no
    `rate_limits.updated`.

    Args:
        response: the response; its final status is set.
        details: how it ended, in OpenAI's terms.
        epoch: the session's epoch now; that of a cancelled response goes into `cancelled_epoch`.
        shown_text: the transcript kept in the item; of a cut response, the heard part.
        cancel_reason: the precise reason of a cancellation.
    """
    output: list[tuple[int, Item]] = [(call.output_index, call.item) for call in response.calls]
    events: list[DuplexEvent] = []
    if response.message_index is not None:
        item = response.shown_item(shown_text)
        output.append((response.message_index, item))
        events += _message_done(response, item)
    items = tuple(item for _, item in sorted(output, key=lambda placed: placed[0]))
    events.append(_response_done(response, details, items, epoch, cancel_reason))
    if response.message_index is not None:
        events.append(RateLimitsUpdated(event_id=response.event_id()))
    return events


def _message_done(response: Response, item: MessageItem) -> list[DuplexEvent]:
    events = _output_done(response)
    events.append(
        ResponseOutputItemDone(
            event_id=response.event_id(),
            response_id=response.response_id,
            output_index=response.message_index or 0,
            item=item,
        )
    )
    if response.in_conversation:
        events.append(
            ConversationItemDone(
                event_id=response.event_id(), previous_item_id=response.previous_item_id, item=item
            )
        )
    return events


def _output_done(response: Response) -> list[DuplexEvent]:
    new_id, full = response.event_id, response.sent_text
    events: list[DuplexEvent] = []
    if response.speaks and (full or response.cursor.sent_ms > 0):
        events.append(ResponseOutputAudioDone(event_id=new_id(), **response.scope()))
    if response.speaks and full:
        events.append(
            ResponseOutputAudioTranscriptDone(event_id=new_id(), transcript=full, **response.scope())
        )
    if full and not response.speaks:
        events.append(ResponseOutputTextDone(event_id=new_id(), text=full, **response.scope()))
    part: ContentPart = AudioContentPart(transcript=full) if response.speaks else TextContentPart(text=full)
    events.append(ResponseContentPartDone(event_id=new_id(), part=part, **response.scope()))
    return events


def _response_done(
    response: Response,
    details: StatusDetails | None,
    output: tuple[Item, ...],
    epoch: int,
    cancel_reason: str | None,
) -> ResponseDone:
    status = response.status
    assert status is not None
    extension = DuplexExtension(
        epoch=epoch,
        turn_id=response.turn_id,
        playback=response.playback(),
        finish_reason=response.finish_reason if status == "completed" else None,
        cancel_reason=cancel_reason,
        cancelled_epoch=response.epoch if status == "cancelled" else None,
        stage_metrics=response.stage_metrics.totals()
        if response.extended and response.stage_metrics
        else None,
        request_metrics=response.request_metrics,
        engine_metrics=response.figures.shown(),
    )
    return ResponseDone(
        event_id=response.event_id(),
        response=_rendered(response, status, details, output),
        duplex=extension,
    )


def _rendered(
    response: Response,
    status: Literal["in_progress"] | FinalStatus,
    details: StatusDetails | None,
    output: tuple[Item, ...],
) -> RealtimeResponse:
    return RealtimeResponse(
        id=response.response_id,
        status=status,
        status_details=details,
        output=output,
        conversation_id=response.conversation_id,
        modalities=response.modalities,
        max_output_tokens=response.max_output_tokens,
        metadata=response.metadata,
        usage=response.usage,
        audio=response.audio,
    )
