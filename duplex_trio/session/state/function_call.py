"""A call that the model wants made becomes an item, and what the client is told of it.

While a response is in progress the call is one more item of it, as clients of OpenAI's know it; a call that
the model makes by itself between responses is a response of its own, complete as it begins. The events of
one call go out together: its arguments are known as a whole.
"""

from __future__ import annotations

import attrs

from duplex_trio.protocol.duplex import (
    ConversationItemAdded,
    ConversationItemCreated,
    ConversationItemDone,
    DuplexEvent,
    DuplexExtension,
    FunctionCallItem,
    RealtimeResponse,
    ResponseCreated,
    ResponseDone,
    ResponseFunctionCallArgumentsDelta,
    ResponseFunctionCallArgumentsDone,
    ResponseOutputItemAdded,
    ResponseOutputItemDone,
    StatusDetails,
)
from duplex_trio.session.state.conversation import ConversationEntry, item_text
from duplex_trio.session.state.engine_session import DuplexEngineSession
from duplex_trio.session.state.response import Response


def call_function(
    session: DuplexEngineSession,
    response: Response | None,
    *,
    name: str,
    arguments: str,
    call_id: str | None = None,
) -> list[DuplexEvent]:
    """Put a call into the conversation.

    Args:
        session: the session.
        response: the response in progress, or None.
        name: the function.
        arguments: what to call it with, as JSON text.
        call_id: the model's own name of the call; the session makes one for None.
    """
    item = FunctionCallItem(
        id=session.new_id("item_"), call_id=call_id or session.new_id("call_"), name=name, arguments=arguments
    )
    if response is not None:
        response.calls.append(item)
        index = len(response.calls)
        return _call(session, item, response.response_id, index, stored=response.conversation_id is not None)
    response_id = session.new_id("resp_")
    extension = DuplexExtension(epoch=session.epoch, turn_id=session.turn_id)
    begun = RealtimeResponse(
        id=response_id, status="in_progress", conversation_id=session.conversation_id, modalities=("text",)
    )
    ended = attrs.evolve(
        begun, status="completed", status_details=StatusDetails(type="completed"), output=(item,)
    )
    return [
        ResponseCreated(event_id=session.new_id("event_"), response=begun, duplex=extension),
        *_call(session, item, response_id, 0, stored=True),
        ResponseDone(event_id=session.new_id("event_"), response=ended, duplex=extension),
    ]


def _call(
    session: DuplexEngineSession, item: FunctionCallItem, response_id: str, index: int, *, stored: bool
) -> list[DuplexEvent]:
    new_id = session.new_id
    empty = attrs.evolve(item, status="in_progress", arguments="")
    events: list[DuplexEvent] = [
        ResponseOutputItemAdded(
            event_id=new_id("event_"), response_id=response_id, output_index=index, item=empty
        )
    ]
    previous = None
    if stored:
        entry = ConversationEntry(item, item_text(item), answered=True)
        previous = session.conversation.insert(entry, make_room=True)
        events += [
            ConversationItemAdded(event_id=new_id("event_"), previous_item_id=previous, item=empty),
            ConversationItemCreated(event_id=new_id("event_"), previous_item_id=previous, item=empty),
        ]
    events += [
        ResponseFunctionCallArgumentsDelta(
            event_id=new_id("event_"),
            response_id=response_id,
            item_id=item.id,
            output_index=index,
            call_id=item.call_id,
            delta=item.arguments,
        ),
        ResponseFunctionCallArgumentsDone(
            event_id=new_id("event_"),
            response_id=response_id,
            item_id=item.id,
            output_index=index,
            call_id=item.call_id,
            name=item.name,
            arguments=item.arguments,
        ),
        ResponseOutputItemDone(
            event_id=new_id("event_"), response_id=response_id, output_index=index, item=item
        ),
    ]
    if stored:
        events.append(ConversationItemDone(event_id=new_id("event_"), previous_item_id=previous, item=item))
    return events
