"""Conversation items and their content parts, as immutable values.

Owns the shapes only. Reading client JSON into them is `item_parsing`; where an item stands in a conversation
is the session's business. `type` and `object` are class-level tags that the wire carries. An item made from a
client message without an id has the id "" until the session gives it one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from attrs import field, frozen

from duplex_trio.protocol.realtime.event_base import DUPLEX_ONLY, OMIT_NULL

ItemStatus = Literal["completed", "incomplete", "in_progress"]
Role = Literal["user", "assistant", "system"]


@frozen
class InputTextPart:
    """Text from the user or the system.

    Attributes:
        text: what was written.
    """

    type: ClassVar[str] = "input_text"

    text: str


@frozen
class InputAudioPart:
    """Sound from the user.

    `audio` is base64 as the client sent it, in `format` at `sample_rate_hz` (None: as the session declared),
    and None for sound that came through the input buffer. `transcript` is written even when None, for clients
    demand the key.

    Attributes:
        audio: base64, in a message that a client creates.
        transcript: what was said; null while it is not known.
        format: encoding of `audio`; the session's by default.
        sample_rate_hz: of `audio`; the session's by default.
    """

    type: ClassVar[str] = "input_audio"

    audio: str | None = field(default=None, metadata=OMIT_NULL)
    transcript: str | None = None
    format: str | Mapping[str, Any] | None = field(default=None, metadata=DUPLEX_ONLY)
    sample_rate_hz: int | None = field(default=None, metadata=DUPLEX_ONLY)


@frozen
class InputImagePart:
    """An image from the user, as a `data:` URL.

    Attributes:
        image_url: a `data:` URL of a JPEG or PNG.
        detail: read and without effect here.
    """

    type: ClassVar[str] = "input_image"

    image_url: str
    detail: Literal["auto", "low", "high"] = "auto"


@frozen
class OutputTextPart:
    """Text from the assistant.

    Attributes:
        text: what was written.
    """

    type: ClassVar[str] = "output_text"

    text: str


@frozen
class OutputAudioPart:
    """Sound from the assistant; `audio` stays None because the client already has it.

    Attributes:
        transcript: what was said, as far as it was heard.
        audio: left out: the client has it.
    """

    type: ClassVar[str] = "output_audio"

    transcript: str | None = None
    audio: str | None = field(default=None, metadata=OMIT_NULL)


ItemPart = InputTextPart | InputAudioPart | InputImagePart | OutputTextPart | OutputAudioPart
"""What a message item holds. The parts of `response.content_part.*` events are `ContentPart`."""


@frozen(kw_only=True)
class MessageItem:
    """One message of the conversation.

    Attributes:
        id: of the item; chosen by the server if the client does not.
        role: whose message.
        status: `incomplete` when it was cut.
        content: its parts.
    """

    type: ClassVar[str] = "message"
    object: ClassVar[str] = "realtime.item"

    id: str = ""
    role: Role
    status: ItemStatus = "completed"
    content: tuple[ItemPart, ...] = ()


@frozen(kw_only=True)
class FunctionCallItem:
    """A call the model wants made; `arguments` is JSON text.

    Attributes:
        id: of the item.
        call_id: what its output refers to.
        name: of the function.
        arguments: JSON text of an object.
        status: `incomplete` when it was cut.
    """

    type: ClassVar[str] = "function_call"
    object: ClassVar[str] = "realtime.item"

    id: str = ""
    call_id: str
    name: str
    arguments: str
    status: ItemStatus = "completed"


@frozen(kw_only=True)
class FunctionCallOutputItem:
    """What the client got from making the call `call_id`.

    Attributes:
        id: of the item; chosen by the server if the client does not.
        call_id: of the call.
        output: what the function gave, as text.
        status: always `completed`.
    """

    type: ClassVar[str] = "function_call_output"
    object: ClassVar[str] = "realtime.item"

    id: str = ""
    call_id: str
    output: str
    status: ItemStatus = "completed"


Item = MessageItem | FunctionCallItem | FunctionCallOutputItem


@frozen
class ItemReference:
    """A stand-in, in `response.create`'s `input`, for an item already in the conversation.

    Attributes:
        id: of the item.
    """

    type: ClassVar[str] = "item_reference"

    id: str


@frozen
class AudioContentPart:
    """The sound of a response in `response.content_part.*` events; these say `audio`, not `output_audio`.

    Attributes:
        transcript: empty at first, whole at the end.
    """

    type: ClassVar[str] = "audio"

    transcript: str = ""


@frozen
class TextContentPart:
    """The text of a response in `response.content_part.*` events.

    Attributes:
        text: empty at first, whole at the end.
    """

    type: ClassVar[str] = "text"

    text: str = ""


ContentPart = AudioContentPart | TextContentPart
