"""Transitions that a client's item and playback commands cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from duplex_trio.protocol.duplex import (
    AckPlayback,
    ConversationItemAdded,
    ConversationItemCreated,
    ConversationItemDeleted,
    ConversationItemDone,
    ConversationItemRetrieved,
    ConversationItemTruncated,
    CreateItem,
    DeleteItem,
    DuplexEvent,
    DuplexExtension,
    FunctionCallItem,
    FunctionCallOutputItem,
    InputAudioPart,
    InputImagePart,
    InputTextPart,
    Item,
    ItemReference,
    MessageItem,
    PlaybackAcknowledged,
    PlaybackRecord,
    RealtimeError,
    RetrieveItem,
    TruncateItem,
)
from duplex_trio.session.state.conversation import ROOT, ConversationEntry, item_text
from duplex_trio.session.state.engine_session import DuplexEngineSession
from duplex_trio.session.state.images import check_images
from duplex_trio.session.state.response import Response

_ITEM_PREFIX = "item_"
TRUNCATION_SLACK_MS = 50
"""By so much a client's own count of what it received may differ: it rounds, and players count in blocks."""
ITEM_ID_CHARS_MAX = 256


def create_item(session: DuplexEngineSession, command: CreateItem) -> list[DuplexEvent]:
    """Put a client's item into the conversation.

    Raises:
        RealtimeError: `unsupported` or `invalid_image` (images), `invalid_function_call_output`,
            `invalid_value` (a second call of one `call_id`), `item_create_duplicate_item_id`, `item_not_found`
            (unknown `previous_item_id`),
            `input_backpressure`.
    """
    item = command.item
    if not item.id:
        item = attrs.evolve(item, id=session.new_id(_ITEM_PREFIX))
    check_item_id(session, item.id)
    refuse_unsupported(session, item)
    if isinstance(item, FunctionCallItem):
        check_call(session, item)
    if isinstance(item, FunctionCallOutputItem):
        check_call_output(session, item, command.previous_item_id)
    previous = session.conversation.insert(ConversationEntry(item, item_text(item)), command.previous_item_id)
    return item_announced(session, item, previous)


def seed_user_text(session: DuplexEngineSession, text: str | None) -> list[DuplexEvent]:
    """Let the user have said something in writing: the session's `initial_user_text`. Nothing for no text."""
    if not text:
        return []
    item = MessageItem(role="user", content=(InputTextPart(text),))
    return create_item(session, CreateItem(item=item))


def check_item_id(session: DuplexEngineSession, item_id: str) -> None:
    """Refuse ids that cannot be used: the name for the front of the conversation, endless ones, and the one that
    was announced for the sound in the buffer.

    Raises:
        RealtimeError: `invalid_value` or `item_create_duplicate_item_id`.
    """
    if item_id == session.input_item_id:
        raise RealtimeError(
            "item_create_duplicate_item_id",
            f"the sound in the input audio buffer will be the item {item_id!r}",
            param="item.id",
        )
    if item_id == ROOT or len(item_id) > ITEM_ID_CHARS_MAX:
        raise RealtimeError(
            "invalid_value",
            f"an item id has at most {ITEM_ID_CHARS_MAX} characters and is not {ROOT!r}",
            param="item.id",
        )


def item_announced(session: DuplexEngineSession, item: Item, previous: str | None) -> list[DuplexEvent]:
    """The events of an item that is complete as it enters the conversation."""
    new_id = session.new_id
    return [
        ConversationItemAdded(event_id=new_id("event_"), previous_item_id=previous, item=item),
        ConversationItemCreated(event_id=new_id("event_"), previous_item_id=previous, item=item),
        ConversationItemDone(event_id=new_id("event_"), previous_item_id=previous, item=item),
    ]


def delete_item(session: DuplexEngineSession, command: DeleteItem) -> list[DuplexEvent]:
    """Remove an item from the conversation and from what the model is told."""
    session.conversation.delete(command.item_id)
    extension = DuplexExtension(epoch=session.epoch, turn_id=session.turn_id, deleted=True)
    return [
        ConversationItemDeleted(event_id=session.new_id("event_"), item_id=command.item_id, duplex=extension)
    ]


def retrieve_item(session: DuplexEngineSession, command: RetrieveItem) -> list[DuplexEvent]:
    """Show an item as the server sees it.

    Raises:
        RealtimeError: `item_retrieve_invalid_item_id`.
    """
    entry = session.conversation.get(command.item_id, code="item_retrieve_invalid_item_id")
    return [ConversationItemRetrieved(event_id=session.new_id("event_"), item=entry.item)]


def truncate_item(session: DuplexEngineSession, command: TruncateItem) -> list[DuplexEvent]:
    """Cut an assistant item to what was heard; later acknowledgements cannot lengthen it.

    Raises:
        RealtimeError: `item_not_found`, or `bad_event` when the item has no sound to truncate or has less of
        it.
    """
    entry = session.conversation.get(command.item_id)
    response = None
    if isinstance(entry.item, MessageItem) and entry.response_id is not None:
        response = session.find_response(entry.response_id)
    if response is None or not response.speaks:
        raise RealtimeError(
            "bad_event", "only an assistant message with audio can be truncated", param="item_id"
        )
    if command.content_index != 0:
        raise RealtimeError("bad_event", "the item has one content part, at index 0", param="content_index")
    if command.audio_end_ms > response.cursor.sent_ms + TRUNCATION_SLACK_MS:
        raise RealtimeError(
            "bad_event",
            f"{response.cursor.sent_ms:.0f} ms of the item's audio were sent so far",
            param="audio_end_ms",
        )
    response.cursor.truncate(command.audio_end_ms)
    truncated = session.credit_heard(response)
    extension = DuplexExtension(epoch=session.epoch, turn_id=session.turn_id, truncated=truncated)
    return [
        ConversationItemTruncated(
            event_id=session.new_id("event_"),
            item_id=command.item_id,
            content_index=0,
            audio_end_ms=command.audio_end_ms,
            duplex=extension,
        ),
        _acknowledged(session, response, truncate=True, committed=truncated),
    ]


def ack_playback(session: DuplexEngineSession, command: AckPlayback) -> list[DuplexEvent]:
    """The client reports how much of a response it has played.

    Raises:
        RealtimeError: `playback_item_mismatch` or `playback_item_not_found`.
    """
    response = _acked_response(session, command)
    response.cursor.acknowledge(command.played_ms, command.committed_ms)
    session.playback_acked = True
    committed = session.credit_heard(response)
    return [_acknowledged(session, response, truncate=False, committed=committed)]


def _acked_response(session: DuplexEngineSession, command: AckPlayback) -> Response:
    response_id = command.response_id
    if response_id is not None:
        if command.item_id is not None and command.item_id != f"{_ITEM_PREFIX}{response_id}":
            raise RealtimeError(
                "playback_item_mismatch",
                f"item {command.item_id!r} is not of {response_id!r}",
                param="item_id",
            )
    elif command.item_id is not None:
        response_id = command.item_id.removeprefix(_ITEM_PREFIX)
    else:
        heard_least = [r for r in session.responses_newest_first() if r.cursor.unheard]
        newest = heard_least[0] if heard_least else session.last_response
        if newest is None:
            raise RealtimeError("playback_item_not_found", "there is no response to acknowledge")
        return newest
    response = session.find_response(response_id)
    if response is None:
        raise RealtimeError(
            "playback_item_not_found",
            f"no recent response {response_id!r}",
            param="response_id" if command.response_id is not None else "item_id",
        )
    return response


def _acknowledged(
    session: DuplexEngineSession, response: Response, *, truncate: bool, committed: bool
) -> PlaybackAcknowledged:
    playback = response.playback()
    record = PlaybackRecord(
        session_id=session.session_id,
        epoch=session.epoch,
        item_id=response.item_id,
        played_ms=playback.played_ms,
        committed_ms=playback.committed_ms,
        truncate=truncate,
        playback=playback,
        history_committed=committed,
    )
    return PlaybackAcknowledged(event_id=session.new_id("event_"), event=record)


def refuse_unsupported(session: DuplexEngineSession, item: Item) -> None:
    """Refuse content that the model cannot take.

    Raises:
        RealtimeError: `unsupported`, `invalid_image`, or `invalid_value` for a part with nothing in it, all of
            which name the part; or `input_backpressure`.
    """
    if not isinstance(item, MessageItem):
        return
    _check_pictures(session, item, "item", (entry.item for entry in session.conversation.entries()))
    for index, part in enumerate(item.content):
        if isinstance(part, InputAudioPart) and not part.audio and part.transcript is None:
            raise RealtimeError(
                "invalid_value",
                "the part has neither audio nor transcript",
                param=f"item.content[{index}].audio",
            )


def check_pictures_of_input(session: DuplexEngineSession, items: Sequence[Item | ItemReference]) -> None:
    """Refuse pictures in the input of one response that the model cannot take.

    Raises:
        RealtimeError: `unsupported` or `invalid_image`, naming the part; or `input_backpressure`.
    """
    for index, item in enumerate(items):
        if isinstance(item, MessageItem):
            _check_pictures(session, item, f"response.input[{index}]", ())


def _check_pictures(session: DuplexEngineSession, item: MessageItem, at: str, held: Iterable[Item]) -> None:
    for index, part in enumerate(item.content):
        if isinstance(part, InputImagePart) and not session.capabilities.supports_image_input:
            raise RealtimeError("unsupported", "the model takes no images", param=f"{at}.content[{index}]")
    check_images(item, held, session.limits, at)


def check_call(session: DuplexEngineSession, item: FunctionCallItem) -> None:
    """Refuse a second call of one id: an answer could not say which of them it is of. One without an id has no
    answer.

    Raises:
        RealtimeError: `invalid_value`.
    """
    if item.call_id and any(isinstance(one, FunctionCallItem) for one in _of_call(session, item.call_id)):
        raise RealtimeError(
            "invalid_value", f"there is a function call {item.call_id!r} already", param="item.call_id"
        )


def _of_call(session: DuplexEngineSession, call_id: str) -> list[Item]:
    return [e.item for e in session.conversation.entries() if getattr(e.item, "call_id", None) == call_id]


def check_call_output(
    session: DuplexEngineSession, item: FunctionCallOutputItem, previous_item_id: str | None
) -> None:
    """Refuse the answer to a call that nobody made or that has one, and a place in front of its call.

    Raises:
        RealtimeError: `invalid_function_call_output`, or `item_not_found` (unknown `previous_item_id`).
    """
    calls = _of_call(session, item.call_id)
    call = next((one for one in calls if isinstance(one, FunctionCallItem)), None)
    if call is None:
        raise RealtimeError(
            "invalid_function_call_output",
            f"there is no function call {item.call_id!r}",
            param="item.call_id",
        )
    if any(isinstance(call, FunctionCallOutputItem) for call in calls):
        raise RealtimeError(
            "invalid_function_call_output",
            f"call {item.call_id!r} has its output already",
            param="item.call_id",
        )
    if session.conversation.place_behind(previous_item_id) <= session.conversation.place_of(call.id):
        raise RealtimeError(
            "invalid_function_call_output",
            f"an output comes behind its call, which is the item {call.id!r}",
            param="previous_item_id",
        )
