"""A call that the model wants made becomes an item, and what the client is told of it.

While a response is in progress the call is one more item of it, as clients of OpenAI's know it. Its steps are
taken when they leave for the client, in order with the speech around them, so that a cancellation takes back
what was not announced yet; a call that has begun and does not end is an incomplete item. A call that the
model makes by itself between responses is a response of its own, complete as it begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from duplex_trio.pipelines.results import (
    FunctionCallArguments,
    FunctionCallBegin,
    FunctionCallEnd,
    FunctionCallResult,
)
from duplex_trio.protocol.duplex import (
    ConversationItemAdded,
    ConversationItemCreated,
    ConversationItemDone,
    DuplexEvent,
    DuplexExtension,
    FunctionCallItem,
    ItemStatus,
    RealtimeResponse,
    ResponseCreated,
    ResponseDone,
    ResponseFunctionCallArgumentsDelta,
    ResponseFunctionCallArgumentsDone,
    ResponseOutputItemAdded,
    ResponseOutputItemDone,
    StatusDetails,
)
from duplex_trio.session.state.conversation import Conversation, ConversationEntry, item_text
from duplex_trio.session.state.response import CallStep, Response, ResponseCall

if TYPE_CHECKING:
    from duplex_trio.session.state.engine_session import DuplexEngineSession


def advance_call(conversation: Conversation, response: Response, step: CallStep) -> list[DuplexEvent]:
    """Take one step of a call of a response in progress; nothing for pieces of a call that has not begun."""
    match step:
        case FunctionCallBegin(name=name, call_id=call_id):
            ended = close_call(conversation, response)
            return ended + _begin(conversation, response, name, call_id)
        case FunctionCallArguments(delta=delta):
            call = response.open_call
            if call is None or not delta:
                return []
            call.item = attrs.evolve(call.item, arguments=call.item.arguments + delta)
            return [
                ResponseFunctionCallArgumentsDelta(
                    event_id=response.event_id(), delta=delta, **_scope(response, call)
                )
            ]
        case FunctionCallEnd():
            return close_call(conversation, response, "completed")


def close_call(
    conversation: Conversation, response: Response, status: ItemStatus = "incomplete"
) -> list[DuplexEvent]:
    """End the call in progress, if there is one.

    One that is incomplete is no part of what the model is told.
    """
    call = response.open_call
    if call is None:
        return []
    item = call.item = attrs.evolve(call.item, status=status)
    events: list[DuplexEvent] = []
    if status == "completed":
        events.append(
            ResponseFunctionCallArgumentsDone(
                event_id=response.event_id(),
                name=item.name,
                arguments=item.arguments,
                **_scope(response, call),
            )
        )
    events.append(
        ResponseOutputItemDone(
            event_id=response.event_id(),
            response_id=response.response_id,
            output_index=call.output_index,
            item=item,
        )
    )
    entry = conversation.find(item.id) if call.stored else None
    if entry is not None and entry.response_id == response.response_id:
        conversation.replace_item(item.id, item)
        entry.text = item_text(item) if status == "completed" else ""
        events.append(
            ConversationItemDone(
                event_id=response.event_id(), previous_item_id=call.previous_item_id, item=item
            )
        )
    return events


def call_between_responses(session: DuplexEngineSession, call: FunctionCallResult) -> list[DuplexEvent]:
    """A call that belongs to no response is one of its own, complete as it begins."""
    conversation, new_id = session.conversation, session.new_id
    extension = DuplexExtension(epoch=session.epoch, turn_id=session.turn_id)
    response_id = new_id("resp_")
    call_id = call.call_id or new_id("call_")
    name, arguments = call.name, call.arguments
    item = FunctionCallItem(id=new_id("item_"), call_id=call_id, name=name, arguments=arguments)
    empty = attrs.evolve(item, status="in_progress", arguments="")
    begun = RealtimeResponse(
        id=response_id, status="in_progress", conversation_id=session.conversation_id, modalities=("text",)
    )
    ended = attrs.evolve(
        begun, status="completed", status_details=StatusDetails(type="completed"), output=(item,)
    )
    previous = conversation.insert(ConversationEntry(item, item_text(item), answered=True), make_room=True)
    scope: dict[str, Any] = {
        "response_id": response_id,
        "item_id": item.id,
        "output_index": 0,
        "call_id": item.call_id,
    }
    return [
        ResponseCreated(event_id=new_id("event_"), response=begun, duplex=extension),
        ResponseOutputItemAdded(event_id=new_id("event_"), response_id=response_id, item=empty),
        ConversationItemAdded(event_id=new_id("event_"), previous_item_id=previous, item=empty),
        ConversationItemCreated(event_id=new_id("event_"), previous_item_id=previous, item=empty),
        ResponseFunctionCallArgumentsDelta(event_id=new_id("event_"), delta=arguments, **scope),
        ResponseFunctionCallArgumentsDone(event_id=new_id("event_"), name=name, arguments=arguments, **scope),
        ResponseOutputItemDone(event_id=new_id("event_"), response_id=response_id, item=item),
        ConversationItemDone(event_id=new_id("event_"), previous_item_id=previous, item=item),
        ResponseDone(event_id=new_id("event_"), response=ended, duplex=extension),
    ]


def _begin(
    conversation: Conversation, response: Response, name: str, call_id: str | None
) -> list[DuplexEvent]:
    new_id = response.new_id
    item = FunctionCallItem(
        id=new_id("item_"),
        call_id=call_id or new_id("call_"),
        name=name,
        arguments="",
        status="in_progress",
    )
    call = ResponseCall(
        item, output_index=response.next_output_index(), stored=response.conversation_id is not None
    )
    response.calls.append(call)
    events: list[DuplexEvent] = [
        ResponseOutputItemAdded(
            event_id=response.event_id(),
            response_id=response.response_id,
            output_index=call.output_index,
            item=item,
        )
    ]
    if call.stored:
        entry = ConversationEntry(item, response_id=response.response_id, answered=True)
        previous = call.previous_item_id = conversation.insert(entry, make_room=True)
        events += [
            ConversationItemAdded(event_id=response.event_id(), previous_item_id=previous, item=item),
            ConversationItemCreated(event_id=response.event_id(), previous_item_id=previous, item=item),
        ]
    return events


def _scope(response: Response, call: ResponseCall) -> dict[str, Any]:
    return {
        "response_id": response.response_id,
        "item_id": call.item.id,
        "output_index": call.output_index,
        "call_id": call.item.call_id,
    }
