"""Pictures in items: which are taken, and how many a conversation holds.

A picture travels as the client wrote it, a `data:` URL; the model's plugin decodes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from duplex_trio.deploy import SessionLimits
from duplex_trio.protocol.duplex import InputImagePart, Item, MessageItem, RealtimeError
from duplex_trio.protocol.pictures import is_picture_url


def images_of(item: Item) -> tuple[str, ...]:
    """The URLs of an item's pictures."""
    if not isinstance(item, MessageItem):
        return ()
    return tuple(part.image_url for part in item.content if isinstance(part, InputImagePart))


def check_images(item: Item, held: Iterable[Item], limits: SessionLimits, at: str = "item") -> None:
    """Refuse pictures that cannot be read, and more than a conversation holds.

    Args:
        item: the new item.
        held: the items that the conversation has.
        limits: how many pictures it may have, and of what size together.
        at: where the client wrote the item.

    Raises:
        RealtimeError: `invalid_image`, naming the part, or `input_backpressure`.
    """
    urls = images_of(item)
    if not urls:
        return
    assert isinstance(item, MessageItem)
    for index, part in enumerate(item.content):
        if isinstance(part, InputImagePart) and not is_picture_url(part.image_url):
            raise RealtimeError(
                "invalid_image",
                "expected a JPEG or PNG picture as a data: URL in base64",
                param=f"{at}.content[{index}].image_url",
            )
    everything = [*urls, *(url for other in held for url in images_of(other))]
    images_max, chars_max = limits.conversation_images_max, limits.conversation_image_chars_max
    if len(everything) > images_max or sum(map(len, everything)) > chars_max:
        raise RealtimeError(
            "input_backpressure",
            f"a conversation holds at most {images_max} pictures with {chars_max} characters together",
            param=f"{at}.content",
        )
