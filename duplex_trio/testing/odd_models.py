"""Scripted models that have a fault, or something to tell, for scenarios in which that is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duplex_trio.models.cascade.plugin import CascadePlugin
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.models.scripted.native import NativeAnswer, NativePipeline, NativeUnit, NativeWorker
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.workers import ScriptedAsr
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.requests import RequestView
from duplex_trio.pipelines.results import ClientNote, ModelResult
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.units import SpeechSegment, TextDelta, Transcript
from duplex_trio.stages.worker import StageWorker, UnitRefused


class DeafAsr(ScriptedAsr):
    """Finds no words in anything."""

    def process(self, request: Any, state: Any, unit: SpeechSegment) -> Any:
        """Hear nothing."""
        return [Transcript(text="", partial=unit.partial, duration_s=0.5)]


class FailingAsr(ScriptedAsr):
    """Fails at everything."""

    def process(self, request: Any, state: Any, unit: SpeechSegment) -> Any:
        """Refuse."""
        raise UnitRefused("engine_error", "scripted fault")


class DeadAsr(ScriptedAsr):
    """Breaks as soon as it is given something."""

    def submit(self, request_id: str, unit: Any, final: bool, context: Any) -> None:
        """Break."""
        raise RuntimeError("out of memory")


class WithAsr(ScriptedPipeline):
    """The scripted model with another recognition.

    Args:
        asr: its class.
    """

    def __init__(self, asr: type[ScriptedAsr]) -> None:
        super().__init__(script=Script())
        self._asr = asr

    def build_worker(self, stage_id: int) -> StageWorker:
        """Make one stage."""
        return super().build_worker(stage_id) if stage_id else self._asr(self.script)


class MoodyPlugin(CascadePlugin):
    """Tells its mood with each word that it writes."""

    def project(self, stage_id: int, output: StageOutput, request: RequestView) -> Sequence[ModelResult]:
        """What the cascade makes of it, and the mood."""
        results = super().project(stage_id, output, request)
        if isinstance(output.data, TextDelta) and not output.finished:
            return [ClientNote(event={"mood": "calm"}), *results]
        return results


class MoodyPipeline(ScriptedPipeline):
    """The scripted model with moods."""

    def build_plugin(self) -> CascadePlugin:
        """The plugin."""
        return MoodyPlugin(ChatProfile(default_instructions=None), voices=("tone",))


class BreakingNative(NativeWorker):
    """Breaks at the second word of its answer."""

    def process(self, request: Any, state: Any, unit: NativeUnit) -> list[NativeAnswer]:
        """Answer one unit."""
        answers = list(super().process(request, state, unit))
        if answers[0].word == "said":
            raise UnitRefused("runtime_data_plane_stream_failed", "scripted fault")
        return answers


class BreakingPipeline(NativePipeline):
    """A model that lives in one request, which breaks."""

    def build_worker(self, stage_id: int) -> StageWorker:
        """Make one stage."""
        return BreakingNative("he said so")


def failing_voice() -> Pipeline:
    """A model whose voice fails in the middle of its answers."""
    script = Script(otherwise=lambda _: "one. two. three. four", word_ms=150, fail_speaking="three")
    return ScriptedPipeline(script=script)
