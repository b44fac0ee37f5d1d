"""What a plugin is told about a request, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, frozen

from duplex_trio.protocol.sampling import Sampling
from duplex_trio.stages.units import ChatMessage, Pcm


@frozen(kw_only=True)
class Truncation:
    """What becomes of a conversation that is longer than the model reads.

    Its beginning is left out if the model may forget it, so much that `retention_ratio` of what may be read is
    left; else the turn fails with `context_length_exceeded`. `tokens_max` bounds what is read behind the
    instructions and the functions, None by nothing but the model.
    """

    forgets: bool = True
    retention_ratio: float = 1.0
    tokens_max: int | None = None


@frozen(kw_only=True)
class TurnInput:
    """The input of one turn of a model that answers whole turns.

    `pcm` is the user's sound at the plugin's input rate, or None for a turn that answers the conversation as
    it stands. `conversation` is the history before this input, heard text only. `respond` is false when only
    the user's transcript is wanted. `frames` are the newest pictures, JPEG or PNG, oldest first.
    `session_state` is what `DuplexModelPlugin.create_session_state` made. Of `sampling` only those knobs are set
    that `TurnProcessor.sampling_knobs` names. `tools` are the functions, as OpenAI
    writes them, that the model may call, none if it must not; `tool_choice` is `auto`, `required` (it must call
    one), `none` or an object whose `name` it must call. Without `parallel_tool_calls` it calls one at most.
    """

    pcm: Pcm | None
    frames: Sequence[bytes] = ()
    conversation: Sequence[ChatMessage]
    instructions: str | None = None
    modalities: frozenset[str] = frozenset({"audio", "text"})
    voice: str | None = None
    speed: float = 1.0
    temperature: float | None = None
    max_output_tokens: int | None = None
    sampling: Sampling = Factory(Sampling)
    language: str | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str | Mapping[str, Any] = "auto"
    parallel_tool_calls: bool = True
    truncation: Truncation = Truncation()
    respond: bool = True
    runtime_config: Mapping[str, Any] = Factory(dict)
    session_state: Any = None


@frozen(kw_only=True)
class StageForward:
    """One unit for one stage. `final` says that no unit follows for that stage in this request."""

    stage_id: int
    unit: Any
    params: Any = None
    final: bool = False


@frozen(kw_only=True)
class TurnPlan:
    """How a turn enters the pipeline.

    The first unit, the last stage involved, and the plugin's state of the request.
    """

    entry: StageForward
    final_stage_id: int
    state: Any = None


@frozen(kw_only=True)
class RequestView:
    """One live request, as shown to a plugin's hooks.

    `state` is what `TurnPlan.state` was, `session_state` what `DuplexModelPlugin.create_session_state` made. A
    request by itself, of no session, is its first and only turn.
    """

    request_id: str
    session_id: str = ""
    epoch: int = 0
    turn_id: int = 0
    final_stage_id: int
    state: Any
    session_state: Any = None
