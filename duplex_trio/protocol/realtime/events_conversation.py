"""Tier 1 events about the conversation and its items. Items are immutable, so each event holds a snapshot."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from duplex_trio.protocol.realtime.event_base import EventKind, RealtimeEvent
from duplex_trio.protocol.realtime.items import Item


@frozen(kw_only=True)
class Conversation:
    """The conversation of a session."""

    object: ClassVar[str] = "realtime.conversation"

    id: str


@frozen(kw_only=True)
class ConversationCreated(RealtimeEvent):
    """Follows `session.created`."""

    type: ClassVar[str] = "conversation.created"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    conversation: Conversation


@frozen(kw_only=True)
class ConversationItemAdded(RealtimeEvent):
    """An item entered the conversation after `previous_item_id` (None: at the front)."""

    type: ClassVar[str] = "conversation.item.added"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    previous_item_id: str | None = None
    item: Item


@frozen(kw_only=True)
class ConversationItemCreated(RealtimeEvent):
    """The older name of `conversation.item.added`; goes out right after it."""

    type: ClassVar[str] = "conversation.item.created"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    previous_item_id: str | None = None
    item: Item


@frozen(kw_only=True)
class ConversationItemDone(RealtimeEvent):
    """An item is final."""

    type: ClassVar[str] = "conversation.item.done"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    previous_item_id: str | None = None
    item: Item


@frozen(kw_only=True)
class ConversationItemRetrieved(RealtimeEvent):
    """The item asked for."""

    type: ClassVar[str] = "conversation.item.retrieved"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    item: Item


@frozen(kw_only=True)
class ConversationItemDeleted(RealtimeEvent):
    """An item left the conversation."""

    type: ClassVar[str] = "conversation.item.deleted"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    item_id: str


@frozen(kw_only=True)
class ConversationItemTruncated(RealtimeEvent):
    """An assistant item now ends at `audio_end_ms` of its sound."""

    type: ClassVar[str] = "conversation.item.truncated"
    kind: ClassVar[EventKind] = EventKind.CONVERSATION

    item_id: str
    content_index: int = 0
    audio_end_ms: int = 0
