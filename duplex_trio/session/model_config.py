"""What the model makes of a session's configuration, when it opens and when it changes.

The steps are the same both times: its knobs are checked, then what it needs, then it makes its own
configuration of them and tries the whole. A refusal changes nothing; what a hook breaks of is a refusal too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import structlog

from duplex_trio.plugin.plugin import DuplexModelPlugin
from duplex_trio.plugin.resumable import ResumableModelPlugin
from duplex_trio.protocol.duplex import FunctionCallOutputItem, RealtimeError, ResponseCreateOptions
from duplex_trio.protocol.duplex.session import DuplexSessionConfig, ServerVad
from duplex_trio.protocol.refusal import RequestRefused

log = structlog.get_logger("duplex_trio.session")


async def opened_runtime_config(
    plugin: DuplexModelPlugin, config: DuplexSessionConfig, model_name: str
) -> Mapping[str, Any]:
    """The model's configuration of a session that opens.

    Raises:
        RealtimeError: `invalid_duplex_runtime_config` (the model is to speak, or not to speak, by itself and
            does the other; a ValueError of the plugin counts as that), `ref_audio_required`,
            `unsupported_turn_detection` (the session is to prompt a silent user and the model owns its
            turns), `invalid_value` (functions that are wrong), another code of the plugin's, or
            `internal_error` when a hook broke.
    """
    with _refusals():
        _check(plugin, config)
        _check_tools(plugin, config)
        runtime_config = await plugin.prepare_runtime_config(config, model_name)
        plugin.check_session(config, runtime_config)
        return runtime_config


def updated_runtime_config(
    plugin: DuplexModelPlugin,
    config: DuplexSessionConfig,
    current: Mapping[str, Any],
    before: DuplexSessionConfig,
) -> Mapping[str, Any]:
    """The model's configuration of a session that changes; `current` is what it was, of the session `before`.

    Raises:
        RealtimeError: as `opened_runtime_config`.
    """
    with _refusals():
        _check(plugin, config)
        _check_tools(plugin, config, before)
        runtime_config = plugin.runtime_config_for_update(config, current)
        plugin.check_session(config, runtime_config)
        return runtime_config


def answered_runtime_config(
    plugin: DuplexModelPlugin,
    config: DuplexSessionConfig,
    current: Mapping[str, Any],
    item: FunctionCallOutputItem,
) -> Mapping[str, Any] | None:
    """The model's configuration once the client has answered a call; None if it stays as it is.

    Raises:
        RealtimeError: as `opened_runtime_config`.
    """
    with _refusals():
        return plugin.runtime_config_for_function_output(config, current, item)


def new_model_state(plugin: DuplexModelPlugin) -> Any:
    """What the model remembers of a session that opens.

    Raises:
        RealtimeError: as `opened_runtime_config`.
    """
    with _refusals():
        return plugin.create_session_state()


def check_ref_audio(
    plugin: DuplexModelPlugin, config: DuplexSessionConfig, modalities: Collection[str], param: str
) -> None:
    """Refuse sound from a model that has no voice to speak in.

    Args:
        plugin: the model.
        config: the session's configuration.
        modalities: what is asked for.
        param: the field to name.

    Raises:
        RealtimeError: `ref_audio_required`.
    """
    if plugin.requires_ref_audio and "audio" in modalities and not config.ref_audio:
        raise RealtimeError(
            "ref_audio_required", "the model speaks with the voice of a reference recording only", param=param
        )


def _check_tools(
    plugin: DuplexModelPlugin, config: DuplexSessionConfig, before: DuplexSessionConfig | None = None
) -> None:
    """Refuse functions of a session that the model cannot be told of, and the choice of one that is not there.

    What did not change since `before` is not tried again: schemas may be long.

    Raises:
        RealtimeError: `invalid_value` or the plugin's own code, naming the place.
    """
    if before is None or config.tools != before.tools:
        plugin.check_tools(config.tools, "session.tools")
    chosen = before is None or config.tool_choice != before.tool_choice
    _require_chosen(
        config.tool_choice, config.tools, "session.tool_choice.name" if chosen else "session.tools"
    )


def check_own_tools(
    plugin: DuplexModelPlugin, config: DuplexSessionConfig, options: ResponseCreateOptions
) -> None:
    """As for a session, for the functions of one response.

    Raises:
        RealtimeError: `invalid_value` or the plugin's own code, naming the place.
    """
    tools, choice = options.tools, options.tool_choice
    if tools is not None:
        with _refusals():
            plugin.check_tools(tools, "response.tools")
    _require_chosen(
        config.tool_choice if choice is None else choice,
        config.tools if tools is None else tools,
        "response.tools" if choice is None else "response.tool_choice.name",
    )


def _require_chosen(choice: str | Mapping[str, Any], tools: Sequence[Mapping[str, Any]], param: str) -> None:
    """Refuse the choice of a function that is none of the tools.

    Raises:
        RealtimeError: `invalid_value`, naming `param`.
    """
    if isinstance(choice, Mapping) and all(tool["name"] != choice["name"] for tool in tools):
        raise RealtimeError(
            "invalid_value",
            f"the function {choice['name'][:64]!r} must be called, and is none of the tools",
            param=param,
        )


def _check(plugin: DuplexModelPlugin, config: DuplexSessionConfig) -> None:
    plugin.validate_client_extra_body(config.extra_body)
    check_ref_audio(plugin, config, config.output_modalities, "session.ref_audio")
    owns_turns = isinstance(plugin, ResumableModelPlugin)
    if config.auto_response != owns_turns:
        way = "decides itself when to speak" if owns_turns else "answers turns, and does not speak by itself"
        raise RealtimeError(
            "invalid_duplex_runtime_config",
            f"the model {way}: auto_response can only be {'true' if owns_turns else 'false'}",
            param="session.extra_body.auto_response",
        )
    detection = config.turn_detection
    prompts = isinstance(detection, ServerVad) and detection.idle_timeout_ms is not None
    if prompts and owns_turns:
        raise RealtimeError(
            "unsupported_turn_detection",
            "the model decides itself when to speak, and prompts nobody",
            param="session.audio.input.turn_detection.idle_timeout_ms",
        )


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except RealtimeError:
        raise
    except RequestRefused as refused:
        raise RealtimeError.of(refused) from refused
    except ValueError as error:
        raise RealtimeError(
            "invalid_duplex_runtime_config", str(error), param="session.extra_body"
        ) from error
    except Exception as error:
        # A hook of the model must end neither the session that changes nor the connection that opens one.
        log.exception("session.hook_failed")
        raise RealtimeError("internal_error", f"the model's hook failed: {error}") from error
