"""Items with sound of a client's own: committed under their own id, and heard like anything that is said."""

from __future__ import annotations

import base64
from typing import Any

import attrs
import numpy as np
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.cascade.plugin import CascadePlugin
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex import (
    ConversationItemAdded,
    ConversationItemInputAudioTranscriptionCompleted,
    CreateItem,
    CreateResponse,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputAudioPart,
    InputImagePart,
    InputTextPart,
    ItemPart,
    MessageItem,
    ResponseDone,
)
from duplex_trio.protocol.duplex.audio import pcm16_bytes
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.testing import open_session
from duplex_trio.testing.pictures import PNG_URL

Transcribed = ConversationItemInputAudioTranscriptionCompleted
BY_HAND = {"turn_detection": None}
IMAGE = InputImagePart(PNG_URL)


def part(seconds: float, *, loud: bool = True, rate_hz: int = 24_000, **more: Any) -> InputAudioPart:
    time_s = np.arange(int(seconds * rate_hz)) / rate_hz
    pcm = (0.3 * loud * np.sin(2 * np.pi * 200 * time_s)).astype(np.float32)
    return InputAudioPart(audio=base64.b64encode(pcm16_bytes(pcm)).decode(), **more)


def spoken(*parts: ItemPart, item_id: str = "mine", previous_item_id: str | None = None) -> CreateItem:
    item = MessageItem(id=item_id, role="user", content=parts)
    return CreateItem(item=item, previous_item_id=previous_item_id, event_id="e1")


class _Seeing(ScriptedPipeline):
    """The scripted model, which takes images too."""

    class _Plugin(CascadePlugin):
        def capabilities(self, max_sessions: int) -> DuplexCapabilities:
            return attrs.evolve(super().capabilities(max_sessions), supports_image_input=True)

    def build_plugin(self) -> CascadePlugin:
        return self._Plugin(ChatProfile(default_instructions=None), voices=("tone",))


async def test_it_is_committed_under_its_own_id(autojump_clock: MockClock) -> None:
    """Added, created, committed, done, all of the same item; its words follow, and no response."""
    async with open_session(Script(heard=["hello"]), patch=BY_HAND) as talker:
        begin = len(talker.heard.events)
        talker.send(spoken(part(1.0)))
        await talker.heard.nth(Transcribed, 1)
        await trio.sleep(5)
        assert talker.heard.types[begin:] == [
            "conversation.item.added",
            "conversation.item.created",
            "input_audio_buffer.committed",
            "conversation.item.done",
            "conversation.item.input_audio_transcription.completed",
        ]
        (committed,) = talker.heard.of(InputAudioBufferCommitted)
        assert committed.item_id == "mine"
        assert committed.duplex is not None
        assert committed.duplex.commit is not None
        assert (committed.duplex.commit.is_speech, committed.duplex.commit.no_response) == (True, True)


@pytest.mark.parametrize("dialect", ["ga", "beta"])
async def test_for_openai_it_is_an_item_like_another(autojump_clock: MockClock, dialect: DialectName) -> None:
    """Nothing is said of a commit there, and the input buffer knows nothing of it."""
    async with open_session(Script(heard=["hello"]), dialect=dialect) as talker:
        talker.send(spoken(part(1.0)), CreateResponse())
        await talker.heard.nth(ResponseDone, 1)
        assert not talker.heard.of(InputAudioBufferCommitted)
        assert talker.heard.of(Transcribed)[0].transcript == "hello"


async def test_words_that_came_with_it_are_told(autojump_clock: MockClock) -> None:
    """Between the commit and the end of the item, and nothing is recognised."""
    script = Script(heard=["something else"])
    async with open_session(script, patch=BY_HAND) as talker:
        begin = len(talker.heard.events)
        talker.send(spoken(part(0.5, transcript="my words")), CreateResponse())
        await talker.heard.nth(ResponseDone, 1)
        types = talker.heard.types[begin:]
        assert types[2:5] == [
            "input_audio_buffer.committed",
            "conversation.item.input_audio_transcription.completed",
            "conversation.item.done",
        ]
        assert talker.heard.of(Transcribed)[0].transcript == "my words"
    assert [message.content for message in script.asked[-1].prompt.messages] == ["my words"]


async def test_silence_is_committed_as_silence(autojump_clock: MockClock) -> None:
    """It is done without words, and no model is asked to listen to it."""
    script = Script(heard=["never"])
    async with open_session(script, patch=BY_HAND) as talker:
        talker.send(spoken(part(1.0, loud=False)))
        committed = await talker.heard.nth(InputAudioBufferCommitted, 1)
        assert committed.duplex is not None
        assert committed.duplex.commit is not None
        assert (committed.duplex.commit.is_speech, committed.duplex.commit.empty) == (False, True)
        await trio.sleep(5)
        assert talker.heard.types[-1] == "conversation.item.done"


async def test_pieces_are_one_utterance(autojump_clock: MockClock) -> None:
    """Whatever formats they are in; one item with one part, one transcript."""
    async with open_session(patch=BY_HAND) as talker:
        talker.send(spoken(part(1.0), part(0.5, rate_hz=16_000, sample_rate_hz=16_000)))
        assert (await talker.heard.nth(Transcribed, 1)).transcript == "sound of 1.5 seconds"
        item = talker.heard.of(ConversationItemAdded)[0].item
        assert isinstance(item, MessageItem)
        assert item.content == (InputAudioPart(),)


async def test_images_beside_it_are_an_item_of_their_own(autojump_clock: MockClock) -> None:
    """It stands in front of the sound, where the client wanted that."""
    async with open_session(pipeline=_Seeing(script=Script(heard=["look"])), patch=BY_HAND) as talker:
        talker.send(spoken(InputTextPart("later"), item_id="text"))
        talker.send(spoken(IMAGE, part(1.0), previous_item_id="root"))
        await talker.heard.nth(Transcribed, 1)
        added = [(event.item.id, event.previous_item_id) for event in talker.heard.of(ConversationItemAdded)]
        assert added == [("text", None), ("mine_image", None), ("mine", "mine_image")]
        image = talker.heard.of(ConversationItemAdded)[1].item
        assert isinstance(image, MessageItem)
        assert image.content == (IMAGE,)


@pytest.mark.parametrize("taken", ["mine", "mine_image"])
async def test_a_taken_id_leaves_nothing_behind(autojump_clock: MockClock, taken: str) -> None:
    """Whether the item's id is taken or that of its images, neither enters the conversation."""
    async with open_session(pipeline=_Seeing(script=Script()), patch=BY_HAND) as talker:
        talker.send(spoken(InputTextPart("before"), item_id=taken), spoken(IMAGE, part(1.0)))
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.event_id) == ("item_create_duplicate_item_id", "e1")
        assert len(talker.heard.of(ConversationItemAdded)) == 1


async def test_a_full_conversation_takes_neither(autojump_clock: MockClock) -> None:
    """There is room for one of the two: both are refused."""
    limits = SessionLimits(conversation_items_max=2)
    pipeline = _Seeing(script=Script())
    async with open_session(pipeline=pipeline, patch=BY_HAND, limits=limits) as talker:
        talker.send(spoken(InputTextPart("before"), item_id="before"), spoken(IMAGE, part(1.0)))
        error = (await talker.heard.nth(ErrorEvent, 1)).error
        assert (error.code, error.event_id) == ("input_backpressure", "e1")
        talker.send(spoken(IMAGE, item_id="mine_image"))
        assert (await talker.heard.nth(ConversationItemAdded, 2)).item.id == "mine_image"


@pytest.mark.parametrize(
    ("parts", "index", "told"),
    [
        ((InputTextPart("Translate:"), part(1.0)), 1, "Translate:\nhello"),
        ((part(0.5), InputTextPart("What is that?"), part(0.5)), 0, "hello\nWhat is that?"),
    ],
)
async def test_text_beside_sound_is_part_of_what_was_said(
    autojump_clock: MockClock, parts: tuple[ItemPart, ...], index: int, told: str
) -> None:
    """Both are in the item, in their order; the model is told of both once the sound has its words."""
    script = Script(heard=["hello"])
    async with open_session(script, patch=BY_HAND) as talker:
        talker.send(spoken(*parts), CreateResponse())
        completed = await talker.heard.nth(Transcribed, 1)
        assert completed.content_index == index
        await talker.heard.nth(ResponseDone, 1)
        item = talker.handle._core.state.conversation.get("mine").item
        assert isinstance(item, MessageItem)
        assert [type(one) for one in item.content] == ([InputTextPart, InputAudioPart][:: 1 if index else -1])
    assert script.asked[-1].prompt.messages[-1].content == told


async def test_text_stays_when_its_sound_has_no_words(autojump_clock: MockClock) -> None:
    """Silence beside it changes nothing about what was written."""
    script = Script()
    async with open_session(script, patch=BY_HAND) as talker:
        talker.send(spoken(InputTextPart("Listen!"), part(0.5, loud=False)), CreateResponse())
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
    assert script.asked[-1].prompt.messages[-1].content == "Listen!"
