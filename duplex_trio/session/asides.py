"""What a model says that is no speech: calls of functions, what it wants to remember, notes to its own
plugin.

Nothing of it waits: it takes effect as the result comes, in order with the speech around it.
"""

from __future__ import annotations

from duplex_trio.plugin.results import FunctionCallResult, ModelContext, ModelNote
from duplex_trio.session.core import SessionCore
from duplex_trio.session.hooks import hook_faults
from duplex_trio.session.state.function_call import call_function
from duplex_trio.session.state.response import Response

Aside = FunctionCallResult | ModelContext | ModelNote


def take_aside(core: SessionCore, result: Aside, response: Response | None) -> None:
    """Let a result take effect.

    Args:
        core: the session.
        result: what the model said.
        response: the response in progress that it belongs to, or None.

    Raises:
        RealtimeError: a hook of the model broke (`runtime_data_plane_stream_failed`) or refused.
    """
    state, plugin = core.state, core.plugin
    with hook_faults(core):
        match result:
            case FunctionCallResult(name=name, arguments=arguments, call_id=call_id):
                core.emit(call_function(state, response, name=name, arguments=arguments, call_id=call_id))
                core.log.info("function.called", name=name)
            case ModelContext(text=text):
                plugin.commit_model_context(state.model_state, text)
            case ModelNote(metadata=metadata):
                changed = plugin.runtime_config_after_model_output(state.runtime_config, metadata)
                state.adopt_runtime_config(changed)
