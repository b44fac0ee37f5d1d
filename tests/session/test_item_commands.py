"""Items, playback and signals as commands of a running session: order, refusals, and what the model is told."""

from __future__ import annotations

import base64

import attrs
import numpy as np
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    AckPlayback,
    AppendText,
    ConversationItemDeleted,
    ConversationItemDone,
    ConversationItemInputAudioTranscriptionCompleted,
    ConversationItemRetrieved,
    ConversationItemTruncated,
    CreateItem,
    CreateResponse,
    DeleteItem,
    DuplexCommand,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    InputAudioPart,
    InputTextPart,
    MessageItem,
    OutputAudioPart,
    OutputTextPart,
    PlaybackAcknowledged,
    ResponseDone,
    ResponseOutputAudioDelta,
    RetrieveItem,
    SignalTurn,
    TruncateItem,
    TurnEvent,
)
from duplex_trio.protocol.duplex.audio import pcm16_bytes
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.testing import Talker, open_session

FOUR = "alpha bravo charlie delta"


def message(text: str, item_id: str = "", previous_item_id: str | None = None) -> CreateItem:
    item = MessageItem(id=item_id, role="user", content=(InputTextPart(text),))
    return CreateItem(item=item, previous_item_id=previous_item_id)


def tone_base64(seconds: float, rate_hz: int = 24_000) -> str:
    time_s = np.arange(int(seconds * rate_hz)) / rate_hz
    pcm = (0.3 * np.sin(2 * np.pi * 200 * time_s)).astype(np.float32)
    return base64.b64encode(pcm16_bytes(pcm)).decode()


def told(script: Script) -> list[str]:
    return [message.content for message in script.asked[-1].prompt.messages]


async def answered(talker: Talker) -> str:
    """Let one answer be given and return the id of its item."""
    count = len(talker.heard.of(ResponseDone))
    talker.write("hi")
    done = await talker.heard.nth(ResponseDone, count + 1)
    return done.response.output[0].id


async def refused(talker: Talker, command: DuplexCommand) -> tuple[str, str | None, str | None]:
    talker.send(command)
    error = (await talker.heard.nth(ErrorEvent, 1)).error
    return error.code, error.param, error.event_id


async def test_items_go_where_they_are_put(autojump_clock: MockClock) -> None:
    """The model is told the conversation in its order, not in the order of arrival."""
    script = Script()
    async with open_session(script) as talker:
        talker.send(
            message("b", "b"),
            message("d", "d"),
            message("a", "a", "root"),
            message("c", "c", "b"),
            CreateResponse(),
        )
        await talker.heard.nth(ResponseDone, 1)
        places = [(event.item.id, event.previous_item_id) for event in talker.heard.of(ConversationItemDone)][
            :4
        ]
        assert places == [("b", None), ("d", "b"), ("a", None), ("c", "b")]
    assert told(script) == ["a b c d"]


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (message("x", "a"), ("item_create_duplicate_item_id", "item.id")),
        (message("x", "b", "nowhere"), ("item_not_found", "previous_item_id")),
        (DeleteItem(item_id="nowhere"), ("item_not_found", "item_id")),
        (RetrieveItem(item_id="nowhere"), ("item_retrieve_invalid_item_id", "item_id")),
        (TruncateItem(item_id="nowhere", audio_end_ms=0), ("item_not_found", "item_id")),
        (TruncateItem(item_id="a", audio_end_ms=0), ("bad_event", "item_id")),
        (AppendText(text="x"), ("native_text_append_unsupported", None)),
        (AckPlayback(played_ms=1), ("playback_item_not_found", None)),
    ],
)
async def test_a_refused_command_names_its_fault(
    autojump_clock: MockClock, command: DuplexCommand, refusal: tuple[str, str | None]
) -> None:
    """One error with code, field and the client's event id; the session answers as before."""
    script = Script()
    async with open_session(script) as talker:
        talker.send(message("hi", "a"))
        assert await refused(talker, attrs.evolve(command, event_id="e1")) == (*refusal, "e1")
        talker.send(CreateResponse())
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
    assert told(script) == ["hi"]


@pytest.mark.parametrize("dialect", ["ga", "duplex"])
async def test_the_id_that_was_announced_for_speech_is_taken(
    autojump_clock: MockClock, dialect: DialectName
) -> None:
    """An item of the client cannot have it, with sound or without; the speech becomes its item as it should."""
    async with open_session(Script(), dialect=dialect) as talker:
        await talker.speak(0.5)
        item_id = (await talker.heard.nth(InputAudioBufferSpeechStarted, 1)).item_id
        sound = InputAudioPart(audio=tone_base64(0.2))
        talker.send(message("x", item_id))
        talker.send(CreateItem(item=MessageItem(id=item_id, role="user", content=(sound,))))
        await talker.pause(0.8)
        codes = [event.error.code for event in talker.heard.of(ErrorEvent)]
        assert codes == ["item_create_duplicate_item_id"] * 2
        assert [event.item_id for event in talker.heard.of(InputAudioBufferCommitted)] == [item_id]
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


async def test_a_deleted_item_is_not_told(autojump_clock: MockClock) -> None:
    """Deleted, an item is gone from the conversation, for the model and for retrieval."""
    script = Script()
    async with open_session(script, dialect="ga") as talker:
        answer = await answered(talker)
        talker.send(
            message("keep", "k"), message("drop", "d"), DeleteItem(item_id="d"), DeleteItem(item_id=answer)
        )
        talker.send(CreateResponse())
        await talker.heard.nth(ResponseDone, 2)
        assert [event.item_id for event in talker.heard.of(ConversationItemDeleted)] == ["d", answer]
        assert await refused(talker, RetrieveItem(item_id="d")) == (
            "item_retrieve_invalid_item_id",
            "item_id",
            None,
        )
    assert told(script) == ["hi keep"]


async def test_an_item_can_be_deleted_while_its_response_speaks(autojump_clock: MockClock) -> None:
    """The response goes on to its end; its item does not come back."""
    script = Script(replies={"hi": FOUR})
    async with open_session(script, dialect="ga") as talker:
        talker.write("hi")
        delta = await talker.heard.nth(ResponseOutputAudioDelta, 1)
        talker.send(DeleteItem(item_id=delta.item_id))
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
        await answered(talker)
    assert told(script) == ["hi hi"]


async def test_an_utterance_can_be_deleted_before_its_transcript(autojump_clock: MockClock) -> None:
    """No transcript is told for it, and a question behind it does not wait for one."""
    script = Script(heard=["secret"])
    async with open_session(
        script, patch={"turn_detection": {"create_response": False}}, step_s={"asr": 2.0}
    ) as talker:
        await talker.turn()
        done = await talker.heard.nth(ConversationItemDone, 1)
        talker.send(DeleteItem(item_id=done.item.id))
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(5)
        assert not talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)
    assert told(script) == ["hi"]


async def test_a_retrieved_item_shows_its_transcript(autojump_clock: MockClock) -> None:
    """An utterance and an answer, as the server knows them."""
    async with open_session(Script(heard=["hello"], otherwise=lambda _: "well met"), dialect="ga") as talker:
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        for done in talker.heard.of(ConversationItemDone):
            talker.send(RetrieveItem(item_id=done.item.id))
        await talker.heard.nth(ConversationItemRetrieved, 2)
        user, assistant = (event.item for event in talker.heard.of(ConversationItemRetrieved))
        assert isinstance(user, MessageItem)
        assert user.content == (InputAudioPart(transcript="hello"),)
        assert isinstance(assistant, MessageItem)
        assert assistant.content == (OutputAudioPart(transcript="well met"),)


@pytest.mark.parametrize("dialect", ["ga", "duplex"])
async def test_a_truncated_answer_is_remembered_so(autojump_clock: MockClock, dialect: str) -> None:
    """Half of the sound: half of the words in the item and in the next prompt, and no acknowledgement adds more."""
    script = Script(replies={"hi": FOUR})
    async with open_session(script, dialect=dialect) as talker:  # type: ignore[arg-type]
        answer = await answered(talker)
        talker.send(TruncateItem(item_id=answer, audio_end_ms=600, event_id="t"))
        truncated = await talker.heard.nth(ConversationItemTruncated, 1)
        assert (truncated.item_id, truncated.audio_end_ms) == (answer, 600)
        talker.send(AckPlayback(played_ms=1200, item_id=answer), RetrieveItem(item_id=answer))
        shown = (await talker.heard.nth(ConversationItemRetrieved, 1)).item
        assert isinstance(shown, MessageItem)
        kept = shown.content[0].transcript  # type: ignore[union-attr]
        assert kept
        assert FOUR.startswith(kept)
        assert len(kept) == pytest.approx(len(FOUR) / 2, abs=2)
        await answered(talker)
    assert told(script)[1] == kept


async def test_acknowledgements_build_the_history(autojump_clock: MockClock) -> None:
    """Each acknowledgement says whether history changed; the next prompt has what was acknowledged."""
    script = Script(replies={"hi": FOUR})
    async with open_session(script) as talker:
        answer = await answered(talker)
        for played_ms in (300, 300, 900):
            talker.send(AckPlayback(played_ms=played_ms, item_id=answer))
        await talker.heard.nth(PlaybackAcknowledged, 3)
        assert [event.event.history_committed for event in talker.heard.of(PlaybackAcknowledged)] == [
            True,
            False,
            True,
        ]
        await answered(talker)
    kept = told(script)[1]
    assert FOUR.startswith(kept)
    assert len(kept.split()) >= 3


async def test_acknowledgements_without_an_id_are_for_the_newest(autojump_clock: MockClock) -> None:
    """The newest answer that has unheard sound is meant."""
    async with open_session() as talker:
        await answered(talker)
        newer = await answered(talker)
        talker.send(AckPlayback(played_ms=200))
        assert (await talker.heard.nth(PlaybackAcknowledged, 1)).event.item_id == newer


# ------------------------------------------------------------------ sound in items


async def test_an_item_with_sound_is_transcribed_and_answered(autojump_clock: MockClock) -> None:
    """Announced without its bytes, then transcribed; a question behind it waits for the words."""
    script = Script(heard=["from a file"])
    sound = MessageItem(id="s", role="user", content=(InputAudioPart(audio=tone_base64(1.0)),))
    async with open_session(script) as talker:
        talker.send(CreateItem(item=sound), CreateResponse())
        await talker.heard.nth(ResponseDone, 1)
        assert talker.heard.of(ConversationItemDone)[0].item == MessageItem(
            id="s", role="user", content=(InputAudioPart(),)
        )
        assert (
            talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)[0].transcript == "from a file"
        )
    assert told(script) == ["from a file"]


async def test_an_item_with_sound_may_bring_its_transcript(autojump_clock: MockClock) -> None:
    """Then nothing is recognised; the words are the client's."""
    script = Script(heard=["something else"])
    part = InputAudioPart(audio=tone_base64(0.5), transcript="my words")
    async with open_session(script) as talker:
        talker.send(CreateItem(item=MessageItem(role="user", content=(part,))), CreateResponse())
        await talker.heard.nth(ResponseDone, 1)
        completed = await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)
        assert completed.transcript == "my words"
    assert told(script) == ["my words"]


@pytest.mark.parametrize(
    ("part", "refusal"),
    [
        (InputAudioPart(audio="AAAA", format="mp3"), ("unsupported_audio_format", "item.content[0].format")),
        (InputAudioPart(audio="AAAA", format="pcm16", sample_rate_hz=4000), ("bad_event", None)),
    ],
)
async def test_sound_in_a_strange_format_is_refused(
    autojump_clock: MockClock, part: InputAudioPart, refusal: tuple[str, str | None]
) -> None:
    """No item enters the conversation."""
    async with open_session() as talker:
        command = CreateItem(item=MessageItem(role="user", content=(part,)), event_id="e1")
        code, param, event_id = await refused(talker, command)
        assert (code, event_id) == (refusal[0], "e1")
        assert refusal[1] is None or param == refusal[1]
        assert not talker.heard.of(ConversationItemDone)


async def test_history_can_be_seeded(autojump_clock: MockClock) -> None:
    """A client brings both sides of an earlier conversation."""
    script = Script()
    async with open_session(script) as talker:
        talker.send(
            message("before"),
            CreateItem(item=MessageItem(role="assistant", content=(OutputTextPart("indeed"),))),
            message("now"),
            CreateResponse(),
        )
        await talker.heard.nth(ResponseDone, 1)
    assert told(script) == ["before", "indeed", "now"]


# ------------------------------------------------------------------ signals


@pytest.mark.parametrize(
    ("signal", "turn_state"),
    [("user_started", "user_speaking"), ("user_committed", "user_committed"), ("anything", "idle")],
)
async def test_a_signal_is_answered_with_the_turn_state(
    autojump_clock: MockClock, signal: str, turn_state: str
) -> None:
    """Known names change the state, unknown ones only echo."""
    async with open_session() as talker:
        talker.send(SignalTurn(event=signal))
        event = await talker.heard.nth(TurnEvent, 1)
        assert (event.event, event.turn_state, event.epoch) == (signal, turn_state, 0)
