from __future__ import annotations

import base64
from typing import Any

import pytest

from duplex_trio.cli.talk.latency import (
    END_OF_TURN,
    FIRST_CLAUSE,
    PARTS,
    RECOGNITION,
    SYNTHESIS,
    TRANSPORT,
    answer_progress,
    exchanges,
    said_by_turns,
)
from duplex_trio.cli.talk.scenario import AnswerProgress, Said
from duplex_trio.cli.talk.timeline import Answer, SpokenPart, Timeline
from duplex_trio.cli.talk.transcript import ASSISTANT, YOU, Line, lines
from duplex_trio.clients.events import parse_event

RATE_HZ = 1000


def timeline_of(*events: tuple[float, dict[str, Any]]) -> Timeline:
    timeline = Timeline()
    for time_s, raw in events:
        event = parse_event(raw, received_at_s=time_s)
        timeline.cursor.observe(event)
        timeline.observe(event)
    return timeline


def turn(item_id: str, times: tuple[float, float, float], text: str) -> list[tuple[float, dict[str, Any]]]:
    """Started, stopped and transcribed at `times`."""
    started, stopped, transcribed = times
    return [
        (started, {"type": "input_audio_buffer.speech_started", "audio_start_ms": 0, "item_id": item_id}),
        (stopped, {"type": "input_audio_buffer.speech_stopped", "audio_end_ms": 9, "item_id": item_id}),
        (stopped, {"type": "input_audio_buffer.committed", "item_id": item_id}),
        (
            transcribed,
            {
                "type": "conversation.item.input_audio_transcription.completed",
                "item_id": item_id,
                "transcript": text,
            },
        ),
    ]


def created(time_s: float, rid: str) -> tuple[float, dict[str, Any]]:
    return time_s, {"type": "response.created", "response": {"id": rid}}


def audio(time_s: float, rid: str, duration_ms: int) -> tuple[float, dict[str, Any]]:
    delta = base64.b64encode(bytes(2 * duration_ms * RATE_HZ // 1000)).decode()
    event = {
        "type": "response.output_audio.delta",
        "response_id": rid,
        "delta": delta,
        "sample_rate_hz": RATE_HZ,
    }
    return time_s, event


def words(time_s: float, rid: str, text: str) -> tuple[float, dict[str, Any]]:
    return time_s, {"type": "response.output_audio_transcript.delta", "response_id": rid, "delta": text}


def done(
    time_s: float, rid: str, status: str = "completed", kept: str = "", **duplex: Any
) -> tuple[float, dict[str, Any]]:
    output = [{"content": [{"type": "output_audio", "transcript": kept}]}]
    response = {"id": rid, "status": status, "status_details": None, "output": output}
    return time_s, {"type": "response.done", "response": response, "duplex": duplex}


def cleared(time_s: float, rid: str) -> tuple[float, dict[str, Any]]:
    return time_s, {"type": "output_audio_buffer.cleared", "response_id": rid}


SAID = [Said("1.wav", 0.5, 0.6, 2.0, 2.1), Said("2.wav", 4.0, 4.1, 6.0, 6.1)]

INTERRUPTED = [
    *turn("u1", (0.8, 2.6, 2.7), "Hello."),
    created(2.7, "r1"),
    audio(3.0, "r1", 500),
    words(3.0, "r1", "One two three."),
    audio(3.0, "r1", 500),
    audio(3.9, "r1", 1000),
    words(3.9, "r1", " Four five."),
    (4.3, turn("u2", (4.3, 0, 0), "")[0][1]),
    cleared(4.5, "r1"),
    done(4.51, "r1", "cancelled", kept="One two three."),
    *turn("u2", (4.3, 6.6, 6.7), "Stop.")[1:],
    created(6.7, "r2"),
    audio(7.0, "r2", 1000),
    words(7.0, "r2", "Yes."),
    done(7.5, "r2", kept="Yes."),
]


def test_an_interrupted_conversation_is_accounted_for() -> None:
    timeline = timeline_of(*INTERRUPTED)
    first, second = exchanges(timeline, SAID, 9.0)
    assert (first.transcript, second.transcript) == ("Hello.", "Stop.")
    assert first.answer_text == "One two three. Four five."
    assert first.heard_text == "One two three. Four"
    assert (first.was_cut, second.was_cut) == (True, False)
    assert first.answer is not None
    assert first.answer.kept_transcript == "One two three."
    assert (second.answer_text, second.heard_text) == ("Yes.", "Yes.")
    assert first.answered
    assert second.answered
    assert first.wait is not None
    assert second.wait is not None
    assert first.wait.total_ms == pytest.approx(1000)
    assert second.wait.total_ms == pytest.approx(1000)
    assert first.interruption is None
    assert second.interruption is not None
    assert second.interruption.total_ms == pytest.approx(400)
    assert second.interruption.detection_ms == pytest.approx(200)


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        # Without figures of the server: the times of its events.
        ({}, {END_OF_TURN: 600, RECOGNITION: 100, FIRST_CLAUSE: 300, SYNTHESIS: 0, TRANSPORT: 0}),
        (
            {
                "request_metrics": {
                    "speech_end_to_commit_ms": 550,
                    "speech_end_to_transcript_ms": 650,
                    "speech_end_to_request_ms": 560,
                    "speech_end_to_first_audio_ms": 950,
                },
                "stage_metrics": {"0": {"first_input_ms": 0}, "2": {"first_input_ms": 300}},
            },
            {END_OF_TURN: 600, RECOGNITION: 100, FIRST_CLAUSE: 210, SYNTHESIS: 90, TRANSPORT: 0},
        ),
        # An answer that was begun before the turn had ended: what was ready in time took no time.
        (
            {
                "request_metrics": {
                    "speech_end_to_commit_ms": 600,
                    "speech_end_to_transcript_ms": 300,
                    "speech_end_to_request_ms": 200,
                    "speech_end_to_first_audio_ms": 640,
                },
                "stage_metrics": {"2": {"first_input_ms": 300}},
            },
            {END_OF_TURN: 600, RECOGNITION: 0, FIRST_CLAUSE: 0, SYNTHESIS: 40, TRANSPORT: 360},
        ),
        # A server that takes the speech for over earlier than the recording says.
        (
            {"request_metrics": {"speech_end_to_commit_ms": 700, "speech_end_to_first_audio_ms": 1200}},
            {END_OF_TURN: 600, RECOGNITION: 0, FIRST_CLAUSE: 0, SYNTHESIS: 400, TRANSPORT: 0},
        ),
        (
            {"request_metrics": {"speech_end_to_commit_ms": "x", "speech_end_to_first_audio_ms": None}},
            {END_OF_TURN: 600, RECOGNITION: 100, FIRST_CLAUSE: 300, SYNTHESIS: 0, TRANSPORT: 0},
        ),
    ],
)
def test_a_wait_is_the_sum_of_its_parts(figures: dict[str, Any], expected: dict[str, float]) -> None:
    timeline = timeline_of(
        *turn("u1", (0.8, 2.6, 2.7), "Hello."),
        created(2.7, "r1"),
        audio(3.0, "r1", 100),
        words(3.0, "r1", "Hi."),
        done(3.1, "r1", **figures),
    )
    (exchange,) = exchanges(timeline, SAID[:1], 9.0)
    assert exchange.wait is not None
    assert exchange.wait.parts == pytest.approx(expected)
    assert sum(exchange.wait.parts.values()) == pytest.approx(exchange.wait.total_ms)
    assert tuple(exchange.wait.parts) == PARTS


def test_an_utterance_taken_as_two_turns_gets_the_last_answer() -> None:
    timeline = timeline_of(
        *turn("u1", (0.8, 1.3, 1.3), "Wait."),
        created(1.3, "early"),
        done(1.5, "early", "cancelled"),
        *turn("u2", (1.5, 2.6, 2.7), "Stop now."),
        created(2.7, "r1"),
        audio(3.0, "r1", 100),
    )
    (exchange,) = exchanges(timeline, SAID[:1], 9.0)
    assert exchange.transcript == "Wait. Stop now."
    assert exchange.answer is not None
    assert exchange.answer.response_id == "r1"


@pytest.mark.parametrize(
    "events",
    [
        [],
        turn("u1", (0.8, 2.6, 2.7), "Hello."),
        [*turn("u1", (0.8, 2.6, 2.7), "Hello."), created(2.7, "r1"), done(2.8, "r1", "failed")],
        # Deltas of a response that was never created, and events without an item, belong to nothing.
        [audio(3.0, "r1", 100), (3.0, {"type": "input_audio_buffer.committed"})],
    ],
)
def test_no_answer_is_told_from_one(events: list[tuple[float, dict[str, Any]]]) -> None:
    (exchange,) = exchanges(timeline_of(*events), SAID[:1], 9.0)
    assert not exchange.answered
    assert exchange.wait is None


def test_a_written_answer_counts_without_sound() -> None:
    text = {"type": "response.output_text.delta", "response_id": "r1", "delta": "Hi."}
    (exchange,) = exchanges(timeline_of(created(2.7, "r1"), (2.8, text), done(2.9, "r1")), SAID[:1], 9.0)
    assert exchange.answered
    assert (exchange.answer_text, exchange.heard_text) == ("Hi.", "Hi.")


def test_progress_is_that_of_the_answer_to_the_last_utterance() -> None:
    timeline = timeline_of(*(event for event in INTERRUPTED if event[0] < 6))
    assert answer_progress(timeline, [], 5.0) == AnswerProgress()
    assert answer_progress(timeline, SAID[:1], 5.0) == AnswerProgress(first_heard_s=3.0, over_s=4.5)
    assert answer_progress(timeline, SAID, 6.5) == AnswerProgress()
    timeline = timeline_of(*INTERRUPTED)
    assert answer_progress(timeline, SAID, 7.9) == AnswerProgress(first_heard_s=7.0, over_s=None)
    assert answer_progress(timeline, SAID, 8.0) == AnswerProgress(first_heard_s=7.0, over_s=8.0)


@pytest.mark.parametrize(
    ("played_ms", "heard"),
    [
        (0, ""),
        (1, ""),
        (299, "one "),
        (500, "one two"),
        (999, "one two "),
        (1000, "one two three."),
        (1500, "one two three. Four"),
    ],
)
def test_heard_text_ends_before_the_word_that_is_being_spoken(played_ms: float, heard: str) -> None:
    answer = Answer("r", 0, status="completed", audio_ms=2000)
    answer.parts = [SpokenPart("one two three.", 0), SpokenPart(" Four five.", 1000)]
    assert answer.heard_text(played_ms).rstrip() == heard.rstrip()


def test_words_whose_sound_has_not_arrived_are_not_heard() -> None:
    answer = Answer("r", 0, audio_ms=100)
    answer.parts = [SpokenPart("a long sentence of which a tenth of a second is here", 0)]
    assert answer.heard_text(100) == "a"


def test_the_turns_of_a_live_microphone_become_utterances() -> None:
    timeline = timeline_of(
        *turn("u1", (0.8, 2.6, 2.7), "Hello."),
        created(2.7, "r1"),
        done(3.0, "r1", request_metrics={"speech_end_to_commit_ms": 500}),
        *turn("u2", (4.0, 5.0, 5.1), "Bye."),
        (6.0, {"type": "input_audio_buffer.speech_started", "item_id": "u3"}),
    )
    assert said_by_turns(timeline) == [
        Said("microphone", 0.8, 0.8, pytest.approx(2.1), 2.6),  # type: ignore[arg-type]
        Said("microphone", 4.0, 4.0, 5.0, 5.0),
    ]


def test_lines_show_what_is_certain_and_what_was_cut() -> None:
    timeline = timeline_of(*INTERRUPTED)
    assert lines(timeline, 9.0) == [
        Line("u1", 0.8, YOU, "Hello.", "", False, True),
        Line("r1", 2.7, ASSISTANT, "One two three. Four", " five.", True, True),
        Line("u2", 4.3, YOU, "Stop.", "", False, True),
        Line("r2", 6.7, ASSISTANT, "Yes.", "", False, True),
    ]


def test_lines_of_a_conversation_that_goes_on() -> None:
    partial = {"type": "conversation.item.input_audio_transcription.delta", "item_id": "u1", "delta": "Hel"}
    timeline = timeline_of((0.8, turn("u1", (0, 0, 0), "")[0][1]), (1.0, partial))
    assert lines(timeline, 1.0) == [Line("u1", 0.8, YOU, "", "Hel", False, False)]
    failed = {"type": "conversation.item.input_audio_transcription.failed", "item_id": "u1"}
    timeline.observe(parse_event(failed, received_at_s=1.5))
    assert lines(timeline, 1.5) == [Line("u1", 0.8, YOU, "Hel", "", False, True)]
    timeline = timeline_of(created(2.7, "r1"), audio(3.0, "r1", 500), words(3.0, "r1", "One two."))
    assert lines(timeline, 2.9) == [Line("r1", 2.7, ASSISTANT, "", "One two.", False, False)]
    assert lines(timeline, 3.4) == [Line("r1", 2.7, ASSISTANT, "One", " two.", False, False)]
