"""What single outputs of a stage say about its work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from duplex_trio.engine.stage_figures import StageFigures
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.units import SegmentEnd, SpeechChunk, TextDelta, Transcript


def output(data: Any = None, **metrics: Any) -> StageOutput:
    return StageOutput(request_id="r", data=data, metrics=metrics)


def test_an_output_is_timed_from_its_unit_and_then_from_the_output_before() -> None:
    """The times add up to the time that the stage took; waiting for a unit is not among them."""
    figures = StageFigures("llm")
    figures.submitted(1.0)
    first, second = figures.output(output(), 1.5), figures.output(output(), 1.75)
    figures.submitted(9.0)
    third = figures.output(output(), 9.25)
    assert [made["stage_gen_time_ms"] for made in (first, second, third)] == [500.0, 250.0, 250.0]
    assert [made.get("serving_time_to_first_output_ms") for made in (first, second, third)] == [
        500.0,
        None,
        250.0,
    ]
    assert [made.get("inter_output_latencies_ms") for made in (first, second, third)] == [
        None,
        (250.0,),
        None,
    ]
    assert {made["output_unit_count"] for made in (first, second, third)} == {1}
    assert {made["stage_name"] for made in (first, second, third)} == {"llm"}


def test_units_in_line_are_timed_from_the_first_of_them() -> None:
    """The stage has been at work since then."""
    figures = StageFigures("tts")
    figures.submitted(0.0)
    figures.submitted(1.0)
    assert figures.output(output(), 2.0)["stage_gen_time_ms"] == 2000.0
    assert figures.output(output(), 3.0)["stage_gen_time_ms"] == 1000.0


def test_sound_is_counted_in_samples_and_seconds() -> None:
    """Of a piece of speech."""
    made = StageFigures("tts").output(
        output(SpeechChunk(pcm=np.zeros(2400, np.float32), sample_rate_hz=24_000, text="a")), 0.0
    )
    assert made["output_unit_type"] == "audio"
    assert (made["audio_generated_frames"], made["audio_sample_rate_hz"]) == (2400, 24_000)
    assert made["audio_duration_s"] == pytest.approx(0.1)


def test_token_counts_are_what_each_delta_adds() -> None:
    """Deltas carry totals of a segment; what the next one builds on was counted before."""
    figures = StageFigures("llm")
    deltas = [
        TextDelta(text="a", prompt_tokens=10, completion_tokens=1),
        SegmentEnd(
            text="b",
            finish_reason="stop",
            prompt_tokens=10,
            completion_tokens=3,
            context_tokens=12,
            dropped_token_id=1,
        ),
        TextDelta(text="c", finish_reason="length", prompt_tokens=15, completion_tokens=4),
    ]
    made = [figures.output(output(delta), 0.0) for delta in deltas]
    assert [(one["num_tokens_in"], one["num_tokens_out"]) for one in made] == [(10, 1), (0, 2), (3, 4)]
    assert [one.get("finish_reason") for one in made] == [None, "stop", "length"]
    assert {one["output_unit_type"] for one in made} == {"text"}


def test_what_the_stage_knows_better_wins() -> None:
    """Its own figures come last."""
    figures = StageFigures("asr")
    figures.submitted(0.0)
    transcript = Transcript(text="a", partial=False, duration_s=1.5, token_count=7)
    made = figures.output(output(transcript, stage_gen_time_ms=1.0, step_ms=2.0), 1.0)
    assert (made["stage_gen_time_ms"], made["step_ms"]) == (1.0, 2.0)
    assert (made["num_tokens_out"], made["audio_input_duration_s"]) == (7, 1.5)
