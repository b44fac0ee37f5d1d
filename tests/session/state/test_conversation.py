"""The conversation: order, ids, what the model is told, and what waits for an answer."""

from __future__ import annotations

import pytest

from duplex_trio.deploy import SessionLimits
from duplex_trio.protocol.duplex import (
    FunctionCallItem,
    FunctionCallOutputItem,
    InputAudioPart,
    InputTextPart,
    Item,
    ItemReference,
    MessageItem,
    OutputAudioPart,
    OutputTextPart,
    RealtimeError,
)
from duplex_trio.session.state.conversation import Conversation, ConversationEntry, item_text
from duplex_trio.stages.units import ChatCall, ChatMessage


def said(item_id: str, text: str) -> ConversationEntry:
    """A user's text message."""
    return ConversationEntry(MessageItem(id=item_id, role="user", content=(InputTextPart(text),)), text)


def spoken(item_id: str) -> ConversationEntry:
    """A user's speech without its transcript."""
    item = MessageItem(id=item_id, role="user", content=(InputAudioPart(),))
    return ConversationEntry(item, transcript_pending=True)


def answered(item_id: str, text: str) -> ConversationEntry:
    """An assistant's message."""
    item = MessageItem(id=item_id, role="assistant", content=(OutputTextPart(text),))
    return ConversationEntry(item, text)


def conversation(*entries: ConversationEntry) -> Conversation:
    made = Conversation()
    for entry in entries:
        made.insert(entry)
    return made


def ids(made: Conversation) -> list[str]:
    return [entry.item.id for entry in made.entries()]


def test_items_are_appended_and_know_the_one_before() -> None:
    """Without a place an item goes to the end; the first has none before it."""
    made = Conversation()
    assert made.insert(said("a", "1")) is None
    assert made.insert(said("b", "2")) == "a"
    assert ids(made) == ["a", "b"]
    assert (made.previous_of("a"), made.previous_of("b"), made.last_item_id) == (None, "a", "b")


def test_root_is_the_front() -> None:
    """`root` puts an item before all others, also into an empty conversation."""
    made = Conversation()
    assert made.insert(said("a", "1"), "root") is None
    assert made.insert(said("b", "2"), "root") is None
    assert ids(made) == ["b", "a"]


def test_an_item_goes_right_behind_a_named_one() -> None:
    """`previous_item_id` inserts in the middle; the items behind move on."""
    made = conversation(said("a", "1"), said("b", "2"))
    assert made.insert(said("c", "3"), "a") == "a"
    assert ids(made) == ["a", "c", "b"]
    assert [message.content for message in made.messages()] == ["1", "3", "2"]


@pytest.mark.parametrize(
    ("entry", "previous", "code", "param"),
    [
        (said("new", "x"), "nowhere", "item_not_found", "previous_item_id"),
        (said("a", "x"), None, "item_create_duplicate_item_id", "item.id"),
    ],
)
def test_a_refused_item_changes_nothing(
    entry: ConversationEntry, previous: str | None, code: str, param: str
) -> None:
    """An unknown place and a duplicate id are refused, naming the field."""
    made = conversation(said("a", "1"))
    with pytest.raises(RealtimeError) as caught:
        made.insert(entry, previous)
    assert (caught.value.code, caught.value.param) == (code, param)
    assert ids(made) == ["a"]
    assert [message.content for message in made.messages()] == ["1"]


def test_a_full_conversation_refuses_items() -> None:
    """One item more than the bound is `input_backpressure`; a deletion makes room."""
    made = Conversation(SessionLimits(conversation_items_max=2))
    made.insert(said("a", "1"))
    made.insert(said("b", "2"))
    with pytest.raises(RealtimeError) as caught:
        made.insert(said("c", "3"))
    assert caught.value.code == "input_backpressure"
    made.delete("a")
    made.insert(said("c", "3"))
    assert ids(made) == ["b", "c"]


def test_a_long_conversation_goes_on() -> None:
    """What the session itself adds pushes the oldest item out."""
    made = Conversation(SessionLimits(conversation_items_max=2))
    for item_id in "abcd":
        made.insert(said(item_id, item_id), make_room=True)
    assert ids(made) == ["c", "d"]
    assert made.find("a") is None


def test_the_model_is_told_texts_with_their_roles() -> None:
    """Calls belong to the assistant, their outputs to the tool; items without text are left out."""
    call = FunctionCallItem(id="d", call_id="c1", name="look", arguments='{"at": 1}')
    output = FunctionCallOutputItem(id="e", call_id="c1", output="sunny")
    made = conversation(
        said("a", "hello"),
        spoken("b"),
        answered("c", "hi"),
        ConversationEntry(call, item_text(call)),
        ConversationEntry(output, item_text(output)),
    )
    assert made.messages() == [
        ChatMessage(role="user", content="hello"),
        ChatMessage(role="assistant", content="hi"),
        ChatMessage(
            role="assistant",
            content='look({"at": 1})',
            calls=(ChatCall(name="look", arguments='{"at": 1}', call_id="c1"),),
        ),
        ChatMessage(role="tool", content="sunny", call_id="c1"),
    ]


def test_the_model_is_told_the_last_messages() -> None:
    """A bound keeps the end of the conversation; what came before an item can be asked for."""
    made = conversation(*(said(f"i{n}", str(n)) for n in range(10)))
    assert [message.content for message in made.messages(last=3)] == ["7", "8", "9"]
    assert [message.content for message in made.messages(before="i8", last=2)] == ["6", "7"]
    assert [message.content for message in made.messages(before="gone", last=2)] == ["8", "9"]


def test_what_is_still_being_spoken_can_be_told_whole() -> None:
    """Also where nothing of it has been heard yet."""
    made = conversation(said("i0", "hello"), said("i1", ""), said("i2", "and?"))
    told = made.messages(before="i2", spoken={"i1": "all of it"})
    assert [message.content for message in told] == ["hello", "all of it"]
    assert [message.content for message in made.messages()] == ["hello", "and?"]


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (MessageItem(role="user", content=(InputTextPart("a"), InputTextPart("b"))), "a\nb"),
        (MessageItem(role="user", content=(InputAudioPart(transcript="a"),)), "a"),
        (MessageItem(role="user", content=(InputAudioPart(),)), ""),
        (MessageItem(role="assistant", content=(OutputAudioPart(transcript="a"), OutputTextPart(""))), "a"),
        (MessageItem(role="system", content=()), ""),
    ],
)
def test_text_of_a_clients_item(item: Item, text: str) -> None:
    """Texts and transcripts of all parts, one a line, nothing for parts without."""
    assert item_text(item) == text


def test_a_transcript_becomes_the_text() -> None:
    """Once transcribed, speech is told to the model, shown in its item and no longer pending."""
    made = conversation(spoken("a"))
    assert made.pending_transcripts == {"a"}
    entry = made.set_transcript("a", "good morning")
    assert entry is not None
    assert made.pending_transcripts == frozenset()
    assert entry.item == MessageItem(
        id="a", role="user", content=(InputAudioPart(transcript="good morning"),)
    )
    assert made.messages() == [ChatMessage(role="user", content="good morning")]


def test_a_transcript_of_a_deleted_item_is_dropped() -> None:
    """Nothing happens when the item is gone by the time its transcript comes."""
    made = conversation(spoken("a"))
    made.delete("a")
    assert made.pending_transcripts == frozenset()
    assert made.set_transcript("a", "late") is None
    assert made.messages() == []


def test_a_response_answers_all_that_waits() -> None:
    """User items and call outputs wait; assistant items and those marked as answered do not."""
    call_output = ConversationEntry(FunctionCallOutputItem(id="d", call_id="c", output="x"), "x")
    silent = ConversationEntry(MessageItem(id="e", role="user"), answered=True)
    made = conversation(said("a", "1"), answered("b", "2"), said("c", "3"), call_output, silent)
    assert [entry.item.id for entry in made.unanswered()] == ["a", "c", "d"]
    made.delete("c")
    assert [entry.item.id for entry in made.unanswered()] == ["a", "d"]
    made.mark_answered()
    assert made.unanswered() == []
    assert all(entry.answered for entry in made.entries() if entry.item.id != "b")


def test_a_deleted_item_is_gone() -> None:
    """It is neither found nor told to the model, its id may come again, and deleting it twice is refused."""
    made = conversation(said("a", "1"), said("b", "2"), said("c", "3"))
    assert made.delete("b").text == "2"
    assert ids(made) == ["a", "c"]
    assert made.previous_of("c") == "a"
    assert made.find("b") is None
    with pytest.raises(RealtimeError) as caught:
        made.delete("b")
    assert (caught.value.code, caught.value.param) == ("item_not_found", "item_id")
    assert made.insert(said("b", "again")) == "c"


def test_given_items_stand_for_the_conversation() -> None:
    """A client may name known items and bring others; their texts are told in the order given."""
    made = conversation(said("a", "1"), answered("b", "2"))
    given = (
        ItemReference("b"),
        MessageItem(role="user", content=(InputTextPart("new"),)),
        ItemReference("a"),
    )
    assert made.messages_of(given) == [
        ChatMessage(role="assistant", content="2"),
        ChatMessage(role="user", content="new"),
        ChatMessage(role="user", content="1"),
    ]


def test_a_reference_to_an_unknown_item_is_refused() -> None:
    """The error names the reference by its place."""
    given = (MessageItem(role="user"), ItemReference("nowhere"))
    with pytest.raises(RealtimeError) as caught:
        conversation().messages_of(given)
    assert (caught.value.code, caught.value.param) == ("item_not_found", "response.input[1].id")
