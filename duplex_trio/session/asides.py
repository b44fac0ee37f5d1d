"""What a model says that is for nobody's ears: what it wants to remember, notes to its own plugin and to the
client.

Nothing of it waits: it takes effect as the result comes.
"""

from __future__ import annotations

from duplex_trio.pipelines.results import ClientNote, ModelContext, ModelNote
from duplex_trio.protocol.duplex import ModelEvent
from duplex_trio.session.core import SessionCore
from duplex_trio.session.hooks import hook_faults

Aside = ModelContext | ModelNote | ClientNote


def take_aside(core: SessionCore, result: Aside) -> None:
    """Let a result take effect.

    Raises:
        RealtimeError: a hook of the model broke (`runtime_data_plane_stream_failed`) or refused, or what it
            tells the client is no JSON or too much (`runtime_data_plane_stream_failed`).
    """
    state, plugin = core.state, core.plugin
    with hook_faults(core):
        match result:
            case ModelContext(text=text):
                plugin.commit_model_context(state.model_state, text)
            case ModelNote(metadata=metadata):
                changed = plugin.runtime_config_after_model_output(state.runtime_config, metadata)
                state.adopt_runtime_config(changed)
            case ClientNote(event=event):
                note = ModelEvent(
                    event_id=state.new_id("event_"),
                    session_id=state.session_id,
                    epoch=state.epoch,
                    response_id=state.active.response_id if state.active is not None else None,
                    event=event,
                )
                core.emit([note])
