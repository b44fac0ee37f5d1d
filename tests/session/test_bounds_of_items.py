"""What a client may put into a conversation, and how much of it."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    CancelResponse,
    ConversationItemTruncated,
    CreateItem,
    CreateResponse,
    DeleteItem,
    ErrorEvent,
    InputAudioPart,
    InputTextPart,
    MessageItem,
    OutputAudioBufferCleared,
    ResponseDone,
    ResponseOutputAudioDelta,
    TruncateItem,
    UpdateSession,
)
from duplex_trio.testing import open_session


def message(text: str, item_id: str = "") -> CreateItem:
    return CreateItem(item=MessageItem(id=item_id, role="user", content=(InputTextPart(text),)))


async def test_a_conversation_holds_so_much_text(autojump_clock: MockClock) -> None:
    """Text beyond the bound is refused and changes nothing; deleting makes room again."""
    async with open_session(Script()) as talker:
        talker.send(message("a" * 5_000_000, "big"), message("b" * 5_000_000, "more"))
        error = await talker.heard.wait_for(ErrorEvent)
        assert (error.error.code, error.error.param) == ("input_backpressure", "item.content")
        talker.send(DeleteItem(item_id="big"), message("c" * 5_000_000, "more"), DeleteItem(item_id="more"))
        talker.write("hello")
        await talker.heard.nth(ResponseDone, 1)
        assert len(talker.heard.of(ErrorEvent)) == 1


@pytest.mark.parametrize(
    ("command", "code", "param"),
    [
        (message("a", "root"), "invalid_value", "item.id"),
        (message("a", "x" * 257), "invalid_value", "item.id"),
        (
            CreateItem(item=MessageItem(role="user", content=(InputAudioPart(),))),
            "invalid_value",
            "item.content[0].audio",
        ),
        (
            UpdateSession(patch={"ref_audio": "file:///secret"}),
            "ref_audio_update_unsupported",
            "session.ref_audio",
        ),
    ],
)
async def test_what_cannot_be_used_is_refused(
    autojump_clock: MockClock, command: Any, code: str, param: str
) -> None:
    """The error names the field, and the session answers as before."""
    async with open_session(Script()) as talker:
        talker.send(command)
        error = (await talker.heard.wait_for(ErrorEvent)).error
        assert (error.code, error.param) == (code, param)
        talker.write("hello")
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


async def test_a_truncation_is_measured_by_what_was_sent(autojump_clock: MockClock) -> None:
    """Sound that the model has made but the client cannot have got is not there to be kept."""
    async with open_session(Script(word_ms=1000), dialect="ga") as talker:
        talker.write("one two three four five six")
        delta = await talker.heard.wait_for(ResponseOutputAudioDelta)
        talker.send(TruncateItem(item_id=delta.item_id, audio_end_ms=5000))
        error = await talker.heard.wait_for(ErrorEvent)
        assert (error.error.code, error.error.param) == ("bad_event", "audio_end_ms")
        talker.send(TruncateItem(item_id=delta.item_id, audio_end_ms=100))
        assert (await talker.heard.wait_for(ConversationItemTruncated)).audio_end_ms == 100


async def test_epochs_never_fall_on_the_wire(autojump_clock: MockClock) -> None:
    """What a cancellation sends carries the new epoch; the old one has a field of its own."""
    async with open_session(Script()) as talker:
        talker.write("one two three four five six")
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        talker.send(CancelResponse())
        done = await talker.heard.nth(ResponseDone, 1)
        cleared = await talker.heard.wait_for(OutputAudioBufferCleared)
        assert cleared.duplex is not None
        assert done.duplex is not None
        assert (cleared.duplex.epoch, done.duplex.epoch, done.duplex.cancelled_epoch) == (1, 1, 0)
        talker.send(CreateResponse())
        await talker.heard.nth(ResponseDone, 2)
