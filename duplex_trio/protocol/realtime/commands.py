"""Tier 1 commands: what OpenAI's clients send, and whose fields that says.

Commands hold decoded values; what the values mean for a session is checked there. The duplex extensions of
some of them, and the commands OpenAI has no name for, are in `protocol.duplex.commands`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import field, frozen

from duplex_trio.protocol.json_values import read_object
from duplex_trio.protocol.realtime.fields import wire
from duplex_trio.protocol.realtime.item_parsing import read_item
from duplex_trio.protocol.realtime.items import Item
from duplex_trio.protocol.realtime.readers import read_audio, read_count, read_name, read_position_ms
from duplex_trio.protocol.realtime.response_options import ResponseCreateOptions


@frozen(kw_only=True)
class RealtimeCommand:
    """A client message. `event_id` is the client's own name for it, echoed by errors.

    Attributes:
        event_id: the client's own name for the message, which errors give back.
    """

    type: ClassVar[str]

    event_id: str | None = None


@frozen(kw_only=True)
class UpdateSession(RealtimeCommand):
    """Change the session. `patch` is the client's session object, unread.

    Attributes:
        patch: the session object, with the fields to change.
    """

    type: ClassVar[str] = "session.update"

    patch: Mapping[str, Any] = field(metadata=wire(name="session", read=read_object))


@frozen(kw_only=True)
class AppendAudio(RealtimeCommand):
    """Append sound to the input buffer. `audio` is in the wire format: base64 is undone, the encoding not.

    Attributes:
        audio: sound in the session's input format, base64.
    """

    type: ClassVar[str] = "input_audio_buffer.append"

    audio: bytes = field(
        default=b"",
        repr=lambda data: f"<{len(data)} bytes>",
        metadata=wire("delta", read=read_audio),
    )


@frozen(kw_only=True)
class Commit(RealtimeCommand):
    """Make the buffered input a user item."""

    type: ClassVar[str] = "input_audio_buffer.commit"


@frozen(kw_only=True)
class ClearInput(RealtimeCommand):
    """Drop buffered input."""

    type: ClassVar[str] = "input_audio_buffer.clear"


@frozen(kw_only=True)
class ClearOutputAudio(RealtimeCommand):
    """Stop the sound of a response (None: of the current one).

    Attributes:
        response_id: whose sound; None: of the current one.
    """

    type: ClassVar[str] = "output_audio_buffer.clear"

    response_id: str | None = None


@frozen(kw_only=True)
class CreateResponse(RealtimeCommand):
    """Answer what is in the conversation.

    Attributes:
        options: what is different for this response.
    """

    type: ClassVar[str] = "response.create"

    options: ResponseCreateOptions = field(default=ResponseCreateOptions(), metadata=wire(name="response"))


@frozen(kw_only=True)
class CancelResponse(RealtimeCommand):
    """Cancel a response (None: the current one).

    Attributes:
        response_id: which; None: the current one.
    """

    type: ClassVar[str] = "response.cancel"

    response_id: str | None = None


@frozen(kw_only=True)
class CreateItem(RealtimeCommand):
    """Put an item into the conversation after `previous_item_id` (None: at the end; `root`: at the front).

    Attributes:
        item: a message, or the output of a function call.
        previous_item_id: behind which item; None: at the end; `root`: at the front.
    """

    type: ClassVar[str] = "conversation.item.create"

    item: Item = field(metadata=wire(read=read_item))
    previous_item_id: str | None = None


@frozen(kw_only=True)
class DeleteItem(RealtimeCommand):
    """Remove an item from the conversation.

    Attributes:
        item_id: which item.
    """

    type: ClassVar[str] = "conversation.item.delete"

    item_id: str = field(metadata=wire(code="missing_item_id", read=read_name))


@frozen(kw_only=True)
class TruncateItem(RealtimeCommand):
    """Cut an assistant item to what was heard of its sound.

    Attributes:
        item_id: which item, one of the assistant's.
        content_index: which part of it; 0 here.
        audio_end_ms: how much of its sound was heard, in milliseconds.
    """

    type: ClassVar[str] = "conversation.item.truncate"

    item_id: str = field(metadata=wire(code="missing_item_id", read=read_name))
    content_index: int = field(default=0, metadata=wire(read=read_count))
    audio_end_ms: int = field(metadata=wire(read=read_position_ms))


@frozen(kw_only=True)
class RetrieveItem(RealtimeCommand):
    """Ask for an item as the server sees it.

    Attributes:
        item_id: which item.
    """

    type: ClassVar[str] = "conversation.item.retrieve"

    item_id: str = field(metadata=wire(code="missing_item_id", read=read_name))
