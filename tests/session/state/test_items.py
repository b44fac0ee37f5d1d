"""What a client's item and playback commands do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex import (
    AckPlayback,
    ConversationItemTruncated,
    CreateItem,
    DeleteItem,
    FunctionCallItem,
    FunctionCallOutputItem,
    InputImagePart,
    InputTextPart,
    Item,
    MessageItem,
    OutputAudioPart,
    PlaybackAcknowledged,
    PlaybackRecord,
    RealtimeError,
    RetrieveItem,
    TruncateItem,
)
from duplex_trio.session.state.engine_session import DuplexEngineSession
from duplex_trio.session.state.items import (
    ack_playback,
    create_item,
    delete_item,
    retrieve_item,
    truncate_item,
)
from duplex_trio.session.state.response import Response
from duplex_trio.testing.pictures import PNG_URL


def user(text: str = "hi", item_id: str = "") -> MessageItem:
    return MessageItem(id=item_id, role="user", content=(InputTextPart(text),))


def spoken_answer(session: DuplexEngineSession, *, completed: bool = True) -> Response:
    """A response of one second that says `abcdefghij`, all of it sent at 0 s."""
    made = session.begin_response(session.next_turn(), None, 0.0)
    for entry in made.speech(np.zeros(24_000, np.float32), 24_000, "abcdefghij"):
        if entry.duration_ms:
            session.note_sent(made, entry.duration_ms, 0.0)
        made.note_sent(entry)
    if completed:
        session.complete_response(made, 0.0)
    return made


def record(events: list[Any]) -> PlaybackRecord:
    (event,) = (event for event in events if isinstance(event, PlaybackAcknowledged))
    return event.event


def refusal(call: Any, *args: Any) -> tuple[str, str | None]:
    with pytest.raises(RealtimeError) as caught:
        call(*args)
    return caught.value.code, caught.value.param


# ------------------------------------------------------------------ items


def test_an_item_gets_an_id_and_is_announced(make_session: Any) -> None:
    """Added, created and done, all with the same item and the id of the one before."""
    session = make_session()
    create_item(session, CreateItem(item=user(item_id="first")))
    events: Any = create_item(session, CreateItem(item=user()))
    assert [event.type for event in events] == [
        "conversation.item.added",
        "conversation.item.created",
        "conversation.item.done",
    ]
    assert {event.previous_item_id for event in events} == {"first"}
    assert {event.item.id for event in events} == {"item_1"}


@pytest.mark.parametrize(
    ("item", "refused"),
    [
        (user(item_id="first"), ("item_create_duplicate_item_id", "item.id")),
        (
            MessageItem(
                role="user", content=(InputTextPart("x"), InputImagePart("data:image/png;base64,AA"))
            ),
            ("unsupported", "item.content[1]"),
        ),
        (
            FunctionCallOutputItem(call_id="nobody", output="x"),
            ("invalid_function_call_output", "item.call_id"),
        ),
    ],
)
def test_a_refused_item_names_its_fault_and_changes_nothing(
    make_session: Any, item: Item, refused: tuple[str, str]
) -> None:
    """Duplicate id, an image that the model does not take, an output nobody asked for."""
    session = make_session()
    create_item(session, CreateItem(item=user(item_id="first")))
    assert refusal(create_item, session, CreateItem(item=item)) == refused
    assert len(session.conversation) == 1


def test_a_model_that_sees_takes_images(make_session: Any) -> None:
    """The refusal follows the capability."""
    session = make_session(capabilities=DuplexCapabilities(supports_image_input=True))
    image = MessageItem(role="user", content=(InputImagePart(PNG_URL),))
    assert len(create_item(session, CreateItem(item=image))) == 3


def test_a_call_takes_one_output(make_session: Any) -> None:
    """The output of a known call is taken once."""
    session = make_session()
    create_item(session, CreateItem(item=FunctionCallItem(call_id="c", name="f", arguments="{}")))
    output = CreateItem(item=FunctionCallOutputItem(call_id="c", output="1"))
    create_item(session, output)
    assert refusal(create_item, session, output) == ("invalid_function_call_output", "item.call_id")


def test_a_call_id_is_of_one_call(make_session: Any) -> None:
    """A second one is refused, unless the first is gone."""
    session = make_session()
    call = CreateItem(item=FunctionCallItem(id="call", call_id="c", name="f", arguments="{}"))
    again = CreateItem(item=FunctionCallItem(id="again", call_id="c", name="g", arguments="{}"))
    create_item(session, call)
    assert refusal(create_item, session, again) == ("invalid_value", "item.call_id")
    assert [entry.item.id for entry in session.conversation.entries()] == ["call"]
    session.conversation.delete("call")
    create_item(session, again)
    for _ in range(2):
        create_item(session, CreateItem(item=FunctionCallItem(name="f", arguments="{}", call_id="")))


@pytest.mark.parametrize("previous", ["root", "first", "nobody"])
def test_an_output_comes_behind_its_call(make_session: Any, previous: str) -> None:
    """A place in front of it is refused, as is none at all; right behind it is the first that is not."""
    session = make_session()
    create_item(session, CreateItem(item=user(item_id="first")))
    call = FunctionCallItem(id="call", call_id="c", name="f", arguments="{}")
    create_item(session, CreateItem(item=call))
    create_item(session, CreateItem(item=user(item_id="last")))
    output = FunctionCallOutputItem(id="output", call_id="c", output="1")
    code = "item_not_found" if previous == "nobody" else "invalid_function_call_output"
    early = CreateItem(item=output, previous_item_id=previous)
    assert refusal(create_item, session, early) == (code, "previous_item_id")
    create_item(session, CreateItem(item=output, previous_item_id="call"))
    order = [entry.item.id for entry in session.conversation.entries()]
    assert order == ["first", "call", "output", "last"]


def test_items_can_be_shown_and_deleted(make_session: Any) -> None:
    """Retrieve shows the item; after a delete both are refused with their own codes."""
    session = make_session()
    create_item(session, CreateItem(item=user(item_id="a")))
    (shown,) = retrieve_item(session, RetrieveItem(item_id="a"))
    assert shown.item == user(item_id="a")  # type: ignore[attr-defined]
    (deleted,) = delete_item(session, DeleteItem(item_id="a"))
    assert deleted.type == "conversation.item.deleted"
    assert refusal(retrieve_item, session, RetrieveItem(item_id="a")) == (
        "item_retrieve_invalid_item_id",
        "item_id",
    )
    assert refusal(delete_item, session, DeleteItem(item_id="a")) == ("item_not_found", "item_id")


# ------------------------------------------------------------------ truncate


@pytest.mark.parametrize("dialect", ["ga", "duplex"])
def test_an_item_is_in_progress_as_long_as_its_response(make_session: Any, dialect: str) -> None:
    """Whoever retrieves it sees what its announcement said, truncated or not, until it is done."""
    session = make_session(dialect=dialect)
    made = spoken_answer(session, completed=False)

    def status() -> str:
        (shown,) = retrieve_item(session, RetrieveItem(item_id=made.item_id))
        return str(shown.item.status)  # type: ignore[attr-defined]

    assert status() == "in_progress"
    truncate_item(session, TruncateItem(item_id=made.item_id, audio_end_ms=400))
    assert status() == "in_progress"
    session.complete_response(made, 0.0)
    assert status() == "completed"


@pytest.mark.parametrize("dialect", ["ga", "duplex"])
def test_a_truncate_cuts_item_and_history(make_session: Any, dialect: str) -> None:
    """Truncated, then acknowledged; the item shows and the model is told the heard part."""
    session = make_session(dialect=dialect)
    made = spoken_answer(session)
    events = truncate_item(session, TruncateItem(item_id=made.item_id, audio_end_ms=400))
    assert [event.type for event in events] == ["conversation.item.truncated", "playback.acknowledged"]
    assert isinstance(events[0], ConversationItemTruncated)
    assert (events[0].audio_end_ms, events[0].content_index) == (400, 0)
    assert record(events).truncate
    assert record(events).committed_ms == 400
    assert [message.content for message in session.conversation.messages()] == ["abcd"]
    (shown,) = retrieve_item(session, RetrieveItem(item_id=made.item_id))
    assert shown.item.content == (OutputAudioPart(transcript="abcd"),)  # type: ignore[attr-defined]


@pytest.mark.parametrize("dialect", ["ga", "duplex"])
def test_nothing_lengthens_a_truncated_item(make_session: Any, dialect: str) -> None:
    """Neither a larger acknowledgement nor a later, larger truncate."""
    session = make_session(dialect=dialect)
    made = spoken_answer(session)
    truncate_item(session, TruncateItem(item_id=made.item_id, audio_end_ms=400))
    ack_playback(session, AckPlayback(played_ms=1000, response_id=made.response_id))
    truncate_item(session, TruncateItem(item_id=made.item_id, audio_end_ms=900))
    assert [message.content for message in session.conversation.messages()] == ["abcd"]


def test_a_truncate_to_nothing_removes_the_text(make_session: Any) -> None:
    """At 0 ms nothing was heard; the item stays, without text."""
    session = make_session(dialect="ga")
    made = spoken_answer(session)
    truncate_item(session, TruncateItem(item_id=made.item_id, audio_end_ms=0))
    assert session.conversation.messages() == []
    assert session.conversation.find(made.item_id) is not None


@pytest.mark.parametrize(
    ("item_id", "content_index", "audio_end_ms", "refused"),
    [
        ("nowhere", 0, 0, ("item_not_found", "item_id")),
        ("theirs", 0, 0, ("bad_event", "item_id")),
        (None, 1, 0, ("bad_event", "content_index")),
        (None, 0, 1100, ("bad_event", "audio_end_ms")),
    ],
)
def test_a_refused_truncate_changes_nothing(
    make_session: Any, item_id: str | None, content_index: int, audio_end_ms: int, refused: tuple[str, str]
) -> None:
    """An unknown item, one without sound, another part, and a position behind the end."""
    session = make_session(dialect="ga")
    create_item(session, CreateItem(item=user(item_id="theirs")))
    made = spoken_answer(session)
    command = TruncateItem(
        item_id=item_id or made.item_id, content_index=content_index, audio_end_ms=audio_end_ms
    )
    assert refusal(truncate_item, session, command) == refused
    assert session.conversation.messages()[-1].content == "abcdefghij"
    assert made.cursor.hard_cap_ms is None


# ------------------------------------------------------------------ acknowledgements


def test_an_acknowledgement_moves_cursor_and_history(make_session: Any) -> None:
    """The record shows the cursor and that history changed; repeated, it changes nothing more."""
    session = make_session()
    made = spoken_answer(session)
    command = AckPlayback(played_ms=500, committed_ms=300, response_id=made.response_id)
    first = record(ack_playback(session, command))
    assert (first.item_id, first.played_ms, first.committed_ms) == (made.item_id, 500, 300)
    assert (first.history_committed, first.truncate) == (True, False)
    assert first.playback.sent_ms == 1000
    assert not record(ack_playback(session, command)).history_committed
    assert session.conversation.messages()[-1].content == "abc"


def test_the_item_id_names_the_response(make_session: Any) -> None:
    """`item_<response id>` is as good as the response id, and both together must agree."""
    session = make_session()
    made = spoken_answer(session)
    assert record(ack_playback(session, AckPlayback(played_ms=100, item_id=made.item_id))).played_ms == 100
    both = AckPlayback(played_ms=200, item_id=made.item_id, response_id=made.response_id)
    assert record(ack_playback(session, both)).played_ms == 200
    mismatch = AckPlayback(played_ms=300, item_id="item_other", response_id=made.response_id)
    assert refusal(ack_playback, session, mismatch) == ("playback_item_mismatch", "item_id")
    assert made.cursor.played_ms == 200


@pytest.mark.parametrize(
    ("command", "param"),
    [
        (AckPlayback(played_ms=1, response_id="resp-x"), "response_id"),
        (AckPlayback(played_ms=1, item_id="item_resp-x"), "item_id"),
    ],
)
def test_an_unknown_response_cannot_be_acknowledged(
    make_session: Any, command: AckPlayback, param: str
) -> None:
    """The error names the field that was given."""
    session = make_session()
    spoken_answer(session)
    assert refusal(ack_playback, session, command) == ("playback_item_not_found", param)


def test_without_an_id_the_newest_unheard_response_is_meant(make_session: Any) -> None:
    """Of two answers the newer is acknowledged first; once it is heard, the older one."""
    session = make_session()
    older, newer = spoken_answer(session), spoken_answer(session)
    assert record(ack_playback(session, AckPlayback(played_ms=1000))).item_id == newer.item_id
    assert record(ack_playback(session, AckPlayback(played_ms=400))).item_id == older.item_id
    ack_playback(session, AckPlayback(played_ms=1000))
    assert record(ack_playback(session, AckPlayback(played_ms=1000))).item_id == newer.item_id


def test_without_any_response_there_is_nothing_to_acknowledge(make_session: Any) -> None:
    """A session that never spoke refuses an acknowledgement."""
    assert refusal(ack_playback, make_session(), AckPlayback(played_ms=1)) == (
        "playback_item_not_found",
        None,
    )


def test_an_acknowledgement_of_a_deleted_item_moves_the_cursor_only(make_session: Any) -> None:
    """The client may delete an answer that is still playing; history stays without it."""
    session = make_session()
    made = spoken_answer(session)
    delete_item(session, DeleteItem(item_id=made.item_id))
    assert not record(ack_playback(session, AckPlayback(played_ms=500))).history_committed
    assert made.cursor.played_ms == 500
    assert session.conversation.messages() == []
