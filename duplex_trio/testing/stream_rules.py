"""What must hold for the events of any session, whatever happens in it.

The rules are those of the wire: one `response.done` per response and nothing of it afterwards, deltas that join
to what is said to be done, items that enter before they change, one terminal event at the very end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from attrs import define, field

from duplex_trio.protocol.duplex import (
    ConversationItemAdded,
    ConversationItemDeleted,
    ConversationItemDone,
    ConversationItemInputAudioTranscriptionCompleted,
    ConversationItemInputAudioTranscriptionDelta,
    ConversationItemInputAudioTranscriptionFailed,
    DuplexEvent,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    InputAudioBufferSpeechStopped,
    OutputAudioBufferCleared,
    OutputAudioBufferStarted,
    OutputAudioBufferStopped,
    ResponseContentPartAdded,
    ResponseContentPartDone,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
    ResponseOutputAudioTranscriptDelta,
    ResponseOutputAudioTranscriptDone,
    ResponseOutputTextDelta,
    ResponseOutputTextDone,
    SessionClosed,
    SessionCreated,
    SessionExpired,
)


class StreamRuleBroken(AssertionError):
    """A stream of events breaks a rule; the message names the event by its position."""


def check_stream(events: Sequence[DuplexEvent], *, ended: bool) -> None:
    """Check the events of one session from its beginning.

    Args:
        events: all of them, in order.
        ended: whether the session has ended, so that nothing may be left open.

    Raises:
        StreamRuleBroken: the first rule that does not hold.
    """
    reader = _Reader()
    for position, event in enumerate(events):
        try:
            reader.take(event)
        except AssertionError as error:
            around = [other.type for other in events[max(0, position - 5) : position + 1]]
            raise StreamRuleBroken(f"event {position}, {event.type}: {error} (behind {around})") from None
    if ended and events:
        if reader.open_response is not None:
            raise StreamRuleBroken(f"{reader.open_response} was never done")
        if not reader.terminal:
            raise StreamRuleBroken(f"the last event is {events[-1].type}, no terminal")


@define
class _Reader:
    """What was seen so far."""

    started: bool = False
    terminal: bool = False
    open_response: str | None = None
    speaking_item: str | None = None
    epoch: int = 0
    event_ids: set[str] = field(factory=set)
    done_responses: set[str] = field(factory=set)
    parts: set[str] = field(factory=set)
    sounding: set[str] = field(factory=set)
    sounded: set[str] = field(factory=set)
    items: set[str] = field(factory=set)
    done_items: set[str] = field(factory=set)
    transcribed: set[str] = field(factory=set)
    spoken: defaultdict[str, str] = field(factory=lambda: defaultdict(str))
    written: defaultdict[str, str] = field(factory=lambda: defaultdict(str))

    def take(self, event: DuplexEvent) -> None:
        """Check one event against those before it."""
        self._framing(event)
        self._response(event)
        self._text(event)
        self._items(event)
        self._speech(event)

    def _framing(self, event: DuplexEvent) -> None:
        assert self.started == (not isinstance(event, SessionCreated)), "session.created is the first, once"
        self.started = True
        assert not self.terminal, "nothing follows the terminal event"
        assert event.event_id, "every event has an id"
        assert event.event_id not in self.event_ids, "no id comes twice"
        self.event_ids.add(event.event_id)
        extension = getattr(event, "duplex", None)
        if isinstance(event, ResponseCreated | ResponseOutputAudioDelta | InputAudioBufferCommitted):
            assert extension is not None, "it says which epoch it is of"
            assert extension.epoch >= self.epoch, "the epoch never falls"
            self.epoch = extension.epoch
        self.terminal = isinstance(event, SessionClosed | SessionExpired)

    def _response(self, event: DuplexEvent) -> None:
        if isinstance(event, ResponseCreated):
            assert self.open_response is None, f"{self.open_response} is still open"
            assert event.response.id not in self.done_responses, "a response begins once"
            self.open_response = event.response.id
            return
        response_id = (
            event.response.id if isinstance(event, ResponseDone) else getattr(event, "response_id", None)
        )
        if response_id is None:
            return
        if isinstance(event, OutputAudioBufferCleared):
            assert response_id in (*self.done_responses, self.open_response), "it names a response that began"
            self.sounding.discard(response_id)
            return
        if isinstance(event, OutputAudioBufferStopped):
            assert response_id in self.done_responses, "it was done before"
            assert response_id in self.sounding, "its sound has started and did not end yet"
            self.sounding.discard(response_id)
            return
        assert response_id == self.open_response, "it belongs to the response in progress"
        if isinstance(event, ResponseDone):
            assert event.response.status != "in_progress", "a response that is done has a final status"
            self.done_responses.add(response_id)
            self.open_response = None

    def _text(self, event: DuplexEvent) -> None:
        match event:
            case ResponseContentPartAdded(response_id=response_id):
                self.parts.add(response_id)
            case OutputAudioBufferStarted(response_id=response_id):
                assert response_id in self.parts, "its part was added before"
                assert response_id not in self.sounded, "its sound starts once"
                self.sounding.add(response_id)
                self.sounded.add(response_id)
            case ResponseOutputAudioDelta(response_id=response_id):
                assert response_id in self.sounded, "its sound has started"
            case ResponseOutputAudioTranscriptDelta(response_id=response_id, delta=delta):
                assert response_id in self.parts, "its part was added before"
                self.spoken[response_id] += delta
            case ResponseOutputTextDelta(response_id=response_id, delta=delta):
                assert response_id in self.parts, "its part was added before"
                self.written[response_id] += delta
            case ResponseOutputAudioTranscriptDone(response_id=response_id, transcript=text):
                assert text == self.spoken[response_id], f"deltas join to {self.spoken[response_id]!r}"
            case ResponseOutputTextDone(response_id=response_id, text=text):
                assert text == self.written[response_id], f"deltas join to {self.written[response_id]!r}"
            case ResponseContentPartDone(response_id=response_id):
                assert response_id in self.parts, "its part was added before"

    def _items(self, event: DuplexEvent) -> None:
        match event:
            case ConversationItemAdded(item=item):
                assert item.id not in self.items, "an item enters once"
                self.items.add(item.id)
            case ConversationItemDeleted(item_id=item_id):
                self.items.discard(item_id)  # the client may use the id again
            case ConversationItemDone(item=item):
                assert item.id in self.items, "it was added before"
                assert item.id not in self.done_items, "an item is done once"
                self.done_items.add(item.id)
            case (
                ConversationItemInputAudioTranscriptionCompleted(item_id=item_id)
                | ConversationItemInputAudioTranscriptionFailed(item_id=item_id)
            ):
                assert item_id in self.items, "its item was added before"
                assert item_id not in self.transcribed, "an item has one transcript"
                self.transcribed.add(item_id)

    def _speech(self, event: DuplexEvent) -> None:
        match event:
            case InputAudioBufferSpeechStarted(item_id=item_id):
                assert self.speaking_item is None, "speech stops before it starts again"
                assert item_id not in self.items, "an utterance becomes an item of its own"
                self.speaking_item = item_id
            case InputAudioBufferSpeechStopped(item_id=item_id):
                assert item_id == self.speaking_item, "the speech that stops is the one that started"
                self.speaking_item = None
            case ConversationItemInputAudioTranscriptionDelta(item_id=item_id):
                assert item_id == self.speaking_item, "speech is transcribed while it goes on"
