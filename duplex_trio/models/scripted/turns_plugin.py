"""The scripted model that answers whole turns, joined to sessions: it remembers what it said in each."""

from __future__ import annotations

from collections import deque

from attrs import define, field

from duplex_trio.models.scripted.mind import MindStep
from duplex_trio.models.scripted.turns import TurnsProcessor, request_state
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.pipelines.requests import RequestView
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.stages.port import StageOutput

REMEMBERED_MAX = 8
"""Answers that the model remembers of a session."""


@define(eq=False)
class TurnsMemory:
    """What the model remembers of a session: what it said last, as far as it came to an end."""

    said: deque[str] = field(factory=lambda: deque(maxlen=REMEMBERED_MAX))


class TurnsPlugin(TurnsProcessor, DuplexModelPlugin):
    """The scripted model as a plugin."""

    plugin_id = "scripted_turns"

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        """Turns, spoken, written and shown, the next one while it speaks.

        It has functions called by their names.
        """
        return DuplexCapabilities(
            optional_input_modalities=frozenset({"video"}),
            supports_image_input=True,
            supports_tools=True,
            supports_session_resume=True,
            supports_concurrent_turn_requests=True,
            supports_text_only_turn=True,
            supports_chat_completions=True,
            supports_multi_session=max_sessions > 1,
        )

    def create_session_state(self) -> TurnsMemory:
        """It remembers what it said."""
        return TurnsMemory()

    def commit_model_context(self, session_state: TurnsMemory, text: str) -> None:
        """An answer came to its end."""
        session_state.said.append(text)

    def release_concurrent_turn_requests(
        self, stage_id: int, output: StageOutput, request: RequestView
    ) -> str | None:
        """With the last word of the answer."""
        step: MindStep = output.data
        return " ".join(request_state(request).words) if step.last else None


def make_plugin(pipeline: Pipeline) -> TurnsPlugin:
    """It needs nothing of the pipeline."""
    return TurnsPlugin()
