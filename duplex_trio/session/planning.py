"""What the model is told of a turn, and its plan for it.

The plan may take the model a while: whoever awaits it looks again afterwards whether the turn is still
wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duplex_trio.pipelines.requests import Truncation, TurnInput, TurnPlan
from duplex_trio.protocol.duplex import ResponseCreateOptions
from duplex_trio.session.core import SessionCore
from duplex_trio.session.hooks import hook_faults
from duplex_trio.session.turn import Turn

Tool = Mapping[str, Any]
ToolChoice = str | Mapping[str, Any]


async def planned(core: SessionCore, turn: Turn) -> TurnPlan:
    """Let the model plan a turn.

    Raises:
        RealtimeError: the model cannot answer it, or its hook broke (`runtime_data_plane_stream_failed`).
    """
    with hook_faults(core):
        return await core.plugin.prepare_turn(turn_input(core, turn))


def turn_input(core: SessionCore, turn: Turn) -> TurnInput:
    """The turn as the model is told of it: its own options, where it has any, before the session's."""
    state, config, options = core.state, core.state.config, turn.options
    limit = options.max_output_tokens if options is not None else None
    if limit is None:
        limit = config.max_output_tokens
    conversation = state.conversation.messages(
        before=turn.item_id, last=core.limits.history_messages_max, spoken=_being_spoken(core)
    )
    if options is not None and options.input is not None:
        conversation = state.conversation.messages_of(options.input)
    own = options.instructions if options is not None else None
    tools, choice = offered_tools(core, options)
    parallel = options.parallel_tool_calls if options is not None else None
    return TurnInput(
        pcm=turn.pcm,
        frames=turn.frames or (),
        conversation=conversation,
        instructions=own if own is not None else config.instructions,
        modalities=frozenset(
            turn.response.modalities if turn.response is not None else state.response_modalities(options)
        ),
        voice=(options.voice if options is not None else None) or config.voice,
        speed=(options.speed if options is not None else None) or config.speed or 1.0,
        temperature=options.temperature
        if options is not None and options.temperature is not None
        else config.temperature,
        max_output_tokens=limit if isinstance(limit, int) else None,
        language=config.spoken_language,
        sampling=state.sampling,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel if parallel is not None else config.parallel_tool_calls is not False,
        truncation=_truncation(config.truncation),
        respond=turn.respond,
        runtime_config=state.runtime_config,
        session_state=state.model_state,
    )


def offered_tools(
    core: SessionCore, options: ResponseCreateOptions | None
) -> tuple[Sequence[Tool], ToolChoice]:
    """The functions that the model may call in a response, none if it must not, and whether it has to."""
    state, config = core.state, core.state.config
    tools = options.tools if options is not None and options.tools is not None else config.tools
    choice = (
        options.tool_choice if options is not None and options.tool_choice is not None else config.tool_choice
    )
    return (() if choice == "none" or not state.capabilities.supports_tools else tools), choice


def _truncation(wanted: str | Mapping[str, Any]) -> Truncation:
    """The session's `truncation` as the model is told of it."""
    if isinstance(wanted, str):
        return Truncation(forgets=wanted != "disabled")
    limits = wanted.get("token_limits") or {}
    return Truncation(retention_ratio=wanted["retention_ratio"], tokens_max=limits.get("post_instructions"))


def _being_spoken(core: SessionCore) -> dict[str, str]:
    """What the model is told about an answer that is still being spoken: all of it, if that is known."""
    speaking, active = core.speaking, core.state.active
    if active is None or speaking is None or speaking.response is not active:
        return {}
    return {} if speaking.answer_text is None else {active.item_id: speaking.answer_text}
