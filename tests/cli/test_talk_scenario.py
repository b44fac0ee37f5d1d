from __future__ import annotations

import numpy as np
import pytest

from duplex_trio.cli.talk.command import SAMPLES, load_utterances
from duplex_trio.cli.talk.scenario import (
    FRAME_SAMPLES,
    LEAD_IN_S,
    MICROPHONE_HZ,
    PAUSE_S,
    AnswerProgress,
    Said,
    Scenario,
    Utterance,
)
from duplex_trio.protocol.duplex.audio import Pcm

NOTHING = AnswerProgress()


def utterance(name: str, length_s: float, level: float) -> Utterance:
    """A constant sound, so that a frame tells whose it is."""
    return Utterance.of(name, np.full(round(length_s * MICROPHONE_HZ), level, np.float32))


def play(scenario: Scenario, progress: dict[float, AnswerProgress], until_s: float) -> Pcm:
    """The microphone's sound; `progress` says what became known when."""
    frames = []
    known = NOTHING
    for index in range(round(until_s * 50)):
        now_s = index / 50
        known = progress.get(round(now_s, 2), known)
        frames.append(scenario.next_frame(now_s, known))
        if scenario.done:
            break
    assert {frame.shape for frame in frames} == {(FRAME_SAMPLES,)}
    return np.concatenate(frames)


def starts(said: list[Said]) -> list[float]:
    return [round(one.start_s, 2) for one in said]


def test_the_second_utterance_barges_in_and_the_third_waits() -> None:
    scenario = Scenario([utterance(str(n), 1.0, n / 10) for n in (1, 2, 3)], barge_in_after_s=0.8)
    first_over = AnswerProgress(first_heard_s=2.0)
    # The progress is always that of the answer to the utterance that was said last.
    second = {4.0: NOTHING, 5.0: AnswerProgress(5.0), 7.0: AnswerProgress(5.0, 7.0)}
    third = {8.6: NOTHING, 9.0: AnswerProgress(9.0, 9.5), 9.5: AnswerProgress(9.0, 9.5)}
    pcm = play(scenario, {2.0: first_over, 2.84: NOTHING, **second, **third}, 20)
    assert starts(scenario.said) == [LEAD_IN_S, 2.8, 7.0 + PAUSE_S]
    assert scenario.done
    assert len(pcm) / MICROPHONE_HZ == pytest.approx(9.5 + PAUSE_S + 0.02)
    for one, level in zip(scenario.said, (0.1, 0.2, 0.3), strict=True):
        begin, end = (round(time_s * MICROPHONE_HZ) for time_s in (one.start_s, one.end_s))
        assert pcm[begin:end] == pytest.approx(level)
        assert pcm[end : end + FRAME_SAMPLES] == pytest.approx(0)


@pytest.mark.parametrize(
    ("barge_in_after_s", "progress", "second_start_s"),
    [
        (None, {2.0: AnswerProgress(2.0), 4.0: AnswerProgress(2.0, 4.0)}, 4.0 + PAUSE_S),
        # An answer without sound cannot be interrupted; the user goes on when it is over.
        (1.0, {3.0: AnswerProgress(None, 3.0)}, 3.0),
        # One that is over before the moment is not waited for longer than that moment.
        (5.0, {2.0: AnswerProgress(2.0, 2.5)}, 7.0),
        (0.0, {2.0: AnswerProgress(2.0)}, 2.0),
    ],
)
def test_when_the_second_utterance_begins(
    barge_in_after_s: float | None, progress: dict[float, AnswerProgress], second_start_s: float
) -> None:
    scenario = Scenario(
        [utterance("a", 0.5, 0.1), utterance("b", 0.5, 0.2)], barge_in_after_s=barge_in_after_s
    )
    play(scenario, progress, second_start_s + 0.1)
    assert starts(scenario.said) == [LEAD_IN_S, pytest.approx(second_start_s)]


def test_an_answer_that_never_comes_is_waited_for_with_patience() -> None:
    scenario = Scenario([utterance("a", 0.5, 0.1), utterance("b", 0.5, 0.2)], patience_s=3)
    play(scenario, {}, 60)
    assert starts(scenario.said) == [LEAD_IN_S, LEAD_IN_S + 0.5 + 3]
    assert scenario.done


def test_an_answer_that_began_is_waited_for_without_end() -> None:
    scenario = Scenario([utterance("a", 0.5, 0.1)], patience_s=3)
    play(scenario, {2.0: AnswerProgress(2.0)}, 60)
    assert not scenario.done


def test_the_speech_in_a_recording_is_found_by_its_level() -> None:
    pcm = np.zeros(MICROPHONE_HZ, np.float32)
    pcm[4000:8000] = 0.3
    pcm[8000:9600] = 0.001
    found = Utterance.of("x", pcm)
    assert (found.speech_start_s, found.speech_end_s) == (0.25, 0.5)
    silent = Utterance.of("x", np.zeros(800, np.float32))
    assert (silent.speech_start_s, silent.speech_end_s) == (0, 0.05)


def test_the_recordings_that_come_with_the_package() -> None:
    utterances = load_utterances([])
    assert [one.name for one in utterances] == ["1-breakfast.wav", "2-moon.wav"]
    for one in utterances:
        assert 1.5 < one.speech_end_s - one.speech_start_s < 3.0
        assert 0.5 < np.abs(one.pcm).max() < 0.9
        assert (SAMPLES / one.name).stat().st_size < 120_000
