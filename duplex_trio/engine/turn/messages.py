"""From the messages of a request to what the model is told: text and pictures as they are, sound to be heard first."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from duplex_trio.engine.turn.request import Message, OmniRequest, Picture, Sound, Text
from duplex_trio.pipelines.processor import TurnProcessor
from duplex_trio.protocol.pictures import picture_url
from duplex_trio.stages.units import ChatMessage


@frozen
class Spoken:
    """A piece of sound that the model must hear, and where it is: the index of its message, and of its part."""

    sound: Sound
    place: tuple[int, int]


def closing_sound(request: OmniRequest, processor: TurnProcessor) -> Spoken | None:
    """The sound that a request ends with: that of the turn itself, and no part of the conversation before."""
    index = len(request.messages) - 1
    message = request.messages[index]
    part = message.content[-1] if message.content else None
    if (
        message.role != "user"
        or not isinstance(part, Sound)
        or part.transcript
        or not processor.supports_sound_input
    ):
        return None
    return Spoken(part, (index, len(message.content) - 1))


def pieces_of(index: int, message: Message) -> Iterator[ChatMessage | Spoken]:
    """A message as the model is told of it, in order; nothing for one that says nothing."""
    texts: list[str] = []
    images: list[str] = []

    def so_far() -> Iterator[ChatMessage]:
        if texts or images:
            yield ChatMessage(
                role=message.role, content="\n".join(texts), images=tuple(images), call_id=message.call_id
            )
            texts.clear()
            images.clear()

    for at, part in enumerate(message.content):
        match part:
            case Text(text=text) | Sound(transcript=str(text)) if text:
                texts.append(text)
            case Sound():
                yield from so_far()
                yield Spoken(part, (index, at))
            case Picture(data=data):
                images.append(data if isinstance(data, str) else picture_url(data))
    if message.role == "tool" and not texts:
        yield ChatMessage(role="tool", content="", call_id=message.call_id)
    yield from so_far()
    for call in message.calls:
        # Worded too, for models that read no calls.
        worded = f"{call.name}({call.arguments})"
        yield ChatMessage(role="assistant", content=worded, calls=(call,))
