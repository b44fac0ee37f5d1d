"""Pictures in items: what is one, how many a conversation holds, and what the model is told of them."""

from __future__ import annotations

import pytest

from duplex_trio.deploy import SessionLimits
from duplex_trio.protocol.duplex import (
    InputImagePart,
    InputTextPart,
    ItemReference,
    MessageItem,
    RealtimeError,
)
from duplex_trio.session.state.conversation import Conversation, ConversationEntry, item_text
from duplex_trio.session.state.images import check_images, images_of
from duplex_trio.testing.pictures import JPEG_URL as JPEG
from duplex_trio.testing.pictures import PNG_URL as PNG
from duplex_trio.testing.pictures import png_url

LIMITS = SessionLimits(conversation_images_max=8, conversation_image_chars_max=10_000)


def shown(*urls: str, text: str | None = None, item_id: str = "") -> MessageItem:
    parts = (InputTextPart(text),) if text is not None else ()
    return MessageItem(id=item_id, role="user", content=(*parts, *map(InputImagePart, urls)))


def refusal(item: MessageItem, *held: MessageItem) -> tuple[str, str | None]:
    with pytest.raises(RealtimeError) as caught:
        check_images(item, held, LIMITS)
    return caught.value.code, caught.value.param


@pytest.mark.parametrize("url", [PNG, JPEG])
def test_a_picture_is_taken(url: str) -> None:
    """PNG and JPEG, beside text or alone."""
    check_images(shown(url), (), LIMITS)
    check_images(shown(url, text="what is it?"), (), LIMITS)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/a.png",
        "data:image/gif;base64,R0lGODlh",
        "data:image/png;base64,****",
        "data:image/png;base64,",
        PNG.replace("image/png", "image/jpeg"),
        PNG + "=",
        PNG[:-8],
        png_url(10).replace("A", "B", 20),
    ],
)
def test_what_is_none_is_refused_by_its_part(url: str) -> None:
    """Another place, another kind, no base64, or another picture than it says, or damaged."""
    assert refusal(shown(url, text="what is it?")) == ("invalid_image", "item.content[1].image_url")


def test_a_conversation_holds_so_many() -> None:
    """Of all its items together."""
    held = [shown(PNG, JPEG)] * 3
    check_images(shown(*[PNG] * 2), held, LIMITS)
    assert refusal(shown(*[PNG] * 3), *held) == ("input_backpressure", "item.content")


def test_and_so_much() -> None:
    """By the characters of their URLs; an item without pictures is always taken."""
    big = shown(png_url(5_050))
    check_images(big, (), LIMITS)
    assert refusal(big, big) == ("input_backpressure", "item.content")
    check_images(shown(text="hello"), [big, big], LIMITS)


def test_the_model_is_told_of_them() -> None:
    """With the words beside them, also where there are none, and when a client refers to the item."""
    conversation = Conversation()
    for item in (shown(PNG, item_id="i0"), shown(JPEG, text="and this?", item_id="i1")):
        conversation.insert(ConversationEntry(item, item_text(item)))
    told = [(message.content, message.images) for message in conversation.messages()]
    assert told == [("", (PNG,)), ("and this?", (JPEG,))]
    given = conversation.messages_of([ItemReference(id="i0"), shown(JPEG)])
    assert [message.images for message in given] == [(PNG,), (JPEG,)]
    assert images_of(shown(text="hello")) == ()
