"""The model plugin: one object per engine that holds everything model-specific.

The session calls a plugin to plan input and the orchestrator calls it on each stage output; both do so on the
Trio thread, so hooks are synchronous, quick (under 1 ms) and free of side effects outside the state they are
given; the async ones may take their time. An exception from a hook fails that request with
`runtime_data_plane_stream_failed`, or refuses that opening or update, and nothing else.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from duplex_trio.pipelines.processor import TurnProcessor
from duplex_trio.pipelines.requests import RequestView, StageForward
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex import FunctionCallOutputItem
from duplex_trio.protocol.duplex.session import DuplexSessionConfig
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.units import Pcm


class DuplexModelPlugin(TurnProcessor):
    """Contract between the engine and one model.

    `private_runtime_config_keys` are keys of `extra_body` that a client may not set. A model that
    `requires_ref_audio` speaks only in sessions that were opened with a reference recording. The sound of a model
    that owns its turns is never stretched: what speaks and listens at once does so in its own time.
    """

    plugin_id: str
    default_silence_duration_ms: int = 500
    private_runtime_config_keys: frozenset[str] = frozenset()
    requires_ref_audio: bool = False

    @abstractmethod
    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        """What the model can do on an engine that admits `max_sessions` sessions."""

    def validate_client_extra_body(self, extra_body: Mapping[str, Any]) -> None:
        """Check the model knobs of a client.

        Raises:
            RealtimeError: `invalid_duplex_runtime_config`, naming the key.
        """
        return

    async def prepare_runtime_config(self, config: DuplexSessionConfig, model_name: str) -> Mapping[str, Any]:
        """The server-owned configuration of a session, made while it opens; it holds its slot meanwhile.

        May take its time, such as to read the reference recording. The session never changes what it gets,
        and neither may the plugin: a change is a new mapping out of one of the hooks named
        `runtime_config_...`.

        Args:
            config: the client's configuration.
            model_name: the served model.

        Raises:
            ValueError: told to the client with the code `invalid_duplex_runtime_config`.
            RealtimeError: told with its own code.
        """
        return {}

    def runtime_config_for_update(
        self, config: DuplexSessionConfig, current: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The configuration after a `session.update`, from the client's new one and what it was.

        Raises:
            ValueError: the update is refused with `invalid_duplex_runtime_config`.
            RealtimeError: it is refused with its own code.
        """
        return current

    def check_session(self, config: DuplexSessionConfig, runtime_config: Mapping[str, Any]) -> None:
        """Try whether requests can be made of both configurations, before either is adopted.

        Raises:
            ValueError: the opening or the update is refused with `invalid_duplex_runtime_config`.
            RealtimeError: it is refused with its own code.
        """
        return

    def runtime_config_for_function_output(
        self,
        config: DuplexSessionConfig,
        current: Mapping[str, Any],
        item: FunctionCallOutputItem,
    ) -> Mapping[str, Any] | None:
        """The configuration once the client has answered a call, or None if the model needs no more than the
        item.

        For a model that owns its turns, which is told nothing of the conversation while its request goes on;
        it is fed a unit of silence then, unless the user's sound comes anyway.

        Raises:
            RealtimeError: the item is refused, such as with `function_response_backlog`.
        """
        return None

    def runtime_config_after_model_output(
        self, current: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """The configuration after a `ModelNote` of the model, or None if it stays."""
        return None

    def commit_model_context(self, session_state: Any, text: str) -> None:
        """Keep the text of a `ModelContext` in the session's state.

        Called when the answer has come to it, and not for an answer that was cancelled before.
        """
        return

    def create_session_state(self) -> Any:
        """What the model remembers of one session, made as it opens and owned by it.

        Found as `session_state` in `TurnInput`, `EpochInput` and `RequestView`. Keep it bounded. A turn may
        be planned and thrown away, and two requests of one session may be live at once, so planning a turn
        must not change it; `commit_model_context` may, and so may the hooks of units, which come one at a
        time.
        """
        return None

    def plan_partial(self, pcm: Pcm, language: str | None) -> StageForward | None:
        """The unit that gives a quick transcript of speech that goes on, or None if the model has none."""
        return None

    def partial_transcript(self, output: StageOutput) -> str | None:
        """The text in an output of a `plan_partial` unit."""
        return None

    def release_concurrent_turn_requests(
        self, stage_id: int, output: StageOutput, request: RequestView
    ) -> str | None:
        """The whole text of the answer, once the stages that the next turn enters are done with this one.

        Called for each output of a stage before the request's final one, just after `project`, while
        `supports_concurrent_turn_requests` is declared. From the first text on the session may begin the
        request of the next turn, which computes while this answer is still being spoken; its conversation
        says this text.
        """
        return None
