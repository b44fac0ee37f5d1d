"""Pictures in items: which are taken, and how many a conversation holds.

A picture travels as the client wrote it, a `data:` URL; the model's plugin decodes it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from duplex_trio.protocol.duplex import InputImagePart, Item, MessageItem, RealtimeError

IMAGES_MAX = 8
"""Pictures of one conversation."""
IMAGE_CHARS_MAX = 4 * 1024 * 1024
"""Characters of their URLs together: 3 MiB of pictures."""
_KINDS = {
    "data:image/jpeg;base64,": b"\xff\xd8",
    "data:image/png;base64,": b"\x89PNG\r\n\x1a\n",
}
"""How the URL of a picture begins, and the picture itself."""


def images_of(item: Item) -> tuple[str, ...]:
    """The URLs of an item's pictures."""
    if not isinstance(item, MessageItem):
        return ()
    return tuple(part.image_url for part in item.content if isinstance(part, InputImagePart))


def check_images(item: Item, held: Iterable[Item], at: str = "item") -> None:
    """Refuse pictures that cannot be read, and more than a conversation holds.

    Args:
        item: the new item.
        held: the items that the conversation has.
        at: where the client wrote the item.

    Raises:
        RealtimeError: `invalid_image`, naming the part, or `input_backpressure`.
    """
    urls = images_of(item)
    if not urls:
        return
    assert isinstance(item, MessageItem)
    for index, part in enumerate(item.content):
        if isinstance(part, InputImagePart) and not _is_picture(part.image_url):
            raise RealtimeError(
                "invalid_image",
                "expected a JPEG or PNG picture as a data: URL in base64",
                param=f"{at}.content[{index}].image_url",
            )
    everything = [*urls, *(url for other in held for url in images_of(other))]
    if len(everything) > IMAGES_MAX or sum(map(len, everything)) > IMAGE_CHARS_MAX:
        raise RealtimeError(
            "input_backpressure",
            f"a conversation holds at most {IMAGES_MAX} pictures with {IMAGE_CHARS_MAX} characters together",
            param=f"{at}.content",
        )


def _is_picture(url: str) -> bool:
    for prefix, magic in _KINDS.items():
        if url.startswith(prefix):
            try:
                return base64.b64decode(url[len(prefix) :], validate=True).startswith(magic)
            except binascii.Error:
                return False
    return False
