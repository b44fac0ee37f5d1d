"""Messages that the pages show are messages of the protocols: what clients send is taken, what servers send has
a class.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from duplex_trio.protocol.dialects import Dialect, event_types
from duplex_trio.protocol.duplex import COMMAND_CLASSES, TYPE_ALIASES, RealtimeError, decode_command
from duplex_trio.protocol.video import messages as video_messages
from tests.docs.blocks import BLOCKS, PAGES, Block, named, prose_of

SERVER_TYPES = {kind for dialect in Dialect for kind in event_types(dialect)}
VIDEO_TYPES = {
    kind for cls in vars(video_messages).values() if isinstance(kind := getattr(cls, "type", None), str)
}
PARTS = {"message", "input_text", "input_audio", "output_text", "function", "function_call", "server_vad", "realtime",
         "semantic_vad", "function_call_output", "audio/pcm", "audio/pcmu", "near_field", "input_image", "json_object",
         "json_schema", "text", "audio", "image_url", "far_field", "output_audio"}  # fmt: skip
"""The `type` of what is in messages."""


def _shown(page_text: str) -> list[str]:
    return re.findall(r"`(\{\"type\".*?\})`", page_text)


ONE_LINERS = [(path.name, text) for path in PAGES for text in _shown(prose_of(path))]


@pytest.mark.parametrize(("page", "text"), ONE_LINERS, ids=range(len(ONE_LINERS)))
def test_a_message_in_a_sentence_is_one(page: str, text: str) -> None:
    """`N` and `K` stand for numbers there, and dots for text."""
    message = json.loads(re.sub(r":([A-Z])([,}])", r":1\2", text))
    _check(message)


@pytest.mark.parametrize("block", named("json", "jsonl"), ids=str)
def test_a_block_of_json_is_json_and_its_messages_are_messages(block: Block) -> None:
    for message in _messages(block.text):
        if isinstance(message, dict) and "type" in message:
            _check(message)


def _messages(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    while text := text.strip():
        message, end = decoder.raw_decode(text)
        yield message
        text = text[end:]


def _check(message: dict[str, Any]) -> None:
    kind = message["type"]
    if kind in COMMAND_CLASSES or kind in TYPE_ALIASES:
        try:
            decode_command(orjson.dumps(message))
        except RealtimeError as error:
            pytest.fail(f"{kind}: {error.param}: {error.message}")
    else:
        assert kind in SERVER_TYPES | VIDEO_TYPES | PARTS, kind


DRAWN = [block for block in BLOCKS if '"type"' in block.text and not block.page.startswith("docs/wire/")]


@pytest.mark.parametrize("block", DRAWN, ids=str)
def test_types_that_are_shown_are_types(block: Block) -> None:
    for kind in re.findall(r'"type": ?"([^"]+)"', block.text):
        known = (
            SERVER_TYPES
            | VIDEO_TYPES
            | PARTS
            | set(COMMAND_CLASSES)
            | {"string", "object", "integer", "number"}
        )
        assert kind in known | {"array", "boolean"}, kind
