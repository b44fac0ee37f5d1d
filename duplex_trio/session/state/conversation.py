"""The conversation of a session: its items in order, and the text that each of them contributes to the
model's history.

An item is what the client sees; its *text* is what the model is told. They differ: a user's speech has a text
once it is transcribed, an assistant's speech has the text that was heard, and grows no further once
truncated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import attrs
from attrs import define, field

from duplex_trio.deploy import SessionLimits
from duplex_trio.protocol.duplex import (
    FunctionCallItem,
    FunctionCallOutputItem,
    InputAudioPart,
    InputTextPart,
    Item,
    ItemReference,
    MessageItem,
    OutputAudioPart,
    OutputTextPart,
    RealtimeError,
)
from duplex_trio.session.state.images import images_of
from duplex_trio.stages.units import ChatCall, ChatMessage

_NOTHING: Mapping[str, str] = MappingProxyType({})
ROOT = "root"
"""`previous_item_id` that means the front of the conversation."""


@define(eq=False)
class ConversationEntry:
    """One item with its bookkeeping.

    `text` is what the model is told. `transcript_pending` says that the text of a user's speech is still
    being made; `response_id` is the response an assistant item belongs to; `answered` is set once a response
    took up a user item. `held_chars` is what the item counts for against the conversation's bound.
    """

    item: Item
    text: str = ""
    transcript_pending: bool = False
    response_id: str | None = None
    answered: bool = False
    held_chars: int = field(default=0, init=False)


def item_text(item: Item) -> str:
    """The text a client's own item contributes."""
    match item:
        case MessageItem():
            parts = []
            for part in item.content:
                match part:
                    case InputTextPart(text=text) | OutputTextPart(text=text):
                        parts.append(text)
                    case InputAudioPart(transcript=str(text)) | OutputAudioPart(transcript=str(text)):
                        parts.append(text)
            return "\n".join(part for part in parts if part)
        case FunctionCallItem():
            return f"{item.name}({item.arguments})"
        case FunctionCallOutputItem():
            return item.output


def _message(item: Item, text: str) -> list[ChatMessage]:
    """What the model is told of an item; nothing of one without text and pictures.

    The text of a call words it, for models that read no calls.
    """
    match item:
        case FunctionCallItem(call_id=call_id, name=name, arguments=arguments) if text:
            call = ChatCall(name=name, arguments=arguments, call_id=call_id)
            return [ChatMessage(role="assistant", content=text, calls=(call,))]
        case FunctionCallOutputItem(call_id=call_id):
            return [ChatMessage(role="tool", content=text, call_id=call_id)]
    images = images_of(item)
    return [ChatMessage(role=_role(item), content=text, images=images)] if text or images else []


def _role(item: Item) -> Literal["user", "assistant", "system", "tool"]:
    match item:
        case MessageItem():
            return item.role
        case FunctionCallItem():
            return "assistant"
        case FunctionCallOutputItem():
            return "tool"


@define
class Conversation:
    """Items in order, found by id.

    Args:
        limits: how many items it holds, and how many characters of those that clients make.
    """

    limits: SessionLimits = field(factory=SessionLimits)
    _chars: int = 0
    _order: list[str] = field(factory=list)
    _entries: dict[str, ConversationEntry] = field(factory=dict)
    _unanswered: dict[str, None] = field(factory=dict)
    _pending: set[str] = field(factory=set)

    def insert(
        self, entry: ConversationEntry, previous_item_id: str | None = None, *, make_room: bool = False
    ) -> str | None:
        """Add an item and return the id of the item before it.

        Args:
            entry: the item with its id filled in.
            previous_item_id: None appends; `root` puts it in front; else it goes right after that item.
            make_room: let the oldest item go when the conversation is full. For the items that the session
                itself makes, because a long conversation must go on.

        Raises:
            RealtimeError: `item_create_duplicate_item_id`, `item_not_found` (unknown `previous_item_id`) or
                `input_backpressure` (the conversation is full).
        """
        item_id = entry.item.id
        self.require_free(item_id)
        while make_room and self._order and not self._has_room(entry):
            self.delete(self._order[0])
        if len(self._order) >= self.limits.conversation_items_max:
            raise RealtimeError(
                "input_backpressure",
                f"the conversation holds {self.limits.conversation_items_max} items already",
            )
        if self._chars + len(entry.text) > self.limits.conversation_chars_max:
            raise RealtimeError(
                "input_backpressure",
                f"the conversation would hold more than {self.limits.conversation_chars_max} characters",
                param="item.content",
            )
        index = self.place_behind(previous_item_id)
        self._order.insert(index, item_id)
        self._entries[item_id] = entry
        entry.held_chars = len(entry.text)
        self._chars += entry.held_chars
        if not entry.answered and (
            isinstance(entry.item, FunctionCallOutputItem) or _role(entry.item) == "user"
        ):
            self._unanswered[item_id] = None
        if entry.transcript_pending:
            self._pending.add(item_id)
        return self._order[index - 1] if index > 0 else None

    def place_behind(self, previous_item_id: str | None) -> int:
        """The place, counted from 0, that `insert` gives to an item with this `previous_item_id`.

        Raises:
            RealtimeError: `item_not_found`.
        """
        if previous_item_id is None:
            return len(self._order)
        return 0 if previous_item_id == ROOT else self.place_of(previous_item_id, "previous_item_id") + 1

    def place_of(self, item_id: str, param: str = "item_id") -> int:
        """The place of an item, counted from 0.

        Raises:
            RealtimeError: `item_not_found`, naming `param`.
        """
        self.get(item_id, param=param)
        return self._order.index(item_id)

    def require_free(self, item_id: str) -> None:
        """Refuse an id that an item has already.

        Raises:
            RealtimeError: `item_create_duplicate_item_id`.
        """
        if item_id in self._entries:
            raise RealtimeError(
                "item_create_duplicate_item_id",
                f"the conversation already has an item with id {item_id!r}",
                param="item.id",
            )

    def _has_room(self, entry: ConversationEntry) -> bool:
        limits = self.limits
        return (
            len(self._order) < limits.conversation_items_max
            and self._chars + len(entry.text) <= limits.conversation_chars_max
        )

    def get(self, item_id: str, *, code: str = "item_not_found", param: str = "item_id") -> ConversationEntry:
        """Find an item.

        Raises:
            RealtimeError: `code`, when there is none.
        """
        entry = self._entries.get(item_id)
        if entry is None:
            raise RealtimeError(code, f"the conversation has no item with id {item_id!r}", param=param)
        return entry

    def find(self, item_id: str) -> ConversationEntry | None:
        """Find an item, or None."""
        return self._entries.get(item_id)

    def delete(self, item_id: str) -> ConversationEntry:
        """Remove an item.

        Raises:
            RealtimeError: `item_not_found`.
        """
        entry = self.get(item_id)
        self._order.remove(item_id)
        del self._entries[item_id]
        self._chars -= entry.held_chars
        self._unanswered.pop(item_id, None)
        self._pending.discard(item_id)
        return entry

    def previous_of(self, item_id: str) -> str | None:
        """The id of the item before this one, None for the first."""
        index = self.place_of(item_id)
        return self._order[index - 1] if index > 0 else None

    @property
    def last_item_id(self) -> str | None:
        """The id of the last item."""
        return self._order[-1] if self._order else None

    def replace_item(self, item_id: str, item: Item) -> None:
        """Give an entry a new form of its item."""
        self._entries[item_id].item = item

    def set_transcript(self, item_id: str, text: str) -> ConversationEntry | None:
        """The user's speech of this item has been transcribed; None if the item is gone."""
        entry = self._entries.get(item_id)
        if entry is None or not isinstance(entry.item, MessageItem):
            return None
        parts = tuple(
            attrs.evolve(part, transcript=text) if isinstance(part, InputAudioPart) else part
            for part in entry.item.content
        )
        entry.item = attrs.evolve(entry.item, content=parts)
        entry.text = item_text(entry.item)
        entry.transcript_pending = False
        self._pending.discard(item_id)
        return entry

    def messages(
        self, *, before: str | None = None, last: int = 1_000, spoken: Mapping[str, str] = _NOTHING
    ) -> list[ChatMessage]:
        """What the model is told, in order; items without text and pictures are left out.

        Args:
            before: id of the item that is being answered: it and what came behind it are left out.
            spoken: whole texts of items that are still being spoken, by id.
            last: most messages to return, counted from the end, so that a long conversation costs no more
            than a short one.
        """
        result: list[ChatMessage] = []
        behind = before in self._entries
        for item_id in reversed(self._order):
            if behind:
                behind = item_id != before
                continue
            entry = self._entries[item_id]
            result += _message(entry.item, spoken.get(item_id, entry.text))
            if len(result) >= last:
                break
        result.reverse()
        return result

    def messages_of(self, items: Sequence[Item | ItemReference]) -> list[ChatMessage]:
        """What the model is told when a client gives the items itself.

        Raises:
            RealtimeError: `item_not_found` for a reference to an unknown item.
        """
        result: list[ChatMessage] = []
        for index, given in enumerate(items):
            item = given
            if isinstance(item, ItemReference):
                entry = self.get(item.id, param=f"response.input[{index}].id")
                item, text = entry.item, entry.text
            else:
                text = item_text(item)
            result += _message(item, text)
        return result

    def unanswered(self) -> Sequence[ConversationEntry]:
        """User items that no response has taken up."""
        return [self._entries[item_id] for item_id in self._unanswered]

    def mark_answered(self) -> None:
        """A response has begun: it answers everything that waits."""
        for entry in self.unanswered():
            entry.answered = True
        self._unanswered.clear()

    @property
    def pending_transcripts(self) -> frozenset[str]:
        """Ids of the items whose speech has no text yet."""
        return frozenset(self._pending)

    def entries(self) -> Iterator[ConversationEntry]:
        """All entries in order."""
        return (self._entries[item_id] for item_id in self._order)

    def __len__(self) -> int:
        return len(self._order)
