"""One response: its opening, what it says, and its closing in each way it can end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from duplex_trio.protocol.duplex import (
    AudioContentPart,
    ConversationItemAdded,
    ConversationItemDone,
    DuplexEvent,
    MessageItem,
    OutputAudioPart,
    OutputTextPart,
    ResponseContentPartAdded,
    ResponseContentPartDone,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
    ResponseOutputAudioTranscriptDelta,
    ResponseOutputAudioTranscriptDone,
    ResponseOutputTextDelta,
    ResponseOutputTextDone,
    StatusDetails,
    TextContentPart,
)
from duplex_trio.protocol.duplex.audio import AudioOutputEncoder, parse_format
from duplex_trio.session.state.egress_queue import MediaEntry
from duplex_trio.session.state.heard_text import TextMark
from duplex_trio.session.state.response import MARKS_MAX, FinalStatus, Response
from duplex_trio.session.state.response_events import closing, opening
from duplex_trio.stages.units import Pcm

RATE_HZ = 24_000
SPOKEN_END = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
    "rate_limits.updated",
]


def response(modalities: tuple[Any, ...] = ("text", "audio"), fmt: str = "pcm16", **fields: Any) -> Response:
    made: dict[str, Any] = {
        "response_id": "resp-1",
        "item_id": "item_resp-1",
        "session_id": "duplex-1",
        "epoch": 3,
        "turn_id": 7,
        "created_s": 0.0,
        "encoder": AudioOutputEncoder(parse_format(fmt, direction="output", param="format"), RATE_HZ),
        "modalities": modalities,
        "conversation_id": "conv_1",
        "new_id": lambda prefix: f"{prefix}x",
        "metadata": {"k": "v"},
    }
    return Response(**made | fields)


def tone(milliseconds: float) -> Pcm:
    return np.full(int(RATE_HZ * milliseconds / 1000), 0.25, np.float32)


def send(made: Response, entries: Iterable[MediaEntry]) -> list[DuplexEvent]:
    """Let entries leave for the client."""
    events = []
    for entry in entries:
        made.note_sent(entry)
        assert entry.event is not None
        events.append(entry.event)
    return events


def types(events: Iterable[DuplexEvent]) -> list[str]:
    return [event.type for event in events]


def close(made: Response, status: FinalStatus, shown: str = "") -> list[DuplexEvent]:
    kind = StatusDetails(type=status)
    made.end(status)
    return closing(made, kind, epoch=made.epoch, shown_text=shown)


def only(events: Iterable[DuplexEvent], cls: type[Any]) -> Any:
    (event,) = (event for event in events if isinstance(event, cls))
    return event


def test_sound_without_words_leaves_two_marks() -> None:
    """However long it goes on: what was heard is told from where it begins and where it ends."""
    made = response()
    for text in ("hello", *[""] * 100, " you"):
        send(made, made.speech(tone(80), RATE_HZ, text))
    assert [(mark.text_chars, round(mark.audio_end_ms)) for mark in made.marks] == [
        (5, 80),
        (5, 101 * 80),
        (9, 102 * 80),
    ]
    assert made.heard_text(50 * 80) == "hello"


def test_the_marks_of_an_endless_response_are_bounded() -> None:
    """Its latest words keep their places exactly, the oldest to within a few words."""
    made, word, words = response(), "word ", 5 * MARKS_MAX
    for _ in range(words):
        send(made, made.speech(tone(20), RATE_HZ, word))
    assert len(made.marks) <= MARKS_MAX
    for heard in (words, words - 1, words - MARKS_MAX // 4):
        assert made.heard_text(heard * 20) == (word * heard).rstrip()
    for heard in range(0, words, 100):
        assert abs(len(made.heard_text(heard * 20)) - len(word) * heard) <= 2 * len(word)


def test_a_spoken_response_opens_with_an_audio_part() -> None:
    """Created, its item in the output and in the conversation, and an empty audio part, in this order."""
    events = opening(response())
    assert types(events) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "conversation.item.created",
        "response.content_part.added",
    ]
    created = only(events, ResponseCreated).response
    assert (created.status, created.output, created.metadata) == ("in_progress", (), {"k": "v"})
    assert only(events, ResponseContentPartAdded).part == AudioContentPart()
    assert only(events, ConversationItemAdded).item == MessageItem(
        id="item_resp-1", role="assistant", status="in_progress"
    )


def test_a_written_response_opens_with_a_text_part() -> None:
    """Without the audio modality the part is text."""
    assert only(opening(response(("text",))), ResponseContentPartAdded).part == TextContentPart()


def test_a_response_outside_the_conversation_announces_no_item() -> None:
    """It has no conversation id and no `conversation.item` events, at either end."""
    made = response(conversation_id=None)
    begun, ended = opening(made), close(made, "completed")
    assert not [name for name in types([*begun, *ended]) if name.startswith("conversation.")]
    assert only(begun, ResponseCreated).response.conversation_id is None


def test_speech_is_cut_into_deltas_with_its_transcript_behind_the_first() -> None:
    """`response.speak` once, then 100 ms of sound a delta; `audio_duration_ms` counts up to each delta's end."""
    made = response()
    events = send(made, made.speech(tone(250), RATE_HZ, "Hello"))
    assert types(events) == [
        "response.speak",
        "response.output_audio.delta",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.delta",
    ]
    deltas = [event for event in events if isinstance(event, ResponseOutputAudioDelta)]
    assert [len(delta.delta) for delta in deltas] == [4800, 4800, 2400]
    assert [delta.duplex and delta.duplex.audio_duration_ms for delta in deltas] == [100, 200, 250]
    more = send(made, made.speech(tone(100), RATE_HZ, " again"))
    assert types(more) == ["response.output_audio.delta", "response.output_audio_transcript.delta"]
    assert only(more, ResponseOutputAudioDelta).duplex.audio_duration_ms == 350
    assert (made.cursor.generated_ms, made.cursor.sent_ms) == (350.0, 350.0)


def test_a_mark_ties_each_stretch_of_text_to_its_sound() -> None:
    """By the end of a stretch all of its text is spoken."""
    made = response()
    send(made, made.speech(tone(200), RATE_HZ, "One"))
    send(made, made.speech(tone(300), RATE_HZ, " two"))
    assert made.marks == [TextMark(3, 200.0), TextMark(7, 500.0)]
    assert made.heard_text(200.0) == "One"
    assert made.heard_text(350.0) == "One t"


def test_a_stretch_cut_while_it_is_sent_was_heard_in_proportion_to_all_of_it() -> None:
    """Ten letters over one second: of 300 ms sent and heard three letters, though no more left the queue."""
    made = response()
    entries = made.speech(tone(1000), RATE_HZ, "abcdefghij")
    for _ in range(5):
        made.note_sent(next(entries))
    assert made.cursor.sent_ms == 300.0
    assert made.heard_text(300.0) == "abc"


@pytest.mark.parametrize(("fmt", "bytes_per_ms"), [("pcm16", 48), ("audio/pcmu", 8), ("g711_alaw", 8)])
def test_no_sound_is_lost_in_the_encoder(fmt: str, bytes_per_ms: int) -> None:
    """What a resampling encoder holds back comes with the tail: durations and bytes add up to the sound made."""
    made = response(fmt=fmt)
    entries = [*made.speech(tone(730), RATE_HZ, "Hello"), *made.sound_tail()]
    sound = [(e.duration_ms, e.event) for e in entries if isinstance(e.event, ResponseOutputAudioDelta)]
    assert sum(duration_ms for duration_ms, _ in sound) == pytest.approx(730.0)
    assert sum(len(delta.delta) for _, delta in sound) == pytest.approx(730 * bytes_per_ms, rel=0.005)
    assert list(made.sound_tail()) == []


def test_a_stretch_that_fits_into_the_encoder_still_says_its_text() -> None:
    """Sound too short to leave the resampler sends its text at once and its sound with the tail."""
    made = response(fmt="audio/pcmu")
    assert types(send(made, made.speech(tone(2), RATE_HZ, "Oh"))) == [
        "response.speak",
        "response.output_audio_transcript.delta",
    ]
    assert types(send(made, made.sound_tail())) == ["response.output_audio.delta"]
    assert made.cursor.sent_ms == pytest.approx(2.0)


def test_deltas_join_to_the_done_transcript() -> None:
    """The transcript, the content part and the item all say what the deltas said."""
    made = response()
    events = [
        *send(made, made.speech(tone(150), RATE_HZ, "Hello there.")),
        *send(made, made.speech(tone(150), RATE_HZ, " How are you?")),
        *send(made, made.sound_tail()),
    ]
    joined = "".join(event.delta for event in events if isinstance(event, ResponseOutputAudioTranscriptDelta))
    ended = close(made, "completed", made.text)
    assert types(ended) == SPOKEN_END
    assert joined == "Hello there. How are you?"
    assert only(ended, ResponseOutputAudioTranscriptDone).transcript == joined
    assert only(ended, ResponseContentPartDone).part == AudioContentPart(transcript=joined)
    item = only(ended, ConversationItemDone).item
    assert item == MessageItem(
        id="item_resp-1", role="assistant", content=(OutputAudioPart(transcript=joined),)
    )
    done = only(ended, ResponseDone).response
    assert (done.status, done.output, done.metadata) == ("completed", (item,), {"k": "v"})


def test_a_written_response_closes_with_its_text() -> None:
    """The text family throughout: deltas join to `output_text.done`, and no audio event appears."""
    made = response(("text",))
    events = [event for text in ("One ", "two", "") for event in send(made, made.written(text))]
    assert types(events) == ["response.output_text.delta"] * 2
    joined = "".join(event.delta for event in events if isinstance(event, ResponseOutputTextDelta))
    ended = close(made, "completed", made.text)
    assert types(ended) == ["response.output_text.done", *SPOKEN_END[2:]]
    assert only(ended, ResponseOutputTextDone).text == joined == "One two"
    assert only(ended, ResponseContentPartDone).part == TextContentPart(text="One two")
    assert only(ended, ConversationItemDone).item.content == (OutputTextPart(text="One two"),)
    assert made.heard_text(0.0) == "One two"


@pytest.mark.parametrize("modalities", [("text", "audio"), ("text",)])
def test_cut_before_any_output_nothing_is_said_to_be_done_but_the_response(
    modalities: tuple[Any, ...],
) -> None:
    """From `content_part.done` onward; the item is `incomplete` and empty."""
    made = response(modalities)
    if made.speaks:
        assert list(made.speech(tone(100), RATE_HZ, "made, not sent"))
    ended = close(made, "cancelled")
    assert types(ended) == SPOKEN_END[2:]
    assert only(ended, ConversationItemDone).item.status == "incomplete"
    assert only(ended, ResponseDone).response.status == "cancelled"


def test_a_cut_response_shows_what_was_sent_and_keeps_what_was_heard() -> None:
    """`transcript.done` says all that was sent, as its deltas did; the item says what was heard."""
    made = response()
    send(made, made.speech(tone(500), RATE_HZ, "One"))
    assert list(made.speech(tone(500), RATE_HZ, " two"))
    ended = close(made, "cancelled", "O")
    assert types(ended) == SPOKEN_END
    assert only(ended, ResponseOutputAudioTranscriptDone).transcript == "One"
    assert only(ended, ConversationItemDone).item.content == (OutputAudioPart(transcript="O"),)


def test_sound_without_words_has_no_transcript() -> None:
    """Only the sound is said to be done."""
    made = response()
    send(made, made.speech(tone(100), RATE_HZ, ""))
    assert types(close(made, "completed")) == [SPOKEN_END[0], *SPOKEN_END[2:]]


def test_the_extension_says_how_it_ended() -> None:
    """The new epoch and the one that was cancelled, turn, playback and the precise reason, beside OpenAI's object."""
    made = response()
    send(made, made.speech(tone(100), RATE_HZ, "Hi"))
    details = StatusDetails(type="cancelled", reason="client_cancelled")
    made.end("cancelled")
    ended = closing(made, details, epoch=4, shown_text="", cancel_reason="barge_in")
    done = only(ended, ResponseDone)
    assert done.response.status_details == details
    assert (done.duplex.epoch, done.duplex.cancelled_epoch, done.duplex.turn_id) == (4, 3, 7)
    assert done.duplex.cancel_reason == "barge_in"
    assert done.duplex.finish_reason is None
    assert done.duplex.playback.sent_ms == 100


def test_it_ends_once() -> None:
    """Asking for a second closing block is a programming error."""
    made = response()
    close(made, "completed")
    with pytest.raises(AssertionError, match="has ended already"):
        close(made, "failed")


def test_every_event_has_an_id_of_its_own() -> None:
    """Each event asks for a fresh id."""
    made = response(new_id=_numbered())
    events = [
        *opening(made),
        *send(made, made.speech(tone(200), RATE_HZ, "Hi")),
        *close(made, "completed", "Hi"),
    ]
    event_ids = [event.event_id for event in events]
    assert all(event_ids)
    assert len(set(event_ids)) == len(event_ids)


def _numbered() -> Callable[[str], str]:
    count = iter(range(1000))
    return lambda prefix: f"{prefix}{next(count)}"
