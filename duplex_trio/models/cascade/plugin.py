"""The cascade in sessions: what its turns need not know, such as quick transcripts of speech that goes on."""

from __future__ import annotations

from duplex_trio.models.cascade.processor import CascadeProcessor, known_of
from duplex_trio.models.cascade.settings import ASR, LLM, TTS
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.requests import StageForward
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.units import Pcm, SpeechSegment, Transcript

__all__ = ["ASR", "LLM", "TTS", "CascadePlugin", "make_plugin"]

PARTIAL_INTERVAL_MS = 500
"""Transcribing a growing buffer anew costs about 100 ms of one core, so twice a second is what a small
machine bears.
"""
SPECULATION_PAUSE_MS = 200
"""Long enough that a breath inside a word does not start an answer, short enough that it is ready at the
turn's end.
"""
SILENCE_DURATION_MS = 600
"""350 ms cut spoken turns of two sentences in half; 600 ms did not."""


class CascadePlugin(CascadeProcessor, DuplexModelPlugin):
    """The cascade's logic in sessions; arguments as for `CascadeProcessor`."""

    plugin_id = "cascade"
    default_silence_duration_ms = SILENCE_DURATION_MS

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        """Everything a cascade can do; it takes no images and owns no turns."""
        return DuplexCapabilities(
            supports_text_only_turn=True,
            supports_tools=True,
            supports_chat_completions=True,
            supports_session_resume=True,
            supports_multi_session=max_sessions > 1,
            partial_transcript_interval_ms=PARTIAL_INTERVAL_MS,
            speculation_pause_ms=SPECULATION_PAUSE_MS,
        )

    def plan_partial(self, pcm: Pcm, language: str | None) -> StageForward | None:
        """A quick transcript of speech that goes on."""
        return StageForward(stage_id=ASR, unit=SpeechSegment(pcm=pcm, partial=True, language=language))

    def partial_transcript(self, output: StageOutput) -> str | None:
        """The text of a quick transcript."""
        return output.data.text if isinstance(output.data, Transcript) else None


def make_plugin(pipeline: Pipeline) -> CascadePlugin:
    """The cascade's plugin with what its pipeline knows of the models."""
    return CascadePlugin(**known_of(pipeline))
