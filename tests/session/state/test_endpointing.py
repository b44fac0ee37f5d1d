"""The frame machine of server VAD, driven by scripted scores: one character a frame."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.session.state.endpointing import (
    Endpointer,
    EndpointEvent,
    EndpointingParams,
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    SpeechStopped,
)
from duplex_trio.stages.units import VAD_FRAME_SAMPLES

SCORES = {"#": 0.9, "=": 0.5, "+": 0.4, "-": 0.35, ".": 0.1}
"""Loud, exactly the threshold, between the bounds, exactly the lower bound, silent."""


def heard(script: str, **params: object) -> list[str]:
    """The events of a script as `name@frame`, with the frame (1-based) that caused each."""
    endpointer = Endpointer(EndpointingParams(**params))  # type: ignore[arg-type]
    return [
        f"{type(event).__name__.removeprefix('Speech').lower()}@{index}"
        for index, character in enumerate(script, start=1)
        for event in endpointer.frame(SCORES[character])
    ]


@pytest.mark.parametrize(
    ("script", "params", "expected"),
    [
        # a candidate of 96 ms is three frames
        ("##", {}, []),
        ("###", {}, ["started@3"]),
        ("===", {}, ["started@3"]),
        ("##+###", {}, ["started@6"]),
        ("##.##.##.", {}, []),
        ("#", {"min_speech_duration_ms": 0}, ["started@1"]),
        ("#", {"min_speech_duration_ms": 32}, ["started@1"]),
        ("##", {"min_speech_duration_ms": 33}, ["started@2"]),
        ("####", {"min_speech_duration_ms": 97}, ["started@4"]),
        # a stop needs sixteen silent frames (512 ms) at 500 ms
        ("###" + "." * 15, {}, ["started@3"]),
        ("###" + "." * 16, {}, ["started@3", "stopped@19"]),
        ("###" + "." * 15 + "#" + "." * 15, {}, ["started@3"]),
        ("###" + "." * 15 + "#" + "." * 16, {}, ["started@3", "stopped@35"]),
        ("###.", {"silence_duration_ms": 0}, ["started@3", "stopped@4"]),
        ("###.", {"silence_duration_ms": 32}, ["started@3", "stopped@4"]),
        ("###..", {"silence_duration_ms": 33}, ["started@3", "stopped@5"]),
        # between the bounds the timer neither starts nor is stopped, but runs on
        ("###" + "+" * 100, {}, ["started@3"]),
        ("###" + "-" * 100, {}, ["started@3"]),
        ("###." + "+" * 14, {}, ["started@3"]),
        ("###." + "+" * 15, {}, ["started@3", "stopped@19"]),
        ("###++." + "-" * 15, {}, ["started@3", "stopped@21"]),
        ("###.+#" + "+" * 100, {}, ["started@3"]),
        # exactly the threshold is speech, while active too
        ("###" + "...............=" * 5, {}, ["started@3"]),
        # a second turn needs a whole candidate again
        ("###" + "." * 16 + "##.###", {}, ["started@3", "stopped@19", "started@25"]),
        # another threshold moves both bounds
        ("===", {"threshold": 0.51}, []),
        ("---", {"threshold": 0.3}, ["started@3"]),
        ("###.", {"threshold": 0.2, "silence_duration_ms": 32}, ["started@3"]),
        ("###.", {"threshold": 0.26, "silence_duration_ms": 32}, ["started@3", "stopped@4"]),
    ],
)
def test_hysteresis(script: str, params: dict[str, object], expected: list[str]) -> None:
    assert heard(script, **params) == expected


@pytest.mark.parametrize(
    ("script", "params", "expected"),
    [
        ("###" + "." * 7, {}, ["started@3", "paused@10"]),
        ("###" + "." * 16, {}, ["started@3", "paused@10", "stopped@19"]),
        ("###" + "." * 7 + "#", {}, ["started@3", "paused@10", "resumed@11"]),
        ("###" + "." * 6 + "#.", {}, ["started@3"]),
        (
            "###" + "." * 8 + "#" + "." * 16,
            {},
            ["started@3", "paused@10", "resumed@12", "paused@19", "stopped@28"],
        ),
        ("###" + "." * 7 + "++", {}, ["started@3", "paused@10"]),
        ("###" + "." * 16, {"pause_ms": 500}, ["started@3", "stopped@19"]),
        ("###" + "." * 16, {"pause_ms": 480}, ["started@3", "paused@18", "stopped@19"]),
        ("###" + "." * 16, {"pause_ms": 800}, ["started@3", "stopped@19"]),
        ("###" + "." * 2, {"pause_ms": 0}, ["started@3", "paused@4"]),
        ("###" + "." * 16 + "###", {}, ["started@3", "paused@10", "stopped@19", "started@22"]),
    ],
)
def test_a_pause_is_reported_once_and_taken_back_by_speech(
    script: str, params: dict[str, object], expected: list[str]
) -> None:
    assert heard(script, **{"pause_ms": 200, **params}) == expected


def feed(endpointer: Endpointer, script: str) -> list[EndpointEvent]:
    return list(endpointer.feed(SCORES[character] for character in script).events)


def test_events_tell_samples_and_milliseconds_on_the_input_clock() -> None:
    endpointer = Endpointer(EndpointingParams(pause_ms=200))
    events = feed(endpointer, "." * 20 + "###" + "." * 7 + "#" + "." * 16)
    assert events == [
        SpeechStarted(20 * 512 - 4800),
        SpeechPaused(30 * 512),
        SpeechResumed(30 * 512),
        SpeechPaused(38 * 512),
        SpeechStopped(47 * 512, 31 * 512),
    ]
    started, stopped = events[0], events[-1]
    assert isinstance(started, SpeechStarted)
    assert isinstance(stopped, SpeechStopped)
    assert (started.audio_start_ms, stopped.audio_end_ms) == (340, 47 * 32)


def test_padding_stops_at_the_beginning_of_the_stream() -> None:
    assert feed(Endpointer(), "..###") == [SpeechStarted(0)]


def test_reset_keeps_the_clock_and_forbids_padding_into_what_was_discarded() -> None:
    endpointer = Endpointer()
    feed(endpointer, "." * 10 + "###")
    endpointer.reset()
    assert not endpointer.speech_active
    assert endpointer.last_speech_sample is None
    assert endpointer.position_sample == 13 * 512
    assert feed(endpointer, ".###") == [SpeechStarted(13 * 512)]


def test_reset_drops_a_candidate_and_a_running_silence() -> None:
    endpointer = Endpointer()
    feed(endpointer, "##")
    endpointer.reset()
    assert feed(endpointer, "#") == []
    assert feed(endpointer, "##" + "." * 15) == [SpeechStarted(2 * 512)]
    endpointer.reset()
    assert feed(endpointer, "###" + "." * 15) == [SpeechStarted(20 * 512)]


def test_parameters_change_in_mid_stream() -> None:
    endpointer = Endpointer()
    assert feed(endpointer, "###" + "." * 5) == [SpeechStarted(0)]
    endpointer.configure(EndpointingParams(silence_duration_ms=100))
    assert feed(endpointer, ".") == [SpeechStopped(9 * 512, 3 * 512)]
    endpointer.configure(EndpointingParams(threshold=0.95))
    assert feed(endpointer, "#" * 10) == []
    endpointer.configure(EndpointingParams(threshold=0.5, prefix_padding_ms=0))
    assert feed(endpointer, "###") == [SpeechStarted(19 * 512)]


def test_one_append_reports_stop_before_start_and_what_it_came_to() -> None:
    endpointer = Endpointer()
    feed(endpointer, "###")
    outcome = endpointer.feed(SCORES[character] for character in "." * 16 + "###")
    assert [type(event) for event in outcome.events] == [SpeechStopped, SpeechStarted]
    assert (outcome.is_speech, outcome.speech_active, outcome.should_commit) == (True, True, False)
    assert outcome.max_probability == 0.9

    outcome = endpointer.feed([0.1] * 16)
    assert (outcome.is_speech, outcome.speech_active, outcome.should_commit) == (True, False, True)
    assert outcome.max_probability == 0.1

    outcome = endpointer.feed([0.1, 0.6])
    assert (outcome.events, outcome.is_speech, outcome.should_commit) == ((), False, False)
    assert endpointer.max_probability == 0.9


def test_an_append_without_a_whole_frame_changes_nothing() -> None:
    endpointer = Endpointer()
    outcome = endpointer.feed([])
    assert (outcome.events, outcome.is_speech, outcome.max_probability) == ((), False, 0.0)
    assert endpointer.position_sample == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"threshold": 0.15},
        {"threshold": 1.01},
        {"threshold": float("nan")},
        {"prefix_padding_ms": -1},
        {"silence_duration_ms": -1},
        {"min_speech_duration_ms": -1},
        {"pause_ms": -1},
    ],
)
def test_values_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        EndpointingParams(**bad)  # type: ignore[arg-type]


def test_the_lower_bound_keeps_its_minimum() -> None:
    assert EndpointingParams(threshold=0.155).negative_threshold == 0.01
    assert EndpointingParams(threshold=1.0).negative_threshold == pytest.approx(0.85)


@given(
    scores=st.lists(st.floats(0, 1), max_size=150),
    cut=st.integers(0, 150),
    silence_ms=st.integers(0, 700),
    speech_ms=st.integers(0, 200),
    pause_ms=st.none() | st.integers(0, 800),
)
def test_whatever_the_scores_events_alternate_and_appends_may_be_cut_anywhere(
    scores: list[float], cut: int, silence_ms: int, speech_ms: int, pause_ms: int | None
) -> None:
    params = EndpointingParams(
        silence_duration_ms=silence_ms, min_speech_duration_ms=speech_ms, pause_ms=pause_ms
    )
    whole, pieces = Endpointer(params), Endpointer(params)
    events = whole.feed(scores).events
    assert pieces.feed(scores[:cut]).events + pieces.feed(scores[cut:]).events == events

    state = "quiet"
    for event in events:
        match event:
            case SpeechStarted(start):
                assert state == "quiet"
                assert 0 <= start < whole.position_sample
                state = "speech"
            case SpeechPaused():
                assert state == "speech"
                state = "pause"
            case SpeechResumed():
                assert state == "pause"
                state = "speech"
            case SpeechStopped(end, spoken):
                assert state in ("speech", "pause")
                assert spoken + max(silence_ms * 16, VAD_FRAME_SAMPLES) <= end
                state = "quiet"
    assert whole.speech_active == (state != "quiet")
    assert whole.paused == (state == "pause")
