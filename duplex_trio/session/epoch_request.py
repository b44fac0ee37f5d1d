"""Begins the one stage request of an epoch of a model that owns its turns; its units are `units`' business."""

from __future__ import annotations

from duplex_trio.pipelines.requests import RequestView
from duplex_trio.plugin.resumable import EpochInput, ResumableModelPlugin
from duplex_trio.session.core import SessionCore
from duplex_trio.session.port import StageRequestContext
from duplex_trio.session.state.fence import DuplexFence, stage_request_id
from duplex_trio.session.turn import Turn


def open_epoch_request(
    core: SessionCore, plugin: ResumableModelPlugin, number: int
) -> tuple[Turn, RequestView]:
    """Begin a request that is told how things stand now.

    Args:
        core: the session.
        plugin: the model.
        number: counts the requests of the session from 1.

    Raises:
        ValueError: a request with the same id is live.
        Exception: what the plugin's `begin_request` raises.
    """
    state = core.state
    config = state.config
    epoch = EpochInput(
        conversation=state.conversation.messages(last=core.limits.history_messages_max),
        instructions=config.instructions,
        modalities=frozenset(state.response_modalities(None)),
        voice=config.voice,
        speed=config.speed or 1.0,
        temperature=config.temperature,
        max_output_tokens=config.max_output_tokens,
        tools=config.tools if state.capabilities.supports_tools else (),
        tool_choice=config.tool_choice,
        runtime_config=state.runtime_config,
        session_state=state.model_state,
    )
    role = "stage0" if number == 1 else f"stage0-{number}"
    turn = Turn(
        turn_id=state.turn_id,
        epoch=state.epoch,
        request_id=stage_request_id(state.session_id, state.epoch, role),
        spells=core.trace.spells(outlives=True),
    )
    turn.released.set()
    turn.timing.opened_s = core.now_s
    view = RequestView(
        request_id=turn.request_id,
        session_id=state.session_id,
        epoch=state.epoch,
        turn_id=state.turn_id,
        final_stage_id=core.port.stage_count - 1,
        state=plugin.begin_request(epoch),
        session_state=state.model_state,
    )
    turn.request = core.port.ensure_request(
        StageRequestContext(
            request_id=turn.request_id,
            fence=DuplexFence(state.session_id, state.epoch, state.turn_id),
            final_stage_id=view.final_stage_id,
            state=view.state,
            session_state=view.session_state,
            resumable=True,
            spells=turn.spells,
        )
    )
    return turn, view
