"""An assistant item that the client deletes while it is being spoken."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    ConversationItemDone,
    ConversationItemRetrieved,
    CreateItem,
    CreateResponse,
    DeleteItem,
    InputTextPart,
    MessageItem,
    ResponseDone,
    ResponseOutputAudioDelta,
    RetrieveItem,
)
from duplex_trio.testing import open_session


@pytest.mark.parametrize("reuse", [False, True])
async def test_it_stays_deleted(autojump_clock: MockClock, reuse: bool) -> None:
    """The response is spoken to its end, but its item does not come back, nor does it take another item's place."""
    async with open_session(Script(), dialect="ga") as talker:
        talker.write("one two three")
        spoken = (await talker.heard.wait_for(ResponseOutputAudioDelta)).item_id
        talker.send(DeleteItem(item_id=spoken))
        mine = MessageItem(id=spoken, role="user", content=(InputTextPart("mine"),))
        if reuse:
            talker.send(CreateItem(item=mine))
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "completed"
        about = [event.item for event in talker.heard.of(ConversationItemDone) if event.item.id == spoken]
        assert about == ([mine] if reuse else [])
        if reuse:
            talker.send(RetrieveItem(item_id=spoken))
            assert (await talker.heard.wait_for(ConversationItemRetrieved)).item == mine
        talker.send(CreateResponse())
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"
