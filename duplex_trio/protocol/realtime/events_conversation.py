"""Tier 1 events about the conversation and its items. Items are immutable, so each event holds a snapshot."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from duplex_trio.protocol.realtime.event_base import EventKind, RealtimeEvent
from duplex_trio.protocol.realtime.items import Item


@frozen(kw_only=True)
class Conversation:
    """The conversation of a session.

    Attributes:
        id: of the conversation.
    """

    object: ClassVar[str] = "realtime.conversation"

    id: str


@frozen(kw_only=True)
class ConversationCreated(RealtimeEvent):
    """Follows `session.created`.

    Attributes:
        conversation: the session's only one.
    """

    type: ClassVar[str] = "conversation.created"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    conversation: Conversation


@frozen(kw_only=True)
class ConversationItemAdded(RealtimeEvent):
    """An item entered the conversation after `previous_item_id` (None: at the front).

    Attributes:
        previous_item_id: the item before it; None at the front.
        item: the item as it is now.
    """

    type: ClassVar[str] = "conversation.item.added"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    previous_item_id: str | None = None
    item: Item


@frozen(kw_only=True)
class ConversationItemCreated(RealtimeEvent):
    """The older name of `conversation.item.added`; goes out right after it.

    Attributes:
        previous_item_id: the item before it; None at the front.
        item: the item as it is now.
    """

    type: ClassVar[str] = "conversation.item.created"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    previous_item_id: str | None = None
    item: Item


@frozen(kw_only=True)
class ConversationItemDone(RealtimeEvent):
    """An item is final.

    Attributes:
        previous_item_id: the item before it; None at the front.
        item: the item as it stays.
    """

    type: ClassVar[str] = "conversation.item.done"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    previous_item_id: str | None = None
    item: Item


@frozen(kw_only=True)
class ConversationItemRetrieved(RealtimeEvent):
    """The item asked for.

    Attributes:
        item: the item as the server sees it.
    """

    type: ClassVar[str] = "conversation.item.retrieved"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    item: Item


@frozen(kw_only=True)
class ConversationItemDeleted(RealtimeEvent):
    """An item left the conversation.

    Attributes:
        item_id: of the item that is gone.
    """

    type: ClassVar[str] = "conversation.item.deleted"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    item_id: str


@frozen(kw_only=True)
class ConversationItemTruncated(RealtimeEvent):
    """An assistant item now ends at `audio_end_ms` of its sound.

    Attributes:
        item_id: of the item.
        content_index: the part that was cut.
        audio_end_ms: where its sound ends now, in milliseconds.
    """

    type: ClassVar[str] = "conversation.item.truncated"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    item_id: str
    content_index: int = 0
    audio_end_ms: int = 0
