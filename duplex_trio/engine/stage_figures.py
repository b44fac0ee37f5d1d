"""What each output of a stage says about the stage's work: times seen from here, and what the value tells.

Times run on the clock of whoever calls. A stage may add figures that only it knows, such as the waits inside its
runtime; those win.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.units import SegmentEnd, SpeechChunk, TextDelta, Transcript


@define(eq=False)
class _TokenCounts:
    """From totals of a segment to what each delta adds; what the segment builds on was counted before."""

    tokens_in: int = 0
    tokens_out: int = 0

    def new(self, delta: TextDelta) -> dict[str, Any]:
        figures: dict[str, Any] = {
            "num_tokens_in": max(0, delta.prompt_tokens - self.tokens_in),
            "num_tokens_out": max(0, delta.completion_tokens - self.tokens_out),
        }
        self.tokens_in = max(self.tokens_in, delta.prompt_tokens)
        self.tokens_out = max(self.tokens_out, delta.completion_tokens)
        if delta.finish_reason is not None:
            figures["finish_reason"] = delta.finish_reason
        if isinstance(delta, SegmentEnd):
            self.tokens_in, self.tokens_out = delta.context_tokens, 0
        return figures


@define(eq=False)
class StageFigures:
    """The figures of one request on one stage.

    An output is timed from the first unit that was submitted since the output before it; without one it goes on
    with the same unit and is timed from the output before it. The times of all outputs together are therefore the
    time that the stage took, and `inter_output_latencies_ms` are only those within a unit.

    Args:
        name: the stage's name.
    """

    name: str
    _submitted_s: float | None = None
    _output_s: float | None = None
    _tokens: _TokenCounts = field(factory=_TokenCounts)

    def submitted(self, now_s: float) -> None:
        """A unit goes to the stage."""
        if self._submitted_s is None:
            self._submitted_s = now_s

    def output(self, output: StageOutput, now_s: float) -> dict[str, Any]:
        """The figures of one output."""
        figures: dict[str, Any] = {"stage_name": self.name, "output_unit_count": 1}
        if self._submitted_s is not None:
            waited_ms = (now_s - self._submitted_s) * 1000
            figures |= {"stage_gen_time_ms": waited_ms, "serving_time_to_first_output_ms": waited_ms}
        elif self._output_s is not None:
            waited_ms = (now_s - self._output_s) * 1000
            figures |= {"stage_gen_time_ms": waited_ms, "inter_output_latencies_ms": (waited_ms,)}
        self._submitted_s, self._output_s = None, now_s
        figures |= self._told_by(output.data)
        return {**figures, **output.metrics}

    def _told_by(self, data: Any) -> Mapping[str, Any]:
        match data:
            case SpeechChunk(pcm=pcm, sample_rate_hz=rate):
                return {
                    "output_unit_type": "audio",
                    "audio_generated_frames": len(pcm),
                    "audio_sample_rate_hz": rate,
                    "audio_duration_s": len(pcm) / rate,
                }
            case TextDelta():
                return {"output_unit_type": "text", **self._tokens.new(data)}
            case Transcript(token_count=tokens, duration_s=duration_s):
                return {
                    "output_unit_type": "transcript",
                    "num_tokens_out": tokens,
                    "audio_input_duration_s": duration_s,
                }
        return {}
